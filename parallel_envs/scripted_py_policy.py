"""A policy that follows a script, for tests and for replaying by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs import py_policy, trajectory
from parallel_envs import time_step as ts
from parallel_envs.specs import array_spec, nest

Nest = nest.Nest


class ScriptedPyPolicy(py_policy.PyPolicy):
    """Does what its script says, step after step, whatever it sees.

    Its state is `(entry, times)`: the entry of the script it is at, and how often it
    has done what that says. `()` and None stand for the beginning.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep | None,
        action_spec: Nest,
        action_script: Sequence[tuple[int, Nest]],
    ) -> None:
        """Checks the script and keeps it.

        Args:
            time_step_spec: See `PyPolicy`; may be None.
            action_spec: Of the actions, without batch dimension.
            action_script: Pairs `(times, action)`: do `action` that many times. Entries
                of 0 or fewer times are left out. Leaves of actions may be lists or
                numbers. Rows of a batch all do the same.

        Raises:
            ValueError: If an action does not fit `action_spec`; it says which.
        """
        super().__init__(time_step_spec, action_spec)
        self._structure = nest.Structure(action_spec, "action")
        self._script = [
            (times, self._checked(action, entry))
            for entry, (times, action) in enumerate(action_script)
        ]

    def _get_initial_state(self, batch_size: int | None) -> tuple[int, int]:
        return (0, 0)

    def _action(
        self, time_step: ts.TimeStep, policy_state: Nest, seed: int | None = None
    ) -> trajectory.PolicyStep:
        entry, times = policy_state or (0, 0)
        while entry < len(self._script) and times >= self._script[entry][0]:
            entry, times = entry + 1, 0
        if entry >= len(self._script):
            raise ValueError(
                "The episode is longer than the script. Make the script longer, or end "
                "the episode in time with wrappers.TimeLimit."
            )
        outer_dims = np.asarray(time_step.step_type).shape
        leaves = [
            np.array(np.broadcast_to(leaf, outer_dims + leaf.shape))
            for leaf in self._script[entry][1]
        ]
        return trajectory.PolicyStep(self._structure.pack(leaves), (entry, times + 1))

    def _checked(self, action: Nest, entry: int) -> list[npt.NDArray[Any]]:
        """Returns the leaves of `action` as arrays that fit the spec."""
        try:
            leaves = self._structure.flatten(action)
            arrays = [
                _cast(leaf, spec, path)
                for leaf, spec, path in zip(
                    leaves, self._structure.specs, self._structure.paths, strict=True
                )
            ]
        except ValueError as error:
            raise ValueError(f"action_script[{entry}]: {error}") from None
        return arrays


def _cast(leaf: Any, spec: array_spec.ArraySpec, path: str) -> npt.NDArray[Any]:
    given = np.asarray(leaf)
    array = given.astype(spec.dtype)
    if array_spec.is_discrete(spec) and not np.array_equal(array, given):
        array = given  # For the error below: the cast changed a value.
    return spec.validate(array, path)
