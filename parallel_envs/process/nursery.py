"""The clean process that forks workers, watches them, and ends with its caller.

It was started by `exec`, so none of the caller's locks, threads, or CUDA and
TensorFlow state is in it, and it has one thread, so forking it is safe. A worker
costs a fork: about a millisecond, and pages are shared. It belongs to one pool.

Each worker and whatever its environment starts bear a mark, and what loses its parent
becomes a child of the nursery. So all of it ends with the worker, daemons in sessions
of their own too, and nothing of its siblings. The worker is not what adopts: it would
have to reap as well, and cannot tell an adopted child from one whose exit status
`subprocess` is going to ask for. The kernel ends the workers should the nursery die
(PR_SET_PDEATHSIG); `guard.py` ends the rest.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import gc
import importlib
import os
import pickle
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from parallel_envs.process import (
    channel,
    guard,
    interpreter,
    orphans,
    remote_error,
    worker,
)
from parallel_envs.process.surroundings import Surroundings

_PR_SET_PDEATHSIG = 1
_MESSAGE_SIZE = 1 << 16  # bytes
_BIRTH_BITS = 32  # The rest of a mark is the nursery's process id: pools may be nested.

Inherited = Callable[[int], worker.ServantFactory]


class Nursery:
    """Forks workers on request and tells of their end."""

    def __init__(
        self,
        station: worker.Station,
        connection: socket.socket,
        guardian: int,
        *,
        is_spawning: bool = False,
        inherited: Inherited | None = None,
    ) -> None:
        """Takes its place.

        Args:
            station: What all workers share.
            connection: A socket that keeps messages apart, to the caller.
            guardian: Process id of the guard, with which it ends.
            is_spawning: Whether workers get an interpreter of their own.
            inherited: Gives each worker's factory where it is not to be pickled.
        """
        self._station = station
        self._connection = connection
        self._is_spawning = is_spawning
        self._inherited = inherited
        self._workers: dict[int, int] = {}  # pid: birth
        self._guardian = os.pidfd_open(guardian)
        self._children, self._wake = _hear_of_children()
        self._poller = select.poll()
        for descriptor in (connection.fileno(), self._guardian, self._children):
            self._poller.register(descriptor, select.POLLIN)

    def run(self, preload: Sequence[str] = ()) -> None:
        """Imports modules, serves, and at the end ends every worker."""
        orphans.adopt()
        try:
            refusal = _preload(preload)
            if refusal is None:
                self._serve()
            else:
                self._tell("refused", refusal)
        except BaseException as error:
            summary = remote_error.RemoteError.of(error).summary
            self._tell("broken", f"the process that starts workers raised {summary}")
            raise
        finally:
            orphans.end_all(guard.END_SECONDS)
            self._connection.close()

    def _serve(self) -> None:
        """Forks and watches until the caller or the guard is gone."""
        self._tell("ready")
        gc.collect()
        gc.freeze()  # A worker's collector would else touch, and so copy, all pages.
        while True:
            for descriptor, _ in self._poller.poll():
                if descriptor == self._children:
                    os.read(descriptor, _MESSAGE_SIZE)
                    self._reap()
                elif descriptor == self._guardian or not self._listen():
                    return

    def _listen(self) -> bool:
        data, descriptors = receive(self._connection)
        if not data:
            return False
        birth, index = pickle.loads(data)
        self._fork(birth, index, descriptors[0])
        return True

    def _fork(self, birth: int, index: int, descriptor: int) -> None:
        nursery = os.getpid()
        pid = os.fork()
        if pid == 0:
            connection = socket.socket(fileno=descriptor)
            self._become_worker(nursery, birth, index, connection)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(pid, pid)  # Here too, so that it is so before anyone asks.
        os.close(descriptor)
        self._workers[pid] = birth
        pidfd = os.pidfd_open(pid)
        self._tell("born", birth, pid, descriptor=pidfd)
        os.close(pidfd)

    def _become_worker(
        self, nursery: int, birth: int, index: int, connection: socket.socket
    ) -> None:
        try:
            os.setpgid(0, 0)
            die_with_parent(nursery)
            orphans.mark(_mark(nursery, birth))
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            own = self._connection.detach()
            for descriptor in (own, self._guardian, self._children, self._wake):
                os.close(descriptor)
            surroundings = channel.receive_first(connection)
            surroundings.apply()
            if self._is_spawning:
                self._exec_worker(index, connection, surroundings)
            factory = self._inherited(index) if self._inherited else None
            worker.run(self._station, index, connection, factory)
        except BaseException:
            traceback.print_exc()  # There is no channel to tell it through yet.
        finally:
            os._exit(1)  # pyright: ignore[reportPrivateUsage]

    def _exec_worker(
        self, index: int, connection: socket.socket, surroundings: Surroundings
    ) -> None:
        for descriptor in (connection.fileno(), *self._station.descriptors):
            os.set_inheritable(descriptor, True)
        place = worker.command(self._station, index, connection.fileno())
        command = interpreter.command(
            "worker", surroundings.module_path, [place, *surroundings.arguments]
        )
        os.execve(sys.executable, command, dict(surroundings.environ))

    def _reap(self) -> None:
        """Reaps what has ended, and ends what dead workers have left behind."""
        for pid in orphans.ended():
            if pid in self._workers:
                self._bury(pid)
            else:
                os.waitpid(pid, 0)
        living = {_mark(os.getpid(), birth) for birth in self._workers.values()}
        for pid in orphans.children():
            mark = orphans.mark_of(pid)
            is_ours = mark is not None and mark >> _BIRTH_BITS == os.getpid()
            if is_ours and mark not in living and not orphans.cleans_up(pid):
                # Its own children become ours before its end is told, and come next.
                orphans.kill(pid)

    def _bury(self, pid: int) -> None:
        birth = self._workers.pop(pid)
        if orphans.mark_of(pid) != _mark(os.getpid(), birth):
            # The group goes before its leader is reaped: until then its number cannot
            # belong to anyone else.
            _kill_group(pid)
        _, status = os.waitpid(pid, 0)
        self._tell("dead", birth, os.waitstatus_to_exitcode(status))

    def _tell(self, *message: Any, descriptor: int | None = None) -> None:
        # A caller that does not read is gone or stuck; waiting for it would leave
        # nobody to watch the workers.
        with contextlib.suppress(BlockingIOError, ConnectionError):
            data = pickle.dumps(message)
            send(self._connection, data, descriptor, socket.MSG_DONTWAIT)


def receive(connection: socket.socket, flags: int = 0) -> tuple[bytes, list[int]]:
    """Returns one message and the descriptors that came along.

    Raises:
        OSError: If this process has no descriptor to spare; the kernel drops them then.
    """
    # Not `socket.recv_fds`, which ignores its flags.
    descriptors = array.array("i")
    space = socket.CMSG_LEN(descriptors.itemsize)
    data, ancillary, received, _ = connection.recvmsg(
        _MESSAGE_SIZE, space, flags | socket.MSG_CMSG_CLOEXEC
    )
    for _, _, payload in ancillary:
        descriptors.frombytes(payload)
    if received & socket.MSG_CTRUNC:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return data, list(descriptors)


def send(
    connection: socket.socket,
    data: bytes,
    descriptor: int | None = None,
    flags: int = 0,
) -> None:
    """Sends one message, and a copy of a descriptor with it."""
    descriptors = array.array("i", () if descriptor is None else (descriptor,))
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)]
    connection.sendmsg([data], ancillary if descriptors else (), flags)


def run_forked(
    station: worker.Station,
    connection: socket.socket,
    caller: int,
    inherited: Inherited,
    foreign: Sequence[int],
) -> None:
    """Runs a nursery, and its guard, in a process that was just forked from the caller.

    Args:
        station: What all workers share.
        connection: The nursery's end of the socket.
        caller: Process id of the caller.
        inherited: Gives each worker's factory.
        foreign: Descriptors to close: the caller's own ends.
    """
    try:
        os.setsid()
        _forget_handlers()
        _set_handlers()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        for descriptor in foreign:
            os.close(descriptor)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        guard.run(
            caller,
            lambda guardian: Nursery(
                station, connection, guardian, inherited=inherited
            ).run(),
            [connection.fileno(), *station.descriptors],
        )
    finally:
        os._exit(0)  # pyright: ignore[reportPrivateUsage]


def main(arguments: Sequence[str]) -> None:
    """Runs a nursery and its guard in an interpreter of their own; see `command`."""
    _set_handlers()
    numbers = map(int, arguments[0].split(","))
    connection, caller, is_spawning, num_workers, *descriptors = numbers
    station = worker.Station.of(num_workers, descriptors)
    try:
        # They had to be inherited up to here; programs that are started are to have
        # none of them.
        own = (connection, *station.descriptors)
        for descriptor in own:
            os.set_inheritable(descriptor, False)
        guard.run(
            caller,
            lambda guardian: Nursery(
                station,
                socket.socket(fileno=connection),
                guardian,
                is_spawning=bool(is_spawning),
            ).run(arguments[1:]),
            own,
        )
    finally:
        os._exit(0)  # pyright: ignore[reportPrivateUsage]


def command(
    station: worker.Station,
    connection: int,
    *,
    is_spawning: bool,
    preload: Sequence[str],
) -> list[str]:
    """Returns the command that starts a nursery which serves the calling process."""
    numbers = (
        connection,
        os.getpid(),
        int(is_spawning),
        station.num_workers,
        *station.descriptors,
    )
    return interpreter.command(
        "nursery", sys.path, [",".join(map(str, numbers)), *preload]
    )


def die_with_parent(parent: int) -> None:
    """Has the kernel end this process when `parent`, its parent, ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # It went before the kernel was told.
        os._exit(1)  # pyright: ignore[reportPrivateUsage]


def num_threads() -> int:
    """Returns how many threads this process has, those of libraries too."""
    return len(os.listdir("/proc/self/task"))


def _preload(modules: Sequence[str]) -> str | None:
    """Imports modules; returns what is wrong with the first that will not do."""
    before = num_threads()
    for name in modules:
        try:
            importlib.import_module(name)
        except BaseException as error:
            summary = remote_error.RemoteError.of(error).summary
            return f"preload: {name!r} will not do: importing it raised {summary}."
        started = num_threads() - before
        if started:
            return (
                f"preload: {name!r} will not do: importing it starts {started} "
                "thread(s), and a fork would copy their locks."
            )
    return None


def _set_handlers() -> None:
    signal.signal(signal.SIGINT, _do_nothing)
    # Where the caller ignores it the kernel reaps children before they are asked for.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _do_nothing(*_: object) -> None: ...


def _hear_of_children() -> tuple[int, int]:
    """Returns a pipe that is readable once a child has ended, and its other end."""
    children, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _do_nothing)
    return children, wake


def _mark(nursery: int, birth: int) -> int:
    return nursery << _BIRTH_BITS | birth


def _forget_handlers() -> None:
    """Takes back the signal handlers of the program that this is a fork of."""
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
