"""The processes of a pool on systems that have no nursery: Unix, other than Linux.

Each worker is an interpreter of its own, a child of this process. Its death is told by
the end of its channel, and, as children of the environment may hold that end, by asking
for it now and then. A worker asks now and then as well whether its parent lives.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Sequence

from parallel_envs.process import channel, interpreter, standard_streams, worker
from parallel_envs.process.processes import Processes
from parallel_envs.process.surroundings import Surroundings
from parallel_envs.process.watch import PortableWatch
from parallel_envs.process.worker import Station
from parallel_envs.process.worker_handle import WorkerHandle

_POLL_SECONDS = 0.01
_END_SECONDS = 1.0  # What a worker may take to end once it has closed its channel.


class PortableProcesses(Processes):
    """Starts workers as children, and watches over them."""

    def __init__(
        self,
        watch: PortableWatch,
        station: Station,
        read: Callable[[WorkerHandle], None],
    ) -> None:
        """Makes no process yet; the arguments are those of `WorkerProcesses`."""
        super().__init__()
        self._children: dict[int, subprocess.Popen[bytes]] = {}  # By place.
        self._watch = watch
        self._station = station
        self._read = read
        watch.idle = self._look_for_deaths

    @property
    def nursery_pid(self) -> None:
        """None: workers are children of this very process."""

    def start(self, indices: Sequence[int], timeout: float | None = None) -> None:
        """Starts a worker in each place; there is nothing to wait for."""
        surroundings = Surroundings.capture()
        for index in indices:
            mine, other = channel.Channel.pair(self._watch.stop)
            handle = WorkerHandle(index, mine)
            handle.is_dead = True  # Until it is born, which may fail.
            self.workers[index : index + 1] = [handle]
            with other:
                child = self._execute(index, other.fileno(), surroundings)
            self._children[index] = child
            handle.pid, handle.is_dead = child.pid, False
            self._watch.add(mine.fileno(), self._reader(handle))

    def exitcode(self, index: int) -> int | None:
        """Returns how a dead worker ended."""
        return self.workers[index].exitcode

    def remove(self, index: int) -> None:
        """Frees what is left of a dead worker."""
        handle = self.workers[index]
        self._watch.remove(handle.channel.fileno())
        handle.free()

    def _execute(
        self, index: int, descriptor: int, surroundings: Surroundings
    ) -> subprocess.Popen[bytes]:
        own = (descriptor, *self._station.descriptors)
        with standard_streams.copied_above(own) as copies:
            connection, *descriptors = copies
            station = Station.of(self._station.num_workers, descriptors)
            place = worker.command(station, index, connection)
            return subprocess.Popen(
                interpreter.command(
                    "worker", surroundings.module_path, [place, *surroundings.arguments]
                ),
                stdin=subprocess.DEVNULL,
                stdout=standard_streams.for_program(1),
                stderr=standard_streams.for_program(2),
                pass_fds=copies,
                start_new_session=True,  # And so in a group that can be ended with it.
                env=dict(surroundings.environ),
                cwd=surroundings.folder or "/",  # It may have been deleted.
                umask=surroundings.umask,
            )

    def _reader(self, handle: WorkerHandle) -> Callable[[], None]:
        def read() -> None:
            self._read(handle)
            if handle.channel.has_ended:
                self._watch.remove(handle.channel.fileno())
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._children[handle.index].wait(_END_SECONDS)
                self._lose(handle)

        return read

    def _look_for_deaths(self) -> None:
        for handle in self.workers:
            has_ended = self._children[handle.index].poll() is not None
            if has_ended and not handle.is_dead:
                self._lose(handle)

    def _lose(self, handle: WorkerHandle) -> None:
        """Notes a death, and ends what the worker has left behind."""
        self._read(handle)
        self._watch.remove(handle.channel.fileno())
        handle.kill()
        handle.exitcode = self._children[handle.index].wait()
        handle.is_dead = True

    def _await_deaths(self, indices: Sequence[int], deadline: float) -> None:
        # One that Ctrl-C kept from being started has no child.
        alive = [self.workers[index] for index in indices if index in self._children]
        while alive := [handle for handle in alive if not handle.is_dead]:
            if time.monotonic() >= deadline:
                return
            for handle in alive:
                with contextlib.suppress(OSError):
                    handle.channel.receive_all()
                child = self._children[handle.index]
                with contextlib.suppress(subprocess.TimeoutExpired):
                    handle.exitcode = child.wait(_POLL_SECONDS / len(alive))
                    handle.kill()
                    handle.is_dead = True
