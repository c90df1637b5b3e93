"""The rows of one environment after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parallel_envs import time_step as ts
from parallel_envs.batch.failure import Failure
from parallel_envs.batch.row_writer import RowWriter
from parallel_envs.process.worker import leave_if_copy
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import nest

Faults = tuple[type[BaseException], ...]
"""What an environment may raise without ending whoever steps it."""


class Slot:
    """Has an environment stepped, and what it returns written into its rows.

    Attributes:
        rows: The rows.
        place: The rows as an index: a number where the environment is not batched.
        is_batched: Whether the environment answers for several rows at once.
        quick: The environment's `step` where all that is left to do is to call it with
            an action and to write what it returns into the one row; else None.
    """

    def __init__(self, rows: slice, is_batched: bool, faults: Faults) -> None:
        self.rows = rows
        self.is_batched = is_batched
        self._faults = faults
        self.place: Any = rows if is_batched else rows.start
        self.quick: Callable[[nest.Nest], Any] | None = None

    def fill(
        self, env: PyEnvironment, writer: RowWriter, begin: Callable[[], None] | None
    ) -> None:
        """Takes a new environment, which the next step will reset.

        Args:
            env: Replaces what was here before.
            writer: Where its time steps go.
            begin: Called before the environment is.
        """
        self._step, self._reset = env.step, env.reset
        self._write: Any = writer.write_block if self.is_batched else writer.write
        self._begin = begin
        self._set_new(True)

    def step(self, action: nest.Nest) -> Failure | None:
        """Steps the environment; returns what went wrong."""
        if self._is_new:
            return self.reset()
        if self._begin is not None:
            self._begin()
        try:
            time_step = self._step(action)
        except self._faults as error:
            return self.fail(error)
        return self.take(time_step)

    def take(self, time_step: ts.TimeStep) -> Failure | None:
        """Writes what a step has returned; returns what went wrong."""
        try:
            leave_if_copy()
            self._write(self.place, time_step)
        except self._faults as error:
            return self.fail(error)
        return None

    def reset(self) -> Failure | None:
        """Resets the environment; returns what went wrong."""
        if self._begin is not None:
            self._begin()
        try:
            time_step = self._reset()
            leave_if_copy()
            self._write(self.place, time_step)
        except self._faults as error:
            return self.fail(error, "reset")
        self._set_new(False)
        return None

    def start(self, twice: bool) -> Failure | None:
        """Resets it; if `twice`, the next step will do so once more."""
        failure = self.reset()
        self._set_new(twice)
        return failure

    def fail(self, error: BaseException, doing: str = "step") -> Failure:
        """Returns what the environment has raised as what went wrong."""
        leave_if_copy(error)
        return Failure(range(self.rows.start, self.rows.stop), doing, error)

    def _set_new(self, is_new: bool) -> None:
        self._is_new = is_new
        self.quick = None if is_new or self.is_batched else self._step
