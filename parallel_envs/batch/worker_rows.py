"""Rows whose environments live in worker processes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from parallel_envs import errors
from parallel_envs.batch.environment_rows import (
    Command,
    Constructor,
    Description,
    Factory,
    Failure,
)
from parallel_envs.batch.row_server import Array, Outcome, Promise, error_of, first_rows
from parallel_envs.process import pickling
from parallel_envs.process.remote_error import RemoteError
from parallel_envs.process.shared_arrays import ArrayLayout
from parallel_envs.process.worker import Report
from parallel_envs.process.worker_pool import MakeFailed, WorkerGone, WorkerPool
from parallel_envs.process.worker_processes import NurseryError
from parallel_envs.specs import checks


class WorkerRows:
    """Steps environments in processes, each with one group of them; a `RowServer`."""

    def __init__(
        self,
        constructors: Sequence[Constructor],
        *,
        num_workers: int,
        context: str,
        preload: Sequence[str],
        start_serially: bool,
        blocking: bool,
        shared_memory: bool,
        validate: bool,
    ) -> None:
        """Starts the workers; arguments are those of `ParallelPyEnvironment`.

        Raises:
            WorkerError: If an environment could not be made.
            TypeError: If a constructor cannot be pickled.
            ValueError: If a module of `preload` will not do.
        """
        self._groups = _spread(len(constructors), num_workers)
        self._worker_of = [w for w, group in enumerate(self._groups) for _ in group]
        self._blocking, self._shared_memory = blocking, shared_memory
        factories = [
            Factory(tuple(constructors[i] for i in group), group[0], validate)
            for group in self._groups
        ]
        try:
            self._pool = WorkerPool(
                factories if context == "fork" else [_pickled(f) for f in factories],
                context=context,
                preload=preload,
                start_serially=start_serially,
            )
        except (MakeFailed, WorkerGone, NurseryError) as error:
            told = self._start_error(error)
            raise told from told.__cause__
        self.descriptions = self._introduced()
        self._is_agreed = True
        self._firsts = first_rows(self.descriptions)
        self._spans = [
            (self._firsts[group[0]], self._firsts[group[-1] + 1])
            for group in self._groups
        ]
        self._can_ring = self._pool.has_bell and shared_memory and not blocking
        self._inputs: list[Array] = []
        self._outputs: list[Array] = []

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The process of each constructor's environment."""
        pids = self._pool.pids
        return tuple(pids[worker] for worker in self._worker_of)

    def attach(self, layout: ArrayLayout, num_inputs: int) -> list[Array]:
        """Returns the arrays of the batch, shared with the workers or not."""
        try:
            arrays = self._pool.attach(
                layout, num_inputs, self._spans, shared_memory=self._shared_memory
            )
        except (MakeFailed, WorkerGone) as error:
            told = self._start_error(error)
            raise told from told.__cause__
        self._inputs, self._outputs = arrays[:num_inputs], arrays[num_inputs:]
        return arrays

    def round(
        self, command: Command, extras: dict[int, list[Any]] | None
    ) -> Outcome | None:
        """Steps or resets every row, and waits until all are done."""
        if self._can_ring and extras is None:
            news = self._pool.round(int(command))
            if news is None:
                return None
        else:
            news = self._round_by_channel(command, extras)
        return self._outcome(command, news)

    def ask(self, index: int, name: str, *arguments: Any) -> Promise:
        """Asks an environment; several promises may be open at a time."""
        worker = self._worker_of[index]
        group = self._groups[worker]
        try:
            number = self._pool.ask(worker, name, index - group[0], *arguments)
        except WorkerGone as gone:
            raise self._request_error(index, name, gone) from None
        return _Answer(self, index, name, number)

    def answer(self, index: int, name: str, number: int) -> Any:
        """Returns the answer to a request, or raises it."""
        try:
            answer = self._pool.answer(number)
        except WorkerGone as gone:
            raise self._request_error(index, name, gone) from None
        if isinstance(answer, RemoteError):
            error = self._request_error(index, name, answer)
            raise error from error.__cause__
        return answer

    def forget(self, number: int) -> None:
        """Drops a request that nobody will ask the answer of."""
        self._pool.forget(number)

    def check_open(self) -> None:
        """Raises ClosedError if this is closed, or belongs to another process."""
        self._pool.check_open()

    def revive(self) -> None:
        """Starts new workers in place of dead ones.

        Raises:
            WorkerError: If an environment could not be made.
            ValueError: If an environment now has other specs than before.
        """
        self._pool.settle()
        if self._is_agreed and not self._pool.dead:
            return
        self._is_agreed = False
        try:
            self._pool.replace_dead()
        except (MakeFailed, WorkerGone, NurseryError) as error:
            told = self._start_error(error)
            raise told from told.__cause__
        for index, (old, new) in enumerate(
            zip(self.descriptions, self._introduced(), strict=True)
        ):
            _refuse_change(index, old, new)
        self._is_agreed = True

    def interrupt(self) -> None:
        """Makes a call that waits in another thread end with ClosedError."""
        self._pool.interrupt()

    def close(self) -> None:
        """Closes the environments, ends the workers, frees everything."""
        self._pool.close()
        self._inputs, self._outputs = [], []

    def _introduced(self) -> list[Description]:
        return list(itertools.chain.from_iterable(self._pool.introductions))

    def _round_by_channel(
        self, command: Command, extras: dict[int, list[Any]] | None
    ) -> dict[int, Report | RemoteError]:
        """Does a round with one message to each worker; `blocking` one at a time."""
        self._pool.settle()
        news: dict[int, Report | RemoteError] = {}
        asked: dict[int, int] = {}
        for worker, (first, end) in enumerate(self._spans):
            own = extras and {n: rows[first:end] for n, rows in extras.items()}
            inputs = [array[first:end] for array in self._inputs]
            try:
                asked[worker] = self._pool.ask_round(
                    worker, int(command), None if self._shared_memory else inputs, own
                )
                if self._blocking:
                    self._collect(worker, asked.pop(worker), news)
            except WorkerGone:
                continue  # It is among the dead, whom `_outcome` adds.
        for worker, number in asked.items():
            try:
                self._collect(worker, number, news)
            except WorkerGone:
                continue
        return news

    def _collect(
        self, worker: int, number: int, news: dict[int, Report | RemoteError]
    ) -> None:
        answer = self._pool.answer(number)
        if isinstance(answer, RemoteError):
            news[worker] = answer
            return
        report, outputs = answer
        if report is not None:
            news[worker] = report
        first, end = self._spans[worker]
        for array, value in zip(self._outputs, outputs or (), strict=False):
            array[first:end] = value

    def _outcome(
        self, command: Command, news: dict[int, Report | RemoteError]
    ) -> Outcome:
        doing = command.name.lower()
        failures: list[Failure] = [
            Failure(range(*self._spans[worker]), doing, self._gone(worker))
            for worker in self._pool.dead
        ]
        extras: dict[int, list[Any]] = {}
        for worker, report in sorted(news.items()):
            first, end = self._spans[worker]
            if isinstance(report, RemoteError):
                failures.append(Failure(range(first, end), doing, report))
                continue
            for failure in report.failures:
                rows = [first + row for row in failure.rows]
                failures.append(Failure(rows, failure.doing, failure.error))
            variable: dict[int, list[Any]] = report.extras or {}
            for position, values in variable.items():
                rows = extras.setdefault(position, [None] * self._firsts[-1])
                rows[first:end] = values
        return Outcome(tuple(failures), extras)

    def _gone(self, worker: int) -> WorkerGone:
        return WorkerGone(worker, self._pool.exitcode(worker))

    def _request_error(
        self, index: int, name: str, error: RemoteError | WorkerGone
    ) -> Exception:
        rows = range(self._firsts[index], self._firsts[index + 1])
        return error_of([Failure(rows, name, error)], is_request=True)

    def _start_error(self, error: MakeFailed | WorkerGone | NurseryError) -> Exception:
        if isinstance(error, NurseryError):
            if error.is_refusal:
                return ValueError(str(error))
            return errors.WorkerDiedError([0], "start", [f" cannot start: {error}."])
        if isinstance(error, WorkerGone):
            group = self._groups[error.worker]
            return error_of([Failure(group, "construction", error)])
        if isinstance(error.answer, RemoteError):
            group = self._groups[error.worker]
            return error_of([Failure(group[:1], "construction", error.answer)])
        return error_of(error.answer.failures)


