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
import os
import pickle
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy.typing as npt

from parallel_envs import errors
from parallel_envs.process import doorbell, facilities, pickling
from parallel_envs.process import shared_arrays as shared
from parallel_envs.process.portable_processes import PortableProcesses
from parallel_envs.process.remote_error import RemoteError
from parallel_envs.process.watch import PortableWatch, Watch
from parallel_envs.process.worker import Attachment, Report, Servant, Station
from parallel_envs.process.worker_handle import WorkerHandle
from parallel_envs.process.worker_processes import WorkerProcesses

_GATHER_SECONDS = 0.05  # How long a call that has failed waits for more failures.
_OTHER_DESCRIPTORS = 16  # What a pool needs beside two for each worker.
_FAILED_START_SECONDS = 1.0  # For what was made already to be closed.

News = dict[int, Report | RemoteError]


class WorkerGone(Exception):
    """A worker is dead, so it will not answer."""

    def __init__(self, worker: int, exitcode: int | None) -> None:
        super().__init__(worker, exitcode)
        self.worker = worker
        self.exitcode = exitcode


class MakeFailed(Exception):
    """A worker lives, but could not make its object."""

    def __init__(self, worker: int, answer: RemoteError | Report) -> None:
        super().__init__(worker, answer)
        self.worker = worker
        self.answer = answer


