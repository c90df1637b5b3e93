"""One pair of specs for environments that lie side by side in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from parallel_envs import time_step as ts
from parallel_envs.batch.environment_rows import Description
from parallel_envs.specs import array_spec, checks, nest


def agreed(descriptions: Sequence[Description]) -> tuple[nest.Nest, ts.TimeStep]:
    """Returns the action spec and the time step spec that hold for every row.

    Names may differ. So may bounds of what environments return: the joined bounds
    then hold. Bounds of actions may not, since one policy acts for all rows.

    Raises:
        ValueError: If anything else differs, naming row, path and both specs.
    """
    first = descriptions[0]
    row = first.num_rows
    for other in descriptions[1:]:
        _refuse(
            row,
            checks.difference(first.action_spec, other.action_spec, "action"),
        )
        _refuse(
            row,
            checks.difference(
                _without_bounds(first.time_step_spec),
                _without_bounds(other.time_step_spec),
                "time_step",
            ),
        )
        row += other.num_rows
    leaves = [
        checks.spec_structure(description.time_step_spec, "time_step").specs
        for description in descriptions
    ]
    structure = nest.Structure(first.time_step_spec, "time_step")
    joined = structure.pack([_join(*same) for same in zip(*leaves, strict=True)])
    return first.action_spec, ts.TimeStep(*joined)


def _refuse(row: int, difference: str | None) -> None:
    if difference is not None:
        raise ValueError(
            f"environment {row} has other specs than environment 0: {difference}"
        )


def _without_bounds(spec: nest.Nest) -> nest.Nest:
    structure = checks.spec_structure(spec, "time_step")
    return structure.pack(list(map(array_spec.ArraySpec.from_spec, structure.specs)))


def _join(*leaves: Any) -> array_spec.ArraySpec:
    first = leaves[0]
    if all(leaf == first for leaf in leaves[1:]):
        return first
    if not all(isinstance(leaf, array_spec.BoundedArraySpec) for leaf in leaves):
        return array_spec.ArraySpec.from_spec(first)
    minimum, maximum = first.minimum, first.maximum
    for leaf in leaves[1:]:
        minimum = np.minimum(minimum, leaf.minimum)
        maximum = np.maximum(maximum, leaf.maximum)
    return array_spec.BoundedArraySpec(
        first.shape, first.dtype, minimum, maximum, first.name
    )
