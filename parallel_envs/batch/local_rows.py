"""Rows whose environments live in this process."""

from __future__ import annotations

import collections
import contextlib
import copy
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent import futures
from typing import Any

from parallel_envs import errors
from parallel_envs.batch.environment_rows import (
    Birth,
    Command,
    Description,
    EnvironmentRows,
)
from parallel_envs.batch.failure import Failure
from parallel_envs.batch.row_server import (
    Array,
    Landing,
    Outcome,
    Promise,
    error_of,
    first_rows,
    refuse_change,
)
from parallel_envs.process.shared_arrays import ArrayLayout
from parallel_envs.process.worker import Report


class LocalRows:
    """Steps environments here, one after another or with threads; a `RowServer`.

    The reference that worker processes are held equal to, and where a debugger
    reaches the environments.
    """

    has_processes = False
    worker_pids: tuple[int, ...] = ()

    def __init__(
        self, rows: EnvironmentRows, threads: futures.Executor | None = None
    ) -> None:
        """Takes over environments.

        Args:
            rows: Closed with this object.
            threads: What `rows` steps them with; shut down with this object.
        """
        self._rows = rows
        self._threads = threads
        self._told: list[Description] | Report | None = None
        self._sent: collections.deque[tuple[int, dict[int, list[Any]] | None]]
        self._sent = collections.deque()
        self._is_closed = False
        self._is_ending = threading.Event()
        self._owner = os.getpid()
        self.descriptions = [Description.of(env) for env in rows.environments]

    @property
    def missing(self) -> list[int]:
        """The constructors whose environment is yet to be made."""
        return self._rows.missing

    def take_stock(self) -> tuple[Failure, ...]:
        """Returns nothing: there is no process that could be gone."""
        return ()

    def end_busy(self, name: str) -> None:
        """Does nothing: there is no process that could be busy."""

    def renew(self, discarded: Iterable[int], births: Sequence[Birth]) -> None:
        """Makes environments at once; `await_renewed` tells what came of it."""
        self.check_open()
        self._rows.discard(discarded)
        self._told = self._rows.renew(births)

    def await_renewed(self) -> tuple[Failure, ...]:
        """Returns what failed when environments were made."""
        told, self._told = self._told, None
        if isinstance(told, Report):
            return told.failures
        for index, description in enumerate(told or ()):
            if index < len(self.descriptions):
                refuse_change(index, self.descriptions[index], description)
            else:
                self.descriptions.append(description)
        return ()

    def attach(
        self, layout: ArrayLayout, num_inputs: int, num_buffers: int
    ) -> list[Array]:
        """Returns the arrays of the batch, in the memory of this process."""
        self._firsts = first_rows(self.descriptions)
        arrays = layout.with_ring(num_inputs, num_buffers).new_arrays()
        self._rows.attach(arrays[:num_inputs], arrays[num_inputs:])
        return arrays

    def round(
        self, command: Command, extras: dict[int, list[Any]] | None, buffer: int
    ) -> Outcome | None:
        """Steps or resets every row."""
        if self._is_closed:  # While the caller waited for its turn.
            self.check_open()
        report = self._rows.round(command.into(buffer), extras)
        if report is None:
            return None
        return Outcome(report.failures, report.extras or {})

    def start(self, twice: Mapping[int, bool], buffer: int) -> Outcome | None:
        """Resets some new environments at once."""
        report = self._rows.round(Command.START.into(buffer), list(twice.items()))
        return report and Outcome(report.failures, report.extras or {})

    def send(
        self, orders: Mapping[int, dict[int, list[Any]] | None], buffer: int
    ) -> None:
        """Notes what is to be stepped; `landed` does it."""
        self.check_open()
        self._command = Command.STEP.into(buffer)
        self._sent.extend(orders.items())

    def landed(self, at_least: int, until: float | None) -> list[Landing]:
        """Steps as many environments as are waited for, oldest first."""
        self.check_open()
        landings: list[Landing] = []
        while self._sent and len(landings) < at_least and until is None:
            index, extras = self._sent.popleft()
            report = self._rows.part(index, self._command, extras)
            told = Report() if report is None else report
            landings.append(Landing(index, told.failures, told.extras or {}))
        return landings

    def drop(self) -> None:
        """Forgets what was noted."""
        self._sent.clear()

    def ask(self, index: int, name: str, *arguments: Any) -> Promise:
        """Asks an environment at once; the promise returns or raises the result."""
        self.check_open()
        try:
            value = self._request(index, name, arguments)
        except (Exception, SystemExit) as error:
            failure = Failure(self._rows_of(index), name, error)
            return lambda: _raise(error_of([failure], is_request=True))
        return lambda: value

    def ask_all(self, name: str, arguments: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        """Asks environments, one after another."""
        self.check_open()
        answers: list[Any] = []
        failures: list[Failure] = []
        for index, own in arguments.items():
            try:
                answers.append(self._request(index, name, own))
            except (Exception, SystemExit) as error:
                failures.append(Failure(self._rows_of(index), name, error))
        if failures:
            error = error_of(failures, is_request=True)
            raise error from error.__cause__
        return answers

    def pause(self, seconds: float) -> None:
        """Waits; a call of `interrupt` ends it with ClosedError."""
        if self._is_ending.wait(seconds):
            raise errors.ClosedError("the environment is closed.")

    def check_open(self) -> None:
        """Raises ClosedError if this is closed, or belongs to another process."""
        errors.check_owner(self._owner)
        if self._is_closed:
            raise errors.ClosedError("the environment is closed.")

    def interrupt(self) -> None:
        """Ends a pause in another thread, and those to come."""
        self._is_ending.set()

    def close(self) -> None:
        """Closes every environment; one that raises is logged.

        Does nothing in a child that was forked from the owner.
        """
        if self._is_closed or os.getpid() != self._owner:
            return
        self._is_closed = True
        self._rows.close()
        if self._threads is not None:
            with contextlib.suppress(RuntimeError):  # The interpreter is ending.
                self._threads.shutdown()

    def _request(self, index: int, name: str, arguments: Sequence[Any]) -> Any:
        value = self._rows.request(name, index, *arguments)
        if name == "get_info":  # A snapshot, as what travels from a worker is.
            with contextlib.suppress(Exception):  # How it copies is the user's code.
                value = copy.deepcopy(value)
        return value

    def _rows_of(self, index: int) -> range:
        return range(self._firsts[index], self._firsts[index + 1])


def _raise(error: Exception) -> Any:
    raise error