class WorkerPool:
    """Workers that serve one object each.

    Attributes:
        introductions: What each object said of itself when it was made.
    """

    def __init__(
        self,
        factories: Sequence[bytes] | Sequence[Callable[[], Servant]],
        *,
        context: str = "forkserver",
        preload: Sequence[str] = (),
        start_serially: bool = False,
    ) -> None:
        """Starts a worker for each factory, and has it make its object.

        Args:
            factories: Pickled by `pickling.dumps`; for "fork" the callables themselves.
            context: "forkserver", "spawn" or "fork".
            preload: Modules that the nursery imports before it forks.
            start_serially: Whether objects are made one after another.

        Raises:
            MakeFailed: If an object could not be made.
            WorkerGone: If a worker died while it made its object.
            NurseryError: If the process that starts workers could not do so.
        """
        self._factories = factories
        self._number = self._last_request = 0
        self._is_dirty = self._is_closed = False
        self._attachments: list[Attachment] = []
        self._answers: dict[int, bytes] = {}
        self._asked: dict[int, int] = {}  # request: worker
        self._news: News = {}
        self._bells: tuple[doorbell.Doorbell, doorbell.ControlBlock] | None = None
        size = len(factories)
        _check_descriptors(size)
        with contextlib.ExitStack() as stack:
            is_portable = facilities.is_portable()
            self._watch = PortableWatch() if is_portable else Watch()
            stack.callback(self._watch.close)
            self._memory = shared.MemoryFile.create(in_memory=not is_portable)
            stack.callback(self._memory.close)
            self._memory.reserve(doorbell.ControlBlock.size(size))
            bells = () if is_portable else self._hang_bells(stack)
            station = Station(self._memory.descriptor, bells, size)
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
            self._resources = stack.pop_all()
        try:
            self._processes.start(range(size))
            self.introductions = self._make(range(size), start_serially)
        except BaseException:
            self.close(grace_seconds=_FAILED_START_SECONDS)
            raise

    @property
    def pids(self) -> tuple[int, ...]:
        """The process id of each worker."""
        return tuple(worker.pid or 0 for worker in self._processes.workers)

    @property
    def has_bell(self) -> bool:
        """Whether `round` can be used; else rounds are asked for with `ask_round`."""
        return self._bells is not None

    @property
    def nursery_pid(self) -> int | None:
        """The process id of what starts the workers; None where it is gone."""
        return self._processes.nursery_pid

    @property
    def dead(self) -> list[int]:
        """The workers that are gone."""
        return self._processes.dead

    def exitcode(self, worker: int) -> int | None:
        """Returns how a dead worker ended; None where nobody knows."""
        return self._processes.exitcode(worker)

    def attach(
        self,
        layout: shared.ArrayLayout,
        num_inputs: int,
        rows: Sequence[tuple[int, int]],
        *,
        shared_memory: bool,
    ) -> list[npt.NDArray[Any]]:
        """Returns the arrays of the batch, of which each worker now serves its rows.

        Args:
            layout: All arrays, the inputs first.
            num_inputs: How many of them are inputs.
            rows: For each worker its first row and one past its last.
            shared_memory: False gives each side arrays of its own; rounds are then
                to be asked for with `ask_round`, which carries the values.

        Raises:
            MemoryError: If the machine does not have the memory.
            MakeFailed: If an object does not take the arrays.
        """
        offset = doorbell.ControlBlock.size(len(rows)) if shared_memory else None
        self._attachments = [
            Attachment(layout, num_inputs, span, offset) for span in rows
        ]
        if offset is None:
            arrays = layout.new_arrays()
        else:
            self._memory.reserve(offset + layout.size)
            arrays = layout.arrays(self._memory.map(layout.size, offset))
        self._attach(range(len(rows)))
        return arrays

    def round(self, command: int) -> News | None:
        """Has every worker do one round on the shared arrays.

        Returns:
            None where every worker did it and none has anything to tell; else what
            they told, by worker, failures among it. A dead worker tells nothing: see
            `dead`. After the first failure the call waits 50 ms for further ones; a
            worker that is busy even then tells nothing either.

        Raises:
            ClosedError: If the pool is closed, or gets closed meanwhile.
        """
        self.settle()
        assert self._bells is not None, "there is no bell: use ask_round"
        bell, control = self._bells
        if self.dead:
            return {}
        self._number += 1
        self._news = {}
        self._is_dirty = True
        control.command = command
        control.asked[:] = self._number
        bell.ring(self._number, len(self._factories))
        events = self._watch.poll()
        if len(events) == 1 and events[0][0] == bell.bell:
            doorbell.take(bell.bell)
            done = control.done.tolist()
            if done.count(self._number) == len(done):
                self._is_dirty = False
                return None
        else:
            self._watch.handle(events)
        self._wait_out_round(control)
        return dict(self._news) if self._news or self._is_dirty else None

    def ask_round(
        self,
        worker: int,
        command: int,
        inputs: Sequence[npt.NDArray[Any]] | None = None,
        extras: Any = None,
    ) -> int:
        """Asks one worker for a round, through its channel.

        Args:
            worker: Number of the worker.
            command: As in `round`.
            inputs: Values for its input arrays where memory is not shared.
            extras: Input values that do not fit into arrays of fixed shape.

        Returns:
            The number of the request; its answer is (report or None, output arrays
            or None).

        Raises:
            WorkerGone: If the worker is dead.
        """
        return self._ask(worker, "round", command, inputs, extras)

    def ask(self, worker: int, name: str, *arguments: Any) -> int:
        """Asks a worker's object for something by name; returns the request's number.

        Raises:
            TypeError: If an argument cannot be pickled.
            WorkerGone: If the worker is dead.
        """
        return self._ask(worker, "request", name, arguments)

    def answer(self, number: int) -> Any:
        """Returns the answer to a request, waiting for it; a `RemoteError` is one.

        Raises:
            WorkerGone: If the worker died before it answered.
            ClosedError: If the pool is closed, or gets closed meanwhile.
        """
        self._watch.check_open()
        worker = self._processes.workers[self._asked[number]]
        while number not in self._answers:
            if worker.is_dead:
                del self._asked[number]
                raise WorkerGone(worker.index, self.exitcode(worker.index))
            self._watch.wait()
        del self._asked[number]
        return _unpickled(self._answers.pop(number))

    def forget(self, number: int) -> None:
        """Drops a request whose answer nobody wants any more."""
        self._asked.pop(number, None)
        self._answers.pop(number, None)

    def settle(self) -> None:
        """Waits until no living worker is at anything, and drains the bells."""
        self._watch.check_open()
        if not self._is_dirty:
            return
        pings = [
            self._ask(worker.index, "ping")
            for worker in self._processes.workers
            if not worker.is_dead
        ]
        try:
            for ping in pings:
                with contextlib.suppress(WorkerGone):
                    self.answer(ping)
        finally:
            for ping in pings:
                self.forget(ping)
        if self._bells is not None:
            self._bells[0].silence()
        self._is_dirty = False

    def replace_dead(self) -> None:
        """Starts a new worker, with a new object, in place of each dead one.

        Raises:
            MakeFailed, WorkerGone, NurseryError: As when the pool was made. The places
                that were to be filled are then empty, and may be tried again.
        """
        self._is_dirty = True
        self.settle()
        replaced = self.dead
        for index in replaced:
            self._processes.remove(index)
        try:
            self._processes.start(replaced)
            made = self._make(replaced, start_serially=False)
            for index, introduction in zip(replaced, made, strict=True):
                self.introductions[index] = introduction
            self._attach(replaced)
        except BaseException:
            self._processes.kill(replaced)
            raise

    def check_open(self) -> None:
        """Raises ClosedError if this is closed, or belongs to another process."""
        self._watch.check_open()

    def interrupt(self) -> None:
        """Makes the call that waits, in another thread, end with ClosedError."""
        self._watch.interrupt()

    def close(self, grace_seconds: float = 3.0) -> None:
        """Has every object closed, then ends every process and frees everything.

        Does nothing the second time, and in a child that was forked from the owner.
        A worker that has not ended after `grace_seconds` is killed, with whatever its
        environment started.
        """
        if self._is_closed or not self._watch.is_owned:
            return
        self._is_closed = True
        self._watch.interrupt()
        deadline = time.monotonic() + grace_seconds
        with self._resources:
            for worker in self._processes.workers:
                # A worker whose channel is full does not read: it is not waited for.
                with contextlib.suppress(TimeoutError, errors.ClosedError):
                    worker.send((0, "close", pickling.dumps(())), time.monotonic())
            self._processes.end(deadline)
        self._bells = None  # What is mapped holds a descriptor.

    def _hang_bells(self, stack: contextlib.ExitStack) -> tuple[int, ...]:
        """Returns the descriptors of the doorbell that is now there."""
        made = doorbell.Doorbell.create()
        stack.callback(made.close)
        # A bell that is rung late is to wake one wait, and not all that follow.
        self._watch.add(made.bell, lambda: doorbell.take(made.bell))
        control = doorbell.ControlBlock(self._memory, len(self._factories))
        self._bells = made, control
        return made.descriptors

    def _inherited(self, index: int) -> Callable[[], Servant]:
        factory = self._factories[index]
        assert callable(factory), "a fork inherits factories as they are"
        return factory

    def _read(self, worker: WorkerHandle) -> None:
        """Sorts what a worker has sent; late news and unwanted answers are dropped."""
        for kind, number, payload in worker.channel.receive_all():
            if kind == "answer" and number in self._asked:
                self._answers[number] = payload
            elif kind == "news" and number == self._number:
                self._news[worker.index] = _unpickled(payload)

    def _make(self, indices: Sequence[int], start_serially: bool) -> list[Any]:
        def ask(index: int) -> int:
            factory = self._factories[index]
            pickled = factory if isinstance(factory, bytes) else None
            return self._ask(index, "make", pickled)

        if start_serially:
            return [self._made(index, self.answer(ask(index))) for index in indices]
        asked = {ask(index): index for index in indices}
        made = {
            asked[number]: self._made(asked[number], answer)
            for number, answer in self._in_order_of_arrival(list(asked))
        }
        return [made[index] for index in indices]

    def _made(self, index: int, answer: Any) -> Any:
        if isinstance(answer, (RemoteError, Report)):
            raise MakeFailed(index, answer)
        return answer

    def _in_order_of_arrival(self, waiting: list[int]) -> Iterator[tuple[int, Any]]:
        while waiting:
            ready = [n for n in waiting if n in self._answers or self._is_lost(n)]
            for number in ready:
                waiting.remove(number)
                yield number, self.answer(number)
            if not ready:
                self._watch.wait()

    def _is_lost(self, number: int) -> bool:
        return self._processes.workers[self._asked[number]].is_dead

    def _attach(self, indices: Sequence[int]) -> None:
        if not self._attachments:
            return
        numbers = [
            self._ask(index, "attach", self._attachments[index]) for index in indices
        ]
        for number in numbers:
            index = self._asked[number]
            self._made(index, self.answer(number))

    def _ask(self, index: int, verb: str, *arguments: Any) -> int:
        self._watch.check_open()
        worker = self._processes.workers[index]
        if worker.is_dead:
            raise WorkerGone(index, self.exitcode(index))
        # By itself, so that a worker can answer even what it cannot read.
        payload = pickling.dumps(arguments)
        self._last_request += 1
        number = self._last_request
        self._asked[number] = index
        worker.send((number, verb, payload))
        if worker.channel.has_messages:  # They came while it was sent.
            self._read(worker)
        return number

    def _wait_out_round(self, control: doorbell.ControlBlock) -> None:
        """Waits until all are done, or 50 ms past the first failure."""
        deadline: float | None = None
        while not self._is_round_over(control):
            if deadline is None and self._has_failed():
                deadline = time.monotonic() + _GATHER_SECONDS
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0.0:
                return
            self._watch.wait(left)
        self._is_dirty = bool(self.dead)

    def _is_round_over(self, control: doorbell.ControlBlock) -> bool:
        """Whether every worker that lives is done, and has told what it has to tell."""
        dead = self.dead
        for worker, done in enumerate(control.done.tolist()):
            has_told = done == self._number or worker in self._news
            if worker not in dead and (abs(done) != self._number or not has_told):
                return False
        return True

    def _has_failed(self) -> bool:
        return bool(self.dead) or any(
            isinstance(news, RemoteError) or news.failures
            for news in self._news.values()
        )


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


def _unpickled(payload: bytes) -> Any:
    """Returns the value; a `RemoteError` where it cannot be read here.

    A value may be of the user's own making, and so is what runs when it is read.
    """
    try:
        return pickle.loads(payload)
    except Exception as error:
        return RemoteError.of(error)
