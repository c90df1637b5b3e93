"""The processes of a pool: how they start, how deaths are learnt, how they end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

from parallel_envs.process import channel, nursery_handle
from parallel_envs.process.nursery import Inherited
from parallel_envs.process.processes import Processes
from parallel_envs.process.surroundings import Surroundings
from parallel_envs.process.watch import Watch, is_readable
from parallel_envs.process.worker import Station
from parallel_envs.process.worker_handle import WorkerHandle

_BIRTH_SECONDS = 10.0  # How long a nursery that is ready may take to fork.
_EXITCODE_SECONDS = 1.0  # How long the nursery may take to tell how a worker ended.


class NurseryError(Exception):
    """The process that starts workers ended, or refused a module to preload.

    Attributes:
        is_refusal: Whether it refused.
        is_late: Whether it was ended because it took too long.
    """

    def __init__(
        self, message: str, *, is_refusal: bool = False, is_late: bool = False
    ) -> None:
        super().__init__(message)
        self.is_refusal, self.is_late = is_refusal, is_late


class WorkerProcesses(Processes):
    """Starts workers through a nursery, and watches over both."""

    def __init__(
        self,
        watch: Watch,
        station: Station,
        read: Callable[[WorkerHandle], None],
        *,
        context: str,
        preload: Sequence[str],
        inherited: Inherited | None,
    ) -> None:
        """Makes no process yet.

        Args:
            watch: What the pool waits with; deaths are noted while it waits.
            station: What all workers share.
            read: Takes in what a worker has sent.
            context: "forkserver", "spawn" or "fork".
            preload: Modules that the nursery imports.
            inherited: For "fork": gives each worker's factory.
        """
        super().__init__()
        self._watch = watch
        self._station = station
        self._read = read
        self._context, self._preload = context, preload
        self._inherited = inherited
        self._nursery: nursery_handle.NurseryHandle | None = None
        self._is_nursery_ready = False
        self._complaint = ""
        self._is_refusal = False
        self._births: dict[int, WorkerHandle] = {}
        self._untold: set[WorkerHandle] = set()  # The nursery has not told how it died.

    @property
    def nursery_pid(self) -> int | None:
        """Process id of the nursery; None where there is none."""
        return None if self._nursery is None else self._nursery.pid

    def start(self, indices: Sequence[int], timeout: float | None = None) -> None:
        """Starts a worker in each place, and waits until it has its process id.

        Args:
            indices: The places, new ones in their order.
            timeout: Seconds that the nursery may take to be ready, and for each fork.

        Raises:
            NurseryError: If the process that starts workers could not do so.
        """
        if self._nursery is None:
            self._start_nursery()
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._is_nursery_ready:
            self._wait_for_nursery(deadline)
        surroundings = Surroundings.capture()
        for index in indices:
            mine, other = channel.Channel.pair(self._watch.stop)
            worker = WorkerHandle(index, mine)
            self.workers[index : index + 1] = [worker]
            with other:
                self._ask_for(worker, other)
            worker.send(surroundings)
            self._watch.wait(0.0)  # Births are told meanwhile: none may be crowded out.
        for index in indices:
            deadline = time.monotonic() + min(timeout or _BIRTH_SECONDS, _BIRTH_SECONDS)
            while self.workers[index].pid is None:
                self._wait_for_nursery(deadline)
        for index in indices:
            self._watch_channel(self.workers[index])

    def exitcode(self, index: int) -> int | None:
        """Returns how a dead worker ended; None where nobody knows.

        The nursery tells it a moment after the death, and is waited for that long.
        """
        worker = self.workers[index]
        deadline = time.monotonic() + _EXITCODE_SECONDS
        while worker.exitcode is None and self._nursery is not None:
            # A nursery that has kept silent is not waited for once more, nor one that
            # has not made the worker.
            expected = set(self._births.values()) - self._untold
            left = deadline - time.monotonic()
            if worker not in expected:
                break
            if left <= 0.0 or not is_readable(self._nursery.fileno(), left):
                self._untold.update(each for each in expected if each.is_dead)
                break
            self._read_nursery()
            if worker.exitcode is None and is_readable(self._nursery.pidfd):
                self._lose_nursery()
        return worker.exitcode

    def kill(self, indices: Sequence[int]) -> None:
        """Ends workers, and waits until they are gone."""
        for index in indices:
            # One that was asked for and not born has nothing that tells its death.
            self.workers[index].is_dead |= self.workers[index].pidfd is None
        super().kill(indices)

    def remove(self, index: int) -> None:
        """Frees what is left of a dead worker."""
        worker = self.workers[index]
        self._watch.remove(worker.channel.fileno())
        if worker.pidfd is not None:
            self._watch.remove(worker.pidfd)
        worker.free()

    def end(self, deadline: float) -> None:
        """Waits until `deadline` for workers to end, then ends them and the nursery."""
        try:
            super().end(deadline)
        finally:
            if self._nursery is not None:
                self._nursery.end()

    def _start_nursery(self) -> None:
        self._is_nursery_ready = False
        self._complaint = ""
        self._nursery = nursery_handle.NurseryHandle(
            self._station,
            context=self._context,
            preload=self._preload,
            inherited=self._inherited,
        )
        self._watch.add(self._nursery.fileno(), self._read_nursery)
        self._watch.add(self._nursery.pidfd, self._lose_nursery)

    def _ask_for(self, worker: WorkerHandle, connection: Any) -> None:
        self._births[worker.birth] = worker
        if self._nursery is not None:
            try:
                self._nursery.fork(worker.birth, worker.index, connection)
                return
            except OSError:
                self._lose_nursery()
        self._wait_for_nursery(None)  # There is none, which this tells.

    def _wait_for_nursery(self, deadline: float | None) -> None:
        """Handles what happens next, which must not be the nursery's end."""
        if self._nursery is None:
            raise NurseryError(
                self._complaint or "the process that starts workers died",
                is_refusal=self._is_refusal,
            )
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0.0:
            self._lose_nursery()
            raise NurseryError(
                "the process that starts workers was itself not ready in time",
                is_late=True,
            )
        self._watch.wait(left)

    def _read_nursery(self) -> None:
        if self._nursery is None:
            return
        for message, descriptor in self._nursery.read():
            kind, facts = message[0], message[1:]
            if kind == "ready":
                self._is_nursery_ready = True
            elif kind == "born":
                self._enter(*facts, pidfd=descriptor)
            elif kind == "dead":
                self._note_exit(*facts)
            else:
                self._is_refusal = kind == "refused"
                self._complaint = facts[0]

    def _enter(self, birth: int, pid: int, *, pidfd: int | None) -> None:
        assert pidfd is not None, "a birth comes with its pidfd"
        worker = self._births[birth]
        if worker.is_dead:  # It was given up before it was born.
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
            return
        worker.pid, worker.pidfd, worker.channel.death = pid, pidfd, pidfd
        self._watch.add(pidfd, lambda: self._lose(worker))

    def _note_exit(self, birth: int, exitcode: int) -> None:
        self._births.pop(birth).exitcode = exitcode

    def _watch_channel(self, worker: WorkerHandle) -> None:
        def read() -> None:
            self._read(worker)
            if worker.channel.has_ended:
                self._watch.remove(worker.channel.fileno())

        self._watch.add(worker.channel.fileno(), read)

    def _lose(self, worker: WorkerHandle) -> None:
        """Notes a death, and reads what the worker still said."""
        worker.is_dead = True  # First: Ctrl-C may come at any moment.
        self._read(worker)
        self._watch.remove(worker.channel.fileno())
        if worker.pidfd is not None:
            self._watch.remove(worker.pidfd)

    def _lose_nursery(self) -> None:
        """Ends what a nursery that is gone has left behind."""
        if self._nursery is None:
            return
        self._read_nursery()
        lost, self._nursery = self._nursery, None
        self._watch.remove(lost.fileno())
        self._watch.remove(lost.pidfd)
        for worker in self.workers:
            worker.kill()
            worker.is_dead |= worker.pidfd is None
        for worker in self._births.values():
            worker.kill_group()  # The nursery has not buried it, so nobody else will.
        self._births.clear()
        self._untold.clear()
        lost.end()

    def _await_deaths(self, indices: Sequence[int], deadline: float) -> None:
        poller = select.poll()
        waiting: dict[int, WorkerHandle] = {}
        for worker in [self.workers[index] for index in indices]:
            if worker.pidfd is not None and not worker.is_dead:
                waiting[worker.pidfd] = worker
                poller.register(worker.pidfd, select.POLLIN)
                poller.register(worker.channel.fileno(), select.POLLIN)
                waiting[worker.channel.fileno()] = worker
        while any(not worker.is_dead for worker in waiting.values()):
            events = poller.poll(max(0.0, deadline - time.monotonic()) * 1000)
            if not events:
                return
            for descriptor, _ in events:
                worker = waiting[descriptor]
                if descriptor == worker.pidfd:
                    worker.is_dead = True
                with contextlib.suppress(OSError):
                    worker.channel.receive_all()
                if worker.is_dead or worker.channel.has_ended:
                    poller.unregister(descriptor)