class _Answer:
    """A promise: called without arguments it returns the answer, each time."""

    def __init__(self, rows: WorkerRows, index: int, name: str, number: int) -> None:
        self._rows = rows
        self._request = (index, name, number)
        self._is_answered = False
        self._value: Any = None
        self._error: errors.WorkerError | None = None

    def __call__(self) -> Any:
        if not self._is_answered:
            try:
                self._value = self._rows.answer(*self._request)
            except errors.WorkerError as error:
                self._error = error
            self._is_answered = True
        if self._error is not None:
            raise self._error
        return self._value

    def __del__(self) -> None:
        if not self._is_answered:
            self._rows.forget(self._request[-1])


def _spread(num_constructors: int, num_workers: int) -> list[range]:
    """Returns which constructors each worker gets: neighbours, as evenly as can be."""
    bounds = [
        worker * num_constructors // num_workers for worker in range(num_workers + 1)
    ]
    return [range(first, end) for first, end in itertools.pairwise(bounds)]


def _pickled(factory: Factory) -> bytes:
    try:
        return pickling.dumps(factory)
    except TypeError as error:
        for position, constructor in enumerate(factory.constructors, factory.first):
            try:
                pickling.dumps(constructor)
            except TypeError as cause:
                raise TypeError(
                    f"env_constructors[{position}] {cause}. Make what it needs inside "
                    'of it, or use context="fork".'
                ) from None
        raise TypeError(f"env_constructors: {error}") from None


def _refuse_change(index: int, old: Description, new: Description) -> None:
    for name in ("action_spec", "time_step_spec"):
        change = checks.difference(getattr(old, name), getattr(new, name), name)
        if change is not None or old.batch_size != new.batch_size:
            raise ValueError(
                f"environment {index} has other specs since it was made anew: "
                f"{change or f'batch_size {old.batch_size}, now {new.batch_size}'} "
                "Close this batch, and make a new one."
            )
