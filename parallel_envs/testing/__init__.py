"""What tests of environments need: environments to test with, and tests to inherit.

`environments` is here after the import; `conformance` needs pytest and is imported by
its own name.
"""

from parallel_envs.testing import environments as environments
from parallel_envs.testing.random_py_environment import (
    RandomPyEnvironment as RandomPyEnvironment,
)
