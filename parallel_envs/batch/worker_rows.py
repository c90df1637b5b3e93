"""Rows whose environments live in worker processes."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from parallel_envs import errors
from parallel_envs.batch.environment_rows import (
    Birth,
    Command,
    Constructor,
    Description,
    Factory,
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
from parallel_envs.batch.row_writer import buffers_of
from parallel_envs.process import pickling
from parallel_envs.process.errands import has_failed
from parallel_envs.process.part_rounds import PartAnswer, PartOrder, PartRounds
from parallel_envs.process.remote_error import RemoteError
from parallel_envs.process.shared_arrays import ArrayLayout
from parallel_envs.process.worker import Report
from parallel_envs.process.worker_handle import WorkerGone
from parallel_envs.process.worker_pool import CLOSE_SECONDS, WorkerPool
from parallel_envs.process.worker_processes import NurseryError

_FAILED_START_SECONDS = 1.0  # For those of a batch that did not come about.


class WorkerRows:
    """Steps environments in processes, each with one group of them; a `RowServer`."""

    has_processes = True

    def __init__(
        self,
        constructors: Sequence[Constructor],
        *,
        num_workers: int,
        context: str,
        preload: Sequence[str],
        affinity: Sequence[Collection[int]],
        start_serially: bool,
        max_concurrency: int | None,
        shared_memory: bool,
        validate: bool,
        start_timeout: float | None,
        step_timeout: float | None,
        wait_for_all: bool,
    ) -> None:
        """Starts nothing yet; arguments are those of `ParallelPyEnvironment`.

        Args:
            wait_for_all: Whether a failure of one row is no reason not to wait for the
                others.

        Raises:
            TypeError: If a constructor cannot be pickled.
        """
        self._groups = _spread(len(constructors), num_workers)
        self._worker_of = [w for w, group in enumerate(self._groups) for _ in group]
        self._is_serial, self._max_concurrency = start_serially, max_concurrency
        self._start_timeout = start_timeout
        self._shared_memory, self._wait_for_all = shared_memory, wait_for_all
        factories = [
            Factory(
                tuple(constructors[i] for i in group),
                group[0],
                validate,
                is_timed=step_timeout is not None,
            )
            for group in self._groups
        ]
        self._pool = WorkerPool(
            factories if context == "fork" else [_pickled(f) for f in factories],
            context=context,
            num_parts=[len(group) for group in self._groups],
            preload=preload,
            affinity=affinity,
            start_timeout=start_timeout,
            timeout=step_timeout,
            max_concurrency=max_concurrency,
        )
        is_limited = max_concurrency is not None and max_concurrency < num_workers
        self._can_ring = self._pool.has_bell and shared_memory and not is_limited
        self._told: list[Description | None] = [None] * len(constructors)
        self._present: set[int] = set()
        self._idle: set[int] = set()  # Workers that were not asked to make an object.
        self._unattached: set[int] = set()  # Workers whose object has no rows yet.
        self._renewing: dict[int, int] = {}  # number of the request: worker
        self._answers: dict[int, Any] = {}  # By worker: what has come in already.
        self._firsts: list[int] = []
        self._spans: list[tuple[int, int]] = []
        self._inputs: list[Array] = []
        self._buffers: list[list[Array]] = []  # Outputs, where no memory is shared.
        self._sent: dict[int, int] = {}  # Constructor: buffer, of what is under way.
        self._told_of: set[int] = set()  # Births of workers whose loss was told.

    @property
    def descriptions(self) -> list[Description]:
        """One for each constructor, once all environments were made."""
        return [told for told in self._told if told is not None]

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The process of each constructor's environment."""
        pids = self._pool.pids
        return tuple(pids[worker] for worker in self._worker_of)

    @property
    def missing(self) -> list[int]:
        """The constructors whose environment is yet to be made."""
        return [n for n in range(len(self._told)) if n not in self._present]

    def take_stock(self) -> tuple[Failure, ...]:
        """Counts environments as missing whose process is gone; tells of them."""
        self._pool.settle()
        self._pool.pause(0.0)  # Deaths that nobody has looked at are noted.
        lost: list[Failure] = []
        for worker in self._pool.dead:
            present = self._present.intersection(self._groups[worker])
            gone = self._pool.gone(worker)
            lost += [self._failure(index, "reset", gone) for index in sorted(present)]
            self._present -= present
        return tuple(lost)

    def end_busy(self, name: str) -> None:
        """Ends processes that are still at something after 3 seconds."""
        self._pool.end_busy(CLOSE_SECONDS, name)

    def renew(self, discarded: Iterable[int], births: Sequence[Birth]) -> None:
        """Begins to make environments, in new workers where the old ones are gone.

        A worker that died meanwhile with environments that are not to be discarded is
        left to the next round, which tells that they were lost.

        Raises:
            WorkerError: If no worker can be started.
            ValueError: If a module to preload will not do.
        """
        if not self._sent:  # Else it would wait for the slowest.
            self._pool.settle()
        self._present -= set(discarded)
        living, groups = set(self._pool.living), list(enumerate(self._groups))
        lacking = [w for w, group in groups if not self._present.issuperset(group)]
        fresh = [
            worker
            for worker in lacking
            if worker not in living and self._present.isdisjoint(self._groups[worker])
        ]
        workers = [worker for worker in lacking if worker in living or worker in fresh]
        self._start(fresh)
        self._idle.update(fresh)
        for worker in workers:
            group = self._groups[worker]
            own = births[group[0] : group[-1] + 1]
            if worker in self._idle:
                self._idle.remove(worker)
                self._unattached.add(worker)
                number = self._pool.make(worker, own)
            else:
                gone = [i - group[0] for i in group if i not in self._present]
                # Done before the next request; if it takes too long, that fails.
                self._pool.forget(self._pool.ask_to_close(worker, "close", gone))
                number = self._pool.ask_to_make(worker, "renew", own)
            self._renewing[number] = worker
            # Only the very start is serial: a repair is to be over soon.
            if self._is_serial and not self._spans and self._take_renewed():
                break

    def await_renewed(self) -> tuple[Failure, ...]:
        """Waits until what `renew` has begun is done; returns what failed."""
        self._take_renewed()
        answers, self._answers = self._answers, {}
        failures: list[Failure] = []
        for worker, answer in sorted(answers.items()):
            if isinstance(answer, list):
                self._introduce(worker, cast("list[Description]", answer))
            else:
                failures += self._not_made(worker, answer)
        if self._spans:
            failures += self._attach()
        return tuple(failures)

    def attach(
        self, layout: ArrayLayout, num_inputs: int, num_buffers: int
    ) -> list[Array]:
        """Returns the arrays of the batch, shared with the workers or not."""
        self._firsts = first_rows(self.descriptions)
        self._spans = [
            (self._firsts[group[0]], self._firsts[group[-1] + 1])
            for group in self._groups
        ]
        ring = layout.with_ring(num_inputs, num_buffers)
        if self._shared_memory:
            return self._pool.lay_out(ring, num_inputs, self._spans)
        # Workers need no ring: what they send is copied out of the channel.
        self._pool.lay_out_apart(layout, num_inputs, self._spans)
        arrays = ring.new_arrays()
        self._inputs, outputs = arrays[:num_inputs], arrays[num_inputs:]
        self._buffers = buffers_of(outputs, len(outputs) // num_buffers)
        return arrays

    def round(
        self, command: Command, extras: dict[int, list[Any]] | None, buffer: int
    ) -> Outcome | None:
        """Steps or resets every row, and waits until all are done."""
        if self._can_ring and extras is None:
            news = self._pool.round(
                command.into(buffer), wait_for_all=self._wait_for_all
            )
            if news is None:
                return None
            return self._outcome(command, news)
        values: dict[int, Any] = {}
        for worker, (first, end) in enumerate(self._spans):
            own = extras and {n: rows[first:end] for n, rows in extras.items()}
            values[worker] = self._own_inputs(first, end), own
        return self._round_by_channel(command, values, buffer)

    def start(self, twice: Mapping[int, bool], buffer: int) -> Outcome | None:
        """Resets some new environments at once."""
        values: dict[int, Any] = {}
        for index, is_twice in twice.items():
            worker = self._worker_of[index]
            inputs = None if self._shared_memory else ()
            own = values.setdefault(worker, (inputs, []))
            own[1].append((index - self._groups[worker][0], is_twice))
        return self._round_by_channel(Command.START, values, buffer)

    def send(
        self, orders: Mapping[int, dict[int, list[Any]] | None], buffer: int
    ) -> None:
        """Has environments stepped, and does not wait."""
        self._sent |= dict.fromkeys(orders, buffer)
        command = Command.STEP.into(buffer if self._shared_memory else 0)
        self._parts.ask(
            command,
            {
                index: PartOrder(self._own_inputs(*self._rows_of(index)), extras)
                for index, extras in orders.items()
            },
        )

    def landed(self, at_least: int, until: float | None) -> list[Landing]:
        """Returns what came of environments that were sent, oldest first."""
        answers = self._parts.take(at_least, until)
        landings = [self._landing(answer) for answer in answers]
        landed = {landing.index for landing in landings}
        for worker in self._pool.dead:
            gone = self._pool.gone(worker)
            if gone.birth in self._told_of:
                continue
            self._told_of.add(gone.birth)
            for index in self._groups[worker]:
                if index not in landed:
                    failure = self._failure(index, "step", gone)
                    landings.append(Landing(index, (failure,), {}))
        return landings

    def drop(self) -> None:
        """Forgets environments that were sent; what has begun may go on."""
        self._sent.clear()
        self._pool.drop_parts()

    def ask(self, index: int, name: str, *arguments: Any) -> Promise:
        """Asks an environment; several promises may be open at a time."""
        return _Answer(self, index, name, self._ask(index, name, arguments))

    def answer(self, index: int, name: str, number: int) -> Any:
        """Returns the answer to a request, or raises it."""
        answer = self._pool.answer(number)
        if isinstance(answer, (RemoteError, WorkerGone)):
            failure = self._failure(index, name, answer)
            error = error_of([failure], is_request=True)
            raise error from error.__cause__
        return answer

    def forget(self, number: int) -> None:
        """Drops a request that nobody will ask the answer of."""
        self._pool.forget(number)

    def ask_all(self, name: str, arguments: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        """Asks environments, all before it waits for the first."""
        asked: dict[int, int] = {}
        try:
            for index, own in arguments.items():
                asked[self._ask(index, name, own)] = index
        except TypeError as error:
            for number in asked:
                self._pool.forget(number)
            index = list(arguments)[len(asked)]
            own = arguments[index]
            what = f"{name}({own[0]!r})" if own else name
            raise TypeError(f"{what}: row {index}: {error}") from None
        answers = self._pool.gather(list(asked))
        failures = [
            self._failure(asked[number], name, answer)
            for number, answer in answers.items()
            if isinstance(answer, (RemoteError, WorkerGone))
        ]
        if failures:
            error = error_of(failures, is_request=True)
            raise error from error.__cause__
        return [answers[number] for number in asked]

    def pause(self, seconds: float) -> None:
        """Waits; a call of `interrupt` ends it."""
        self._pool.pause(seconds)

    def check_open(self) -> None:
        """Raises ClosedError if this is closed, or belongs to another process."""
        self._pool.check_open()

    def interrupt(self) -> None:
        """Makes a call that waits in another thread end with ClosedError."""
        self._pool.interrupt()

    def close(self) -> None:
        """Closes the environments, ends the workers, frees everything."""
        self._pool.close(CLOSE_SECONDS if self._spans else _FAILED_START_SECONDS)
        self._inputs, self._buffers = [], []

    def _start(self, workers: Sequence[int]) -> None:
        for is_last in (not self._spans, True):
            try:
                self._pool.start(workers)
                return
            except NurseryError as error:
                # It may have died with the workers, and unnoticed: another one is
                # tried. At the very start it fails by itself, and would again.
                if error.is_refusal:
                    raise ValueError(str(error)) from None
                if is_last:
                    raise _no_start(error, self._start_timeout) from None

    def _take_renewed(self) -> bool:
        """Waits for what was asked for; returns whether something has failed."""
        asked, self._renewing = self._renewing, {}
        try:
            answers = self._pool.gather(list(asked), wait_for_all=self._wait_for_all)
        except BaseException:
            # It is not known what they have made, and whether.
            self._pool.kill(list(asked.values()))
            raise
        self._answers |= {asked[number]: answer for number, answer in answers.items()}
        return any(map(has_failed, answers.values()))

    def _introduce(self, worker: int, descriptions: list[Description]) -> None:
        group = self._groups[worker]
        for index, description in zip(group, descriptions, strict=True):
            old = self._told[index]
            if old is not None:
                refuse_change(index, old, description)
            self._told[index] = description
        self._present |= set(group)

    def _not_made(self, worker: int, answer: Any) -> list[Failure]:
        group = self._groups[worker]
        if isinstance(answer, Report):
            return list(answer.failures)
        if isinstance(answer, RemoteError):
            # There is no object in it that could be asked again.
            self._pool.kill([worker])
            return [Failure(group[:1], "construction", answer)]
        part: int = answer.part
        doing: str = answer.doing
        return [Failure([group[part]], doing or "construction", answer)]

    def _attach(self) -> list[Failure]:
        """Gives workers that have all of their environments their rows."""
        ready = [
            w for w in self._unattached if self._present.issuperset(self._groups[w])
        ]
        asked = {self._pool.attach(worker): worker for worker in ready}
        answers = self._pool.gather(list(asked), wait_for_all=True)
        failures: list[Failure] = []
        for number, worker in asked.items():
            if isinstance(answers[number], (RemoteError, WorkerGone)):
                # Without rows what it has made is of no use to anybody.
                self._present -= set(self._groups[worker])
                failures += self._not_made(worker, answers[number])
            else:
                self._unattached.remove(worker)
        return failures

    @property
    def _parts(self) -> PartRounds:
        self._pool.check_open()
        assert self._pool.parts is not None, "a step before the rows were laid out"
        return self._pool.parts

    def _rows_of(self, index: int) -> tuple[int, int]:
        return self._firsts[index], self._firsts[index + 1]

    def _landing(self, answer: PartAnswer) -> Landing:
        """Takes in what came of one environment."""
        index, told = answer.part, answer.told
        first, end = self._rows_of(index)
        buffer = self._sent.pop(index)
        for position, value in enumerate(answer.values or ()):
            self._buffers[buffer][position][first:end] = value
        if isinstance(told, (RemoteError, WorkerGone)):
            return Landing(index, (self._failure(index, "step", told),), {})
        report: Report = told or Report()
        failures = [
            Failure(range(first, end), f.doing, f.error) for f in report.failures
        ]
        return Landing(index, tuple(failures), report.extras or {})

    def _own_inputs(self, first: int, end: int) -> list[Array] | None:
        """Returns what travels along where memory is not shared."""
        if self._shared_memory:
            return None
        return [array[first:end] for array in self._inputs]

    def _round_by_channel(
        self, command: Command, values: dict[int, Any], buffer: int
    ) -> Outcome:
        """Does a round with one message to each worker."""
        answers = self._pool.round_by_channel(
            command.into(buffer if self._shared_memory else 0),
            values,
            max_concurrency=self._max_concurrency,
            wait_for_all=self._wait_for_all,
        )
        news: dict[int, Report | RemoteError] = {}
        for worker, answer in answers.items():
            if isinstance(answer, RemoteError):
                news[worker] = answer
            elif not isinstance(answer, WorkerGone):
                report, outputs = answer
                if report is not None:
                    news[worker] = report
                first, end = self._spans[worker]
                for position, value in enumerate(outputs or ()):
                    self._buffers[buffer][position][first:end] = value
        return self._outcome(command, news)

    def _outcome(
        self, command: Command, news: dict[int, Report | RemoteError]
    ) -> Outcome:
        doing = "step" if command == Command.STEP else "reset"
        failures: list[Failure] = []
        dead = self._pool.dead
        for worker in dead:
            gone = self._pool.gone(worker)
            failures += [self._failure(i, doing, gone) for i in self._groups[worker]]
        extras: dict[int, list[Any]] = {}
        for worker, report in sorted(news.items()):
            first, end = self._spans[worker]
            if worker in dead:  # What it said before is no longer worth anything.
                continue
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

    def _failure(
        self, index: int, doing: str, error: RemoteError | WorkerGone
    ) -> Failure:
        """Returns what went wrong with the rows of one constructor."""
        rows = range(self._firsts[index], self._firsts[index + 1])
        culprit: int | None = None
        if isinstance(error, WorkerGone):
            at = self._groups[error.worker][error.part]
            culprit = None if at == index else self._firsts[at]
            doing = error.doing or doing
        return Failure(rows, doing, error, culprit)

    def _ask(self, index: int, name: str, arguments: Sequence[Any]) -> int:
        worker = self._worker_of[index]
        position = index - self._groups[worker][0]
        return self._pool.ask(worker, name, position, *arguments)


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


def _no_start(error: NurseryError, limit: float | None) -> errors.WorkerError:
    if not error.is_late or limit is None:
        what = f" cannot start: {error}."
        return errors.WorkerDiedError([0], "start", [what])
    what = f" was not started after {limit:g} s (start_timeout): {error}."
    return errors.WorkerTimeoutError([0], "start", [what])


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
