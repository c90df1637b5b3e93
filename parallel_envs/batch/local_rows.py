"""Rows whose environments live in this process."""

from __future__ import annotations

import contextlib
import copy
import os
from concurrent import futures
from typing import Any

from parallel_envs import errors
from parallel_envs.batch.environment_rows import (
    Command,
    Description,
    EnvironmentRows,
    Failure,
)
from parallel_envs.batch.row_server import Array, Outcome, Promise, error_of, first_rows
from parallel_envs.process.shared_arrays import ArrayLayout
from parallel_envs.process.worker import Report


class LocalRows:
    """Steps environments here, one after another or with threads; a `RowServer`.

    The reference that worker processes are held equal to, and where a debugger
    reaches the environments.
    """

    worker_pids: tuple[int, ...] = ()

    def __init__(
        self, rows: EnvironmentRows, threads: futures.Executor | None = None
    ) -> None:
        """Takes over environments.

        Args:
            rows: Closed with this object.
            threads: What `rows` steps them with; shut down with this object.

        Raises:
            WorkerError: If an environment could not be made.
        """
        introduction = rows.introduction()
        if isinstance(introduction, Report):
            raise error_of(introduction.failures)
        self.descriptions: list[Description] = introduction
        self._rows = rows
        self._threads = threads
        self._firsts = first_rows(introduction)
        self._is_closed = False
        self._owner = os.getpid()

    def attach(self, layout: ArrayLayout, num_inputs: int) -> list[Array]:
        """Returns the arrays of the batch, in the memory of this process."""
        arrays = layout.new_arrays()
        self._rows.attach(arrays[:num_inputs], arrays[num_inputs:])
        return arrays

    def round(
        self, command: Command, extras: dict[int, list[Any]] | None
    ) -> Outcome | None:
        """Steps or resets every row."""
        self.check_open()
        report = self._rows.round(command, extras)
        if report is None:
            return None
        return Outcome(report.failures, report.extras or {})

    def ask(self, index: int, name: str, *arguments: Any) -> Promise:
        """Asks an environment at once; the promise returns or raises the result."""
        self.check_open()
        try:
            value = self._rows.request(name, index, *arguments)
        except (Exception, SystemExit) as error:
            rows = range(self._firsts[index], self._firsts[index + 1])
            failure = Failure(rows, name, error)
            return lambda: _raise(error_of([failure], is_request=True))
        if name == "get_info":  # A snapshot, as what travels from a worker is.
            with contextlib.suppress(Exception):  # How it copies is the user's code.
                value = copy.deepcopy(value)
        return lambda: value

    def check_open(self) -> None:
        """Raises ClosedError if this is closed, or belongs to another process."""
        if os.getpid() != self._owner:
            raise errors.ClosedError(
                "the environment belongs to the process that made it, and this is a "
                "fork of that process: make a new environment here."
            )
        if self._is_closed:
            raise errors.ClosedError("the environment is closed.")

    def revive(self) -> None:
        """Does nothing: what lives in this process is not gone."""

    def interrupt(self) -> None:
        """Does nothing: no call waits for another process."""

    def close(self) -> None:
        """Closes every environment; one that raises is logged.

        Does nothing in a child that was forked from the owner.
        """
        if self._is_closed or os.getpid() != self._owner:
            return
        self._is_closed = True
        self._rows.close_quietly()
        if self._threads is not None:
            with contextlib.suppress(RuntimeError):  # The interpreter is ending.
                self._threads.shutdown()


def _raise(error: Exception) -> Any:
    raise error
