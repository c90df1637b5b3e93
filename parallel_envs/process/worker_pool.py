"""The parent's end of many workers: start, ask, answer, restart, end.

A pool serves one caller at a time; only `interrupt` may be called while another call
waits. Everything that can happen meanwhile is in one `Watch`.

A round that ended badly (a death, an interrupt, an error that was not waited out)
leaves the pool dirty: tokens may be left over and workers may still be at it. Before
the next round every living worker answers a ping, which it can do only when all that
came before is done; then the bells are drained.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import resource
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from parallel_envs import errors
from parallel_envs.process import doorbell, facilities, pickling
from parallel_envs.process import shared_arrays as shared
from parallel_envs.process.bell_rounds import BellRounds, News
from parallel_envs.process.control_block import ControlBlock
from parallel_envs.process.crash_notes import CrashNotes
from parallel_envs.process.deadlines import Deadlines, Errand
from parallel_envs.process.errands import Errands
from parallel_envs.process.part_block import PartBlock
from parallel_envs.process.part_rounds import ChannelParts, MemoryParts, PartRounds
from parallel_envs.process.portable_processes import PortableProcesses
from parallel_envs.process.watch import PortableWatch, Watch
from parallel_envs.process.worker import Attachment, ServantFactory, Station
from parallel_envs.process.worker_handle import WorkerGone, WorkerHandle
from parallel_envs.process.worker_processes import WorkerProcesses

CLOSE_SECONDS = 3.0
"""How long an object may take to be closed."""

_LONGEST_SECONDS = 1e6  # The system waits for 2**31 ms at most.
_OTHER_DESCRIPTORS = 16  # What a pool needs beside two for each worker.


class WorkerPool:
    """Workers that serve one object each.

    What a worker answers is a value of its object's, a `RemoteError` where the object
    failed, or `WorkerGone` where the worker is dead.

    Attributes:
        parts: What parts of the objects are asked for with, one by one, once the arrays
            are laid out. No round is possible before all that was asked is taken.
    """

    parts: PartRounds | None = None

    def __init__(
        self,
        factories: Sequence[bytes] | Sequence[ServantFactory],
        *,
        context: str = "forkserver",
        num_parts: Sequence[int] | None = None,
        preload: Sequence[str] = (),
        affinity: Sequence[Collection[int]] = (),
        start_timeout: float | None = None,
        timeout: float | None = None,
        max_concurrency: int | None = None,
    ) -> None:
        """Makes a pool in which no worker has been started yet.

        Args:
            factories: One for each worker, pickled by `pickling.dumps`; for "fork" the
                callables themselves.
            context: "forkserver", "spawn" or "fork".
            num_parts: How many parts each worker's object has; one each by default.
            preload: Modules that the nursery imports before it forks.
            affinity: The cores that workers may run on: the first entry for the first
                worker, and so on in turn. Empty for those of this process.
            start_timeout: Seconds that a worker may take to make a part of its object.
            timeout: Seconds that it may take for a part of its object in a round, and
                for anything else. A worker that takes longer is killed.
            max_concurrency: How many parts are worked on at a time; None for all.

        Raises:
            OSError: If this process may not have as many descriptors.
        """
        self._factories = factories
        self._start_timeout = start_timeout = _limit(start_timeout)
        self._timeout = timeout = _limit(timeout)
        self._affinity = affinity
        self._is_dirty = self._is_closed = False
        self._attachments: list[Attachment] = []
        self._num_parts = [1] * len(factories) if num_parts is None else num_parts
        self._max_concurrency = max_concurrency
        self._former_pids: dict[int, int] = {}
        size = len(factories)
        _check_descriptors(size)
        is_portable = facilities.is_portable()
        with contextlib.ExitStack() as stack:
            self._watch = PortableWatch() if is_portable else Watch()
            stack.callback(self._watch.close)
            self._memory = _new_file(stack, in_memory=not is_portable)
            self._memory.reserve(ControlBlock.size(size))
            self._control = ControlBlock(self._memory, size)
            self._control.may_spin = facilities.may_spin(size)
            notes = _new_file(stack, in_memory=not is_portable)
            self._notes = CrashNotes(notes.descriptor)
            bell = None if is_portable else doorbell.Doorbell.create()
            if bell is not None:
                stack.callback(bell.close)
            station = Station(
                size,
                self._memory.descriptor,
                notes.descriptor,
                () if bell is None else bell.descriptors,
            )
            if isinstance(self._watch, PortableWatch):
                self._processes = PortableProcesses(self._watch, station, self._read)
            else:
                self._processes = WorkerProcesses(
                    self._watch,
                    station,
                    self._read,
                    context=context,
                    preload=preload,
                    inherited=self._inherited if context == "fork" else None,
                )
            self._deadlines = Deadlines(
                self._watch, self._processes, self._control, self._notes
            )
            self._errands = Errands(self._deadlines, self._processes.workers, self.gone)
            self._bells = bell and BellRounds(
                bell,
                self._watch,
                self._processes,
                self._deadlines,
                self._control,
                timeout,
            )
            self._resources = stack.pop_all()

    @property
    def pids(self) -> tuple[int, ...]:
        """The process id of each worker, or of the one that is being replaced."""
        return tuple(
            worker.pid or self._former_pids.get(worker.index, 0)
            for worker in self._processes.workers
        )

    @property
    def has_bell(self) -> bool:
        """Whether `round` can be used; else rounds go through the channels."""
        return self._bells is not None

    @property
    def nursery_pid(self) -> int | None:
        """The process id of what starts the workers; None where it is gone."""
        return self._processes.nursery_pid

    @property
    def dead(self) -> list[int]:
        """The workers that are gone, as far as is known."""
        return self._processes.dead

    @property
    def living(self) -> list[int]:
        """The workers that were started and are not known to be dead."""
        return [w.index for w in self._processes.workers if not w.is_dead]

    def gone(self, worker: int) -> WorkerGone:
        """Returns what is known of a dead worker."""
        exitcode = self._processes.exitcode(worker)
        part = self._control.part_of(worker)
        handle, notes = self._processes.workers[worker], self._notes.of(worker)
        return WorkerGone(
            worker,
            handle.pid or 0,
            exitcode,
            handle.birth,
            part,
            handle.exceeded,
            handle.late_with or self._errands.name_of_first(handle),
            notes,
        )

    def start(self, workers: Sequence[int]) -> None:
        """Starts workers in places where there are none, or dead ones.

        Raises:
            NurseryError: If the process that starts workers could not do so. The places
                are then empty, and may be tried again.
            ClosedError: If the pool is closed, or gets closed meanwhile.
        """
        self._watch.check_open()
        self._former_pids = dict(enumerate(self.pids))
        for worker in self._started(workers):
            self._errands.bury(worker)
            self._processes.remove(worker)
        for worker in workers:
            self._notes.wipe(worker)
            self._control.forget(worker)
        try:
            self._processes.start(workers, self._start_timeout)
            self._place(workers)
        except BaseException:
            self.kill(workers)
            raise

    def make(self, worker: int, order: Any = None) -> int:
        """Has a worker make its object; returns the number of the request.

        Args:
            worker: Number of the worker.
            order: What its factory gets, beside where to note its progress.
        """
        factory = self._factories[worker]
        pickled = factory if isinstance(factory, bytes) else None
        return self._ask(worker, "make", pickled, order, limit=self._start_timeout)

    def lay_out(
        self,
        layout: shared.ArrayLayout,
        num_inputs: int,
        rows: Sequence[tuple[int, int]],
    ) -> list[npt.NDArray[Any]]:
        """Returns the arrays of the batch, which workers are to be attached to.

        Args:
            layout: All arrays, the inputs first.
            num_inputs: How many of them are inputs.
            rows: For each worker its first row and one past its last.

        Raises:
            MemoryError: If the machine does not have the memory.
        """
        parts_offset = ControlBlock.size(len(rows))
        num_parts = sum(self._num_parts)
        offset = parts_offset + PartBlock.size(num_parts)
        self._attachments = [
            Attachment(layout, num_inputs, span, offset, parts, num_parts, parts_offset)
            for span, parts in zip(rows, self._spans_of_parts(), strict=True)
        ]
        self._memory.reserve(offset + layout.size)
        if self.has_bell:
            block = PartBlock(self._memory, num_parts, parts_offset)
            self.parts = MemoryParts(block, **self._part_options())
        else:
            self._ask_parts_by_channel()
        return layout.arrays(self._memory.map(layout.size, offset))

    def lay_out_apart(
        self,
        layout: shared.ArrayLayout,
        num_inputs: int,
        rows: Sequence[tuple[int, int]],
    ) -> None:
        """Has each worker attach arrays of its own, of its rows only.

        Rounds are then to go through the channels, which carry the values.
        """
        self._attachments = [
            Attachment(layout, num_inputs, span, None) for span in rows
        ]
        self._ask_parts_by_channel()

    def _spans_of_parts(self) -> list[tuple[int, int]]:
        ends = list(itertools.accumulate(self._num_parts, initial=0))
        return list(itertools.pairwise(ends))

    def _ask_parts_by_channel(self) -> None:
        firsts = [first for first, _ in self._spans_of_parts()]
        self.parts = ChannelParts(firsts, **self._part_options())

    def _part_options(self) -> dict[str, Any]:
        return {
            "errands": self._errands,
            "deadlines": self._deadlines,
            "workers": self._processes.workers,
            "worker_of": [
                worker
                for worker, (first, end) in enumerate(self._spans_of_parts())
                for _ in range(first, end)
            ],
            "limit": self._timeout,
            "max_concurrency": self._max_concurrency,
        }

    def attach(self, worker: int) -> int:
        """Has a worker's object take its rows; returns the number of the request."""
        attachment = self._attachments[worker]
        return self._ask(worker, "attach", attachment, limit=self._start_timeout)

    def round(self, command: int, *, wait_for_all: bool = False) -> News | None:
        """Has every worker do one round on the shared arrays.

        Args:
            command: What it is about.
            wait_for_all: If False, nothing is asked where a worker is known to be dead,
                and after a failure the others have 50 ms more.

        Returns:
            None where every worker did it and none has anything to tell; else what
            they told, by worker, failures among it. A dead worker tells nothing: see
            `dead`. Nor does one that was not waited for.

        Raises:
            ClosedError: If the pool is closed, or gets closed meanwhile.
        """
        self.settle()
        assert self._bells is not None, "there is no bell: use round_by_channel"
        size, num_dead = len(self._factories), len(self._processes.dead)
        if num_dead and (num_dead == size or not wait_for_all):
            return {}
        self._is_dirty = True
        is_well = self._bells.run(command, size - num_dead, wait_for_all=wait_for_all)
        self._is_dirty = not is_well
        if wait_for_all:
            self.settle()
        news = self._bells.news
        return None if is_well and not news else dict(news)

    def round_by_channel(
        self,
        command: int,
        values: Mapping[int, tuple[Sequence[npt.NDArray[Any]] | None, Any]],
        *,
        max_concurrency: int | None = None,
        wait_for_all: bool = False,
    ) -> dict[int, Any]:
        """Has workers do one round each, with a message to each of them.

        Args:
            command: As in `round`.
            values: For each worker the values of its inputs, None where they are in
                shared memory, and those that fit into no array.
            max_concurrency: How many workers are at it at a time; None for all.
            wait_for_all: As in `round`.

        Returns:
            For each worker its answer, (report or None, output arrays or None); none
            for a worker that was not waited for.
        """
        self.settle()
        self._is_dirty = True
        asked: dict[int, int] = {}  # number of the request: worker

        def ask_in_turn() -> Iterator[int]:
            for worker, own in values.items():
                number = self._ask(worker, "round", command, *own, limit=self._timeout)
                asked[number] = worker
                yield number

        gathered = self._errands.gather(
            ask_in_turn(), at_a_time=max_concurrency, wait_for_all=wait_for_all
        )
        answers = {asked[number]: answer for number, answer in gathered.items()}
        self._is_dirty = len(answers) < len(values) or bool(self.dead)
        return answers

    def ask(self, worker: int, name: str, *arguments: Any) -> int:
        """Asks a worker's object for something by name; returns the request's number.

        Raises:
            TypeError: If an argument cannot be pickled.
        """
        return self._ask(
            worker, "request", name, arguments, limit=self._timeout, name=name
        )

    def ask_to_make(self, worker: int, name: str, *arguments: Any) -> int:
        """Asks as `ask` does for something that takes as long as a start."""
        return self._ask(worker, "request", name, arguments, limit=self._start_timeout)

    def ask_to_close(self, worker: int, name: str, *arguments: Any) -> int:
        """Asks as `ask` does for something that takes as long as a `close` may."""
        limit = min(self._timeout or CLOSE_SECONDS, CLOSE_SECONDS)
        return self._ask(worker, "request", name, arguments, limit=limit, name=name)

    def answer(self, number: int) -> Any:
        """Returns the answer to a request, waiting for it; see the class.

        Raises:
            ClosedError: If the pool is closed, or gets closed meanwhile.
        """
        self._watch.check_open()
        return self._errands.answer(number)

    def gather(
        self, numbers: Sequence[int], *, wait_for_all: bool = False
    ) -> dict[int, Any]:
        """Returns the answers to requests, by number, waiting for all.

        Unless it is to `wait_for_all` it leaves out those that have not arrived 50 ms
        after the first failure, and forgets them.

        Raises:
            ClosedError: If the pool is closed, or gets closed meanwhile.
        """
        self._watch.check_open()
        return self._errands.gather(numbers, wait_for_all=wait_for_all)

    def forget(self, number: int) -> None:
        """Drops a request whose answer nobody wants any more."""
        self._errands.forget(number)

    def drop_parts(self) -> None:
        """Takes back what was asked of parts; `settle` waits for what has begun."""
        if self.parts is not None and not self.parts.is_idle:
            self.parts.drop()
            self._is_dirty = True

    def settle(self) -> None:
        """Waits until no living worker is at anything, and drains the bells."""
        self._watch.check_open()
        if not self._is_dirty:
            return
        pings = [
            self._ask(
                worker.index,
                "ping",
                limit=self._timeout,
                since=self._busy_since(worker.index),
            )
            for worker in self._processes.workers
            if not worker.is_dead
        ]
        self._errands.gather(pings, wait_for_all=True)
        if self._bells is not None:
            self._bells.silence()
        self._is_dirty = False

    def end_busy(self, seconds: float, name: str) -> None:
        """Ends workers that are still at what they were asked for after so long.

        Args:
            seconds: How long they have from now on.
            name: What they are then said to be late with.

        Raises:
            ClosedError: If the pool is closed, or gets closed meanwhile.
        """
        asked = {self._ask(w, "ping", limit=seconds): w for w in self.living}
        answered = self._errands.gather(
            list(asked), wait_for_all=True, until=time.monotonic() + seconds
        )
        now = time.monotonic()
        self._deadlines.end(
            [
                Errand(worker, now, seconds, name)
                for number, worker in asked.items()
                if number not in answered
            ]
        )

    def pause(self, seconds: float) -> None:
        """Waits, while deaths are noted.

        Raises:
            ClosedError: If the pool is closed, or gets closed meanwhile.
        """
        until = time.monotonic() + seconds
        self._watch.wait(0.0)
        while (left := until - time.monotonic()) > 0.0:
            self._watch.wait(left)

    def kill(self, workers: Sequence[int]) -> None:
        """Ends workers, those that were started, and waits until they are gone."""
        self._is_dirty = True
        self._processes.kill(self._started(workers))

    def check_open(self) -> None:
        """Raises ClosedError if this is closed, or belongs to another process."""
        self._watch.check_open()

    def interrupt(self) -> None:
        """Makes the call that waits, in another thread, end with ClosedError."""
        self._watch.interrupt()

    def close(self, grace_seconds: float = CLOSE_SECONDS) -> None:
        """Has every object closed, then ends every process and frees everything.

        Does nothing the second time, and in a child that was forked from the owner.
        A worker that has not ended after `grace_seconds` is killed, with whatever its
        environment started.
        """
        if self._is_closed or not self._watch.is_owned:
            return
        self._is_closed = True
        self._watch.interrupt()
        if self.parts is not None:
            self.parts.drop()  # Else a worker would go on with what is asked of it.
        deadline = time.monotonic() + grace_seconds
        with self._resources:
            living = [w for w in self._processes.workers if not w.is_dead]
            try:
                for worker in living:
                    # One whose channel is full does not read: it is not waited for.
                    with contextlib.suppress(TimeoutError, errors.ClosedError):
                        worker.send((0, "close", pickling.dumps(())), time.monotonic())
            finally:  # Ctrl-C comes at any moment.
                self._processes.end(deadline)
        self._bells = self.parts = None
        self._errands.close()
        del self._control, self._deadlines  # What is mapped holds a descriptor.

    def _place(self, workers: Sequence[int]) -> None:
        """Has workers, which have not made anything yet, run on their cores."""
        for worker in workers if self._affinity else ():
            cores = self._affinity[worker % len(self._affinity)]
            with contextlib.suppress(ProcessLookupError):  # Its death is told anyway.
                os.sched_setaffinity(self.pids[worker], cores)

    def _inherited(self, worker: int) -> ServantFactory:
        factory = self._factories[worker]
        assert callable(factory), "a fork inherits factories as they are"
        return factory

    def _read(self, worker: WorkerHandle) -> None:
        """Sorts what a worker has sent."""
        for kind, number, payload in worker.channel.receive_all():
            if kind == "answer":
                self._errands.hear(number, payload)
            elif kind == "part":
                if isinstance(self.parts, MemoryParts):
                    self.parts.hear(number, payload)
            elif self._bells is not None:
                self._bells.hear(worker.index, number, payload)

    def _started(self, workers: Sequence[int]) -> list[int]:
        return [w for w in workers if w < len(self._processes.workers)]

    def _ask(
        self,
        worker: int,
        verb: str,
        *arguments: Any,
        limit: float | None,
        name: str = "",
        since: float | None = None,
    ) -> int:
        self._watch.check_open()
        number = self._errands.ask(
            worker, verb, *arguments, limit=limit, name=name, since=since
        )
        handle = self._processes.workers[worker]
        if handle.channel.has_messages:  # They came while it was sent.
            self._read(handle)
        return number

    def _busy_since(self, worker: int) -> float | None:
        """Returns since when a worker is at a round; None where it is at none."""
        if self._bells is None or not self._bells.is_busy(worker):
            return None
        return self._bells.rung_at


def _limit(seconds: float | None) -> float | None:
    """Returns None as well for a limit that no run is long enough to reach."""
    return None if seconds is None or seconds > _LONGEST_SECONDS else seconds


def _new_file(stack: contextlib.ExitStack, *, in_memory: bool) -> shared.MemoryFile:
    made = shared.MemoryFile.create(in_memory=in_memory)
    stack.callback(made.close)
    return made


def _check_descriptors(num_workers: int) -> None:
    """Raises OSError if so many workers need more descriptors than there may be."""
    wanted = 2 * num_workers + _OTHER_DESCRIPTORS
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = len(os.listdir("/dev/fd"))
    if limit != resource.RLIM_INFINITY and taken + wanted > limit:
        raise OSError(
            errno.EMFILE,
            f"{num_workers} workers need {wanted} file descriptors, and {taken} of the "
            f"{limit} that this process may have are taken. Allow more with "
            f"`ulimit -n {taken + wanted}`, or use fewer workers (num_workers=)",
        )
