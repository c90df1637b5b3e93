"""What must hold of the specs and the time steps of every environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs import time_step as ts
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import array_spec, checks, nest

Nest = nest.Nest

_STEP_TYPES = ("FIRST", "MID", "LAST")


def check_specs(env: PyEnvironment) -> None:
    """Raises ValueError, with the path, unless the specs are specs and agree."""
    if env.batched and (env.batch_size is None or env.batch_size < 1):
        raise ValueError(
            f"batch_size: expected at least 1, since the environment is batched, got "
            f"{env.batch_size!r}."
        )
    time_step_spec = env.time_step_spec()
    if getattr(time_step_spec, "_fields", None) != ts.TimeStep._fields:
        raise ValueError(
            f"time_step_spec(): expected a TimeStep of specs, got {time_step_spec!r}."
        )
    named = {
        "action_spec": env.action_spec(),
        "observation_spec": env.observation_spec(),
        "reward_spec": env.reward_spec(),
        "discount_spec": env.discount_spec(),
    }
    for name, spec in named.items():
        _check_are_specs(spec, name)
    for field in ("observation", "reward", "discount"):
        spec = named[f"{field}_spec"]
        difference = checks.difference(
            spec, getattr(time_step_spec, field), f"time_step_spec().{field}"
        )
        if difference is not None:
            raise ValueError(f"{difference} {field}_spec() says so.")


class TimeStepCheck:
    """Checks one time step after the other of an environment."""

    def __init__(self, env: PyEnvironment) -> None:
        self._env = env
        self._num_rows = env.batch_size
        self._fields = [
            nest.Structure(spec, field)
            for field, spec in env.time_step_spec()._asdict().items()
        ]

    def __call__(self, time_step: Any, previous: ts.TimeStep | None, call: str) -> None:
        """Raises ValueError if `time_step`, which `call` returned, is wrong.

        Args:
            time_step: What to check.
            previous: The time step before it, None after a reset.
            call: For the text of the error.
        """
        try:
            self._check_values(time_step)
            self._check_life_cycle(time_step, previous)
            self._check_is_current(time_step)
        except ValueError as error:
            raise ValueError(f"{call} of {type(self._env).__name__}: {error}") from None

    def _check_values(self, time_step: Any) -> None:
        if getattr(time_step, "_fields", None) != ts.TimeStep._fields:
            raise ValueError(
                "expected a TimeStep, as time_step.restart, transition, termination "
                f"and truncation make them, got {time_step!r}."
            )
        for structure, value in zip(self._fields, time_step, strict=True):
            leaves = structure.flatten(value)
            for leaf, spec, path in zip(
                leaves, structure.specs, structure.paths, strict=True
            ):
                self._check_leaf(leaf, spec, path)
        discount = np.asarray(time_step.discount)
        if not ((discount >= 0) & (discount <= 1)).all():
            raise ValueError(f"discount: expected values in [0, 1], got {discount}.")

    def _check_leaf(self, leaf: Any, spec: array_spec.ArraySpec, path: str) -> None:
        if self._num_rows is None:
            spec.validate(leaf, path)
        elif not spec.is_variable:
            spec.replace(shape=(self._num_rows, *spec.shape)).validate(leaf, path)
        else:
            rows = nest.Structure([spec] * self._num_rows, path)
            for array, row_path in zip(rows.flatten(leaf), rows.paths, strict=True):
                spec.validate(array, row_path)

    def _check_life_cycle(
        self, time_step: ts.TimeStep, previous: ts.TimeStep | None
    ) -> None:
        found = np.atleast_1d(time_step.step_type)
        if not np.isin(found, range(3)).all():
            raise ValueError(
                "step_type: expected 0 (FIRST), 1 (MID) or 2 (LAST), got "
                f"{time_step.step_type}."
            )
        is_first = found == ts.StepType.FIRST
        if previous is None:
            self._raise_at(~is_first, found, "FIRST, as after each reset")
            return
        was_last = np.atleast_1d(previous.is_last())
        self._raise_at(was_last & ~is_first, found, "FIRST, as after each LAST")
        self._raise_at(~was_last & is_first, found, "MID or LAST, as before each LAST")

    def _raise_at(self, wrong: Any, found: Any, expected: str) -> None:
        if wrong.any():
            row = int(np.argmax(wrong))
            where = "" if self._num_rows is None else f" in row {row}"
            raise ValueError(
                f"step_type: expected {expected}{where}, got {_STEP_TYPES[found[row]]}."
            )

    def _check_is_current(self, time_step: ts.TimeStep) -> None:
        current = self._env.current_time_step()
        if current is time_step:
            return
        pairs = zip(nest.flatten(current), nest.flatten(time_step), strict=False)
        if not all(is_same(*pair) for pair in pairs):
            raise ValueError(
                "current_time_step() is not what was returned: expected "
                f"{time_step!r}, got {current!r}."
            )


def is_same(one: npt.ArrayLike, other: npt.ArrayLike) -> bool:
    """Returns whether two arrays agree in dtype, shape and every bit."""
    one, other = np.asarray(one), np.asarray(other)
    return (
        one.dtype == other.dtype
        and one.shape == other.shape
        and one.tobytes() == other.tobytes()
    )


def _check_are_specs(spec: Nest, name: str) -> None:
    structure = nest.Structure(spec, name)
    for leaf, path in zip(structure.specs, structure.paths, strict=True):
        if not isinstance(leaf, array_spec.ArraySpec):
            raise ValueError(f"{path}: expected an ArraySpec, got {leaf!r}.")
