"""The parent's end of many workers: start, ask, answer, restart, end.

A pool serves one caller at a time; only `interrupt` may be called while another call
waits. Everything that can happen is watched by one epoll: the bell, answers, deaths,
the nursery, and the wish of another thread to close.

A round that ended badly (a death, an interrupt, an error that was not waited out)
leaves the pool dirty: tokens may be left over and workers may still be at it. Before
the next round every living worker answers a ping, which it can do only when all that
came before is done; then the bells are drained.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy.typing as npt

from parallel_envs import errors
from parallel_envs.process import channel, doorbell, nursery_handle
from parallel_envs.process import shared_arrays as shared
from parallel_envs.process.remote_error import RemoteError
from parallel_envs.process.surroundings import Surroundings
from parallel_envs.process.worker import Attachment, Report, Servant, Station
from parallel_envs.process.worker_handle import WorkerHandle

_GATHER_SECONDS = 0.05  # How long a call that has failed waits for more failures.
_EXITCODE_SECONDS = 1.0
_FAILED_START_SECONDS = 1.0  # For what was made already to be closed.
_KILL_SECONDS = 2.0


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


class NurseryError(Exception):
    """The process that starts workers ended, or refused a module to preload."""

    def __init__(self, message: str, *, is_refusal: bool = False) -> None:
        super().__init__(message)
        self.is_refusal = is_refusal


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
        self._owner = os.getpid()
        self._context, self._preload = context, tuple(preload)
        self._factories = factories
        self._station_size = len(factories)
        self._number = self._last_request = 0
        self._is_dirty = self._is_closed = self._is_interrupted = False
        self._attachments: list[Attachment] = []
        self._answers: dict[int, Any] = {}
        self._asked: dict[int, int] = {}  # request: worker
        self._news: dict[int, Report | RemoteError] = {}
        self._handlers: dict[int, Callable[[], None]] = {}
        self._nursery: nursery_handle.NurseryHandle | None = None
        self._is_nursery_ready = False
        self._complaint: str | None = None
        self._workers: list[WorkerHandle] = []
        with contextlib.ExitStack() as stack:
            stack.callback(self.close, grace_seconds=_FAILED_START_SECONDS)
            self._memory = shared.MemoryFile.create()
            self._doorbell = doorbell.Doorbell.create()
            self._wish = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self._epoll = select.epoll()
            size = doorbell.ControlBlock.size(len(factories))
            self._memory.reserve(size)
            self._control = doorbell.ControlBlock(self._memory, len(factories))
            self._watch(self._doorbell.bell, lambda: None)
            self._watch(self._wish, lambda: None)
            self._bear(range(len(factories)))
            self.introductions = self._make(range(len(factories)), start_serially)
            stack.pop_all()

    @property
    def pids(self) -> tuple[int, ...]:
        """The process id of each worker."""
        return tuple(worker.pid or 0 for worker in self._workers)

    @property
    def dead(self) -> list[int]:
        """The workers that are gone."""
        return [worker.index for worker in self._workers if worker.is_dead]

    def exitcode(self, worker: int) -> int | None:
        """Returns how a dead worker ended; None where nobody knows."""
        return self._workers[worker].exitcode

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
        """
        offset = doorbell.ControlBlock.size(len(rows)) if shared_memory else None
        self._attachments = [
            Attachment(layout, num_inputs, span, offset) for span in rows
        ]
        if offset is None:
            arrays = layout.arrays(bytearray(layout.size))
        else:
            self._memory.reserve(offset + layout.size)
            arrays = layout.arrays(self._memory.map(layout.size, offset))
        self._attach(range(len(rows)))
        return arrays

    def round(self, command: int) -> dict[int, Report | RemoteError] | None:
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
        if self.dead:
            return {}
        self._number += 1
        self._news = {}
        self._is_dirty = True
        self._control.command = command
        self._control.asked[:] = self._number
        self._doorbell.ring(self._number, self._station_size)
        events = self._epoll.poll()
        if len(events) == 1 and events[0][0] == self._doorbell.bell:
            doorbell.take(self._doorbell.bell)
            done = self._control.done.tolist()
            if done.count(self._number) == self._station_size:
                self._is_dirty = False
                return None
        else:
            self._handle(events)
        self._wait_out_round()
        return self._news

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
        self._check_open()
        worker = self._workers[self._asked[number]]
        while number not in self._answers:
            if worker.is_dead:
                del self._asked[number]
                raise WorkerGone(worker.index, worker.exitcode)
            self._pump()
        del self._asked[number]
        return self._answers.pop(number)

    def forget(self, number: int) -> None:
        """Drops a request whose answer nobody wants any more."""
        self._asked.pop(number, None)
        self._answers.pop(number, None)

    def settle(self) -> None:
        """Waits until no living worker is at anything, and drains the bells."""
        self._check_open()
        if not self._is_dirty:
            return
        pings = [
            self._ask(worker.index, "ping")
            for worker in self._workers
            if not worker.is_dead
        ]
        for ping in pings:
            with contextlib.suppress(WorkerGone):
                self.answer(ping)
        self._doorbell.silence()
        self._is_dirty = False

    def replace_dead(self) -> None:
        """Starts a new worker, with a new object, in place of each dead one.

        Raises:
            MakeFailed, WorkerGone, NurseryError: As when the pool was made.
        """
        self._is_dirty = True
        self.settle()
        replaced = self.dead
        for index in replaced:
            self._workers[index].free()
        self._bear(replaced)
        for index, introduction in zip(
            replaced, self._make(replaced, start_serially=False), strict=True
        ):
            self.introductions[index] = introduction
        self._attach(replaced)

    def interrupt(self) -> None:
        """Makes the call that waits, in another thread, end with ClosedError."""
        if os.getpid() == self._owner and not self._is_closed:
            self._is_interrupted = True
            os.eventfd_write(self._wish, 1)

    def close(self, grace_seconds: float = 3.0) -> None:
        """Has every object closed, then ends every process and frees everything.

        Does nothing the second time, and in a child that was forked from the owner.
        A worker that has not ended after `grace_seconds` is killed, with whatever its
        environment started.
        """
        if self._is_closed or os.getpid() != self._owner:
            return
        self._is_closed = True
        try:
            self._dismiss(time.monotonic() + grace_seconds)
        finally:
            self._free()

    def _check_open(self) -> None:
        if os.getpid() != self._owner:
            raise errors.ClosedError(
                "the environment belongs to the process that made it, and this is a "
                "fork of that process; make a new environment here."
            )
        if self._is_closed or self._is_interrupted:
            raise errors.ClosedError("the environment is closed.")

    def _watch(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._epoll.register(descriptor, select.EPOLLIN)
        self._handlers[descriptor] = handler

    def _unwatch(self, descriptor: int) -> None:
        if self._handlers.pop(descriptor, None):
            self._epoll.unregister(descriptor)

    def _pump(self, seconds: float | None = None) -> bool:
        """Handles what has happened, waiting for it; False where time ran out."""
        self._check_open()
        events = self._epoll.poll(seconds)
        self._handle(events)
        return bool(events)

    def _handle(self, events: list[tuple[int, int]]) -> None:
        for descriptor, _ in events:
            handler = self._handlers.get(descriptor)
            if handler is not None:  # An earlier one of this batch may have ended it.
                handler()
        self._check_open()

    def _bear(self, indices: Sequence[int]) -> None:
        """Starts processes for workers, and waits until each has its number."""
        if self._nursery is None:
            self._start_nursery()
        while not self._is_nursery_ready:
            self._await_nursery()
        assert self._nursery is not None
        surroundings = Surroundings.capture()
        born: list[WorkerHandle] = []
        for index in indices:
            mine, other = channel.Channel.pair()
            worker = WorkerHandle(index, mine)
            self._workers[index : index + 1] = [worker]
            with other:
                self._fork(index, other)
            worker.send(surroundings)
            born.append(worker)
        while any(worker.pid is None for worker in born):
            self._await_nursery()
        for worker in born:
            self._watch(worker.channel.fileno(), self._reader(worker))

    def _start_nursery(self) -> None:
        station = Station(
            self._memory.descriptor, self._doorbell.descriptors, self._station_size
        )
        self._is_nursery_ready = False
        self._nursery = nursery_handle.NurseryHandle(
            station,
            context=self._context,
            preload=self._preload,
            inherited=self._inherited if self._context == "fork" else None,
        )
        self._watch(self._nursery.fileno(), self._read_nursery)
        self._watch(self._nursery.pidfd, self._lose_nursery)

    def _inherited(self, index: int) -> Callable[[], Servant]:
        factory = self._factories[index]
        assert callable(factory), "a fork inherits factories as they are"
        return factory

    def _fork(self, index: int, connection: Any) -> None:
        assert self._nursery is not None
        try:
            self._nursery.fork(index, connection)
        except OSError:
            self._lose_nursery()
            self._await_nursery()

    def _await_nursery(self) -> None:
        """Handles what happens next, which must not be the nursery's end."""
        if self._nursery is None:
            raise NurseryError(
                self._complaint or "the process that starts workers died",
                is_refusal=self._complaint is not None,
            )
        self._pump()

    def _read_nursery(self) -> None:
        if self._nursery is None:
            return
        for message, descriptor in self._nursery.read():
            kind, facts = message[0], message[1:]
            if kind == "ready":
                self._is_nursery_ready = True
            elif kind == "refused":
                name, complaint = facts
                self._complaint = f"preload: {name!r} will not do: {complaint}."
            elif kind == "born":
                index, pid = facts
                self._enter(self._workers[index], pid, descriptor)
            else:
                index, pid, exitcode = facts
                if self._workers[index].pid == pid:
                    self._workers[index].exitcode = exitcode

    def _enter(self, worker: WorkerHandle, pid: int, pidfd: int | None) -> None:
        assert pidfd is not None, "a birth comes with its pidfd"
        worker.pid, worker.pidfd = pid, pidfd
        self._watch(pidfd, lambda: self._lose(worker))

    def _lose_nursery(self) -> None:
        """Ends what is left of a nursery that is gone, its workers included."""
        if self._nursery is None:
            return
        self._read_nursery()
        lost, self._nursery = self._nursery, None
        self._unwatch(lost.fileno())
        self._unwatch(lost.pidfd)
        for worker in self._workers:
            worker.kill()
        lost.end()

    def _reader(self, worker: WorkerHandle) -> Callable[[], None]:
        def read() -> None:
            for kind, number, value in worker.channel.receive_all():
                if kind == "news":
                    if number == self._number:
                        self._news[worker.index] = value
                elif number in self._asked:
                    self._answers[number] = value
            if worker.channel.has_ended:
                self._unwatch(worker.channel.fileno())

        return read

    def _lose(self, worker: WorkerHandle) -> None:
        """Notes a death, after reading what the worker still said."""
        assert worker.pidfd is not None
        self._unwatch(worker.pidfd)
        self._reader(worker)()
        self._unwatch(worker.channel.fileno())
        worker.is_dead = True
        self._is_dirty = True
        deadline = time.monotonic() + _EXITCODE_SECONDS
        while worker.exitcode is None and self._nursery is not None:
            poller = select.poll()
            poller.register(self._nursery.fileno(), select.POLLIN)
            if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                break
            self._read_nursery()
            if _is_readable(self._nursery.pidfd):
                break

    def _make(self, indices: Sequence[int], start_serially: bool) -> list[Any]:
        def ask(index: int) -> int:
            factory = self._factories[index]
            return self._ask(
                index, "make", factory if isinstance(factory, bytes) else None
            )

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
                self._pump()

    def _is_lost(self, number: int) -> bool:
        return self._workers[self._asked[number]].is_dead

    def _attach(self, indices: Sequence[int]) -> None:
        if not self._attachments:
            return
        numbers = [
            self._ask(index, "attach", self._attachments[index]) for index in indices
        ]
        for number in numbers:
            self.answer(number)

    def _ask(self, index: int, verb: str, *arguments: Any) -> int:
        self._check_open()
        worker = self._workers[index]
        if worker.is_dead:
            raise WorkerGone(index, worker.exitcode)
        self._last_request += 1
        number = self._last_request
        worker.send((number, verb, arguments))
        self._asked[number] = index
        return number

    def _wait_out_round(self) -> None:
        """Waits until all are done, or 50 ms past the first failure."""
        deadline: float | None = None
        while not self._is_round_over():
            if deadline is None and self._has_failed():
                deadline = time.monotonic() + _GATHER_SECONDS
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0.0:
                return
            self._pump(left)
        doorbell.take(self._doorbell.bell)
        self._is_dirty = bool(self.dead)

    def _is_round_over(self) -> bool:
        for worker, done in zip(
            self._workers, self._control.done.tolist(), strict=True
        ):
            has_told = done == self._number or worker.index in self._news
            if abs(done) != self._number or not has_told:
                return False
        return True

    def _has_failed(self) -> bool:
        return bool(self.dead) or any(
            isinstance(news, RemoteError) or news.failures
            for news in self._news.values()
        )

    def _dismiss(self, deadline: float) -> None:
        """Asks the workers to close, and kills those that have not at `deadline`."""
        for worker in self._workers:
            with contextlib.suppress(TimeoutError):
                worker.send((0, "close", ()), deadline)
        self._await_deaths(deadline)
        for worker in self._workers:
            worker.kill()
        self._await_deaths(time.monotonic() + _KILL_SECONDS)

    def _await_deaths(self, deadline: float) -> None:
        waiting = {
            worker.pidfd: worker
            for worker in self._workers
            if worker.pidfd is not None and not worker.is_dead
        }
        poller = select.poll()
        for pidfd in waiting:
            poller.register(pidfd, select.POLLIN)
        while waiting:
            events = poller.poll(max(0.0, deadline - time.monotonic()) * 1000)
            if not events:
                return
            for pidfd, _ in events:
                poller.unregister(pidfd)
                waiting.pop(pidfd).is_dead = True

    def _free(self) -> None:
        """Ends the nursery and frees what was made, however far that went."""
        for worker in self._workers:
            worker.free()
        if self._nursery is not None:
            self._nursery.end()
        for name in ("_epoll", "_doorbell", "_memory"):
            part = getattr(self, name, None)
            if part is not None:
                part.close()
        if hasattr(self, "_wish"):
            os.close(self._wish)


def _is_readable(descriptor: int) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(0))
