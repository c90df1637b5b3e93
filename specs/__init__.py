"""What arrays look like, and nests of them.

A nest is a dict, list, tuple or named tuple of arrays or specs, or of nests.
"""

from parallel_envs.specs.array_spec import ArraySpec as ArraySpec
from parallel_envs.specs.array_spec import BoundedArraySpec as BoundedArraySpec
from parallel_envs.specs.array_spec import is_bounded as is_bounded
from parallel_envs.specs.array_spec import is_continuous as is_continuous
from parallel_envs.specs.array_spec import is_discrete as is_discrete
from parallel_envs.specs.batching import add_outer_dim as add_outer_dim
from parallel_envs.specs.batching import add_outer_dims_nest as add_outer_dims_nest
from parallel_envs.specs.checks import (
    assert_arrays_spec_nest as assert_arrays_spec_nest,
)
from parallel_envs.specs.checks import check_arrays_nest as check_arrays_nest
from parallel_envs.specs.checks import difference as difference
from parallel_envs.specs.checks import validate as validate
from parallel_envs.specs.nest import Nest as Nest
from parallel_envs.specs.nest import Structure as Structure
from parallel_envs.specs.nest import assert_same_structure as assert_same_structure
from parallel_envs.specs.nest import flatten as flatten
from parallel_envs.specs.nest import map_structure as map_structure
from parallel_envs.specs.nest import pack as pack
from parallel_envs.specs.sampling import sample as sample
from parallel_envs.specs.sampling import sample_bounded_spec as sample_bounded_spec
from parallel_envs.specs.sampling import sample_spec_nest as sample_spec_nest
from parallel_envs.specs.sampling import zeros as zeros
