"""The caller's end of a nursery and its guard."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from parallel_envs.process import nursery, standard_streams, surroundings, worker
from parallel_envs.process.watch import is_readable

_END_SECONDS = 2.0


class NurseryHandle:
    """Starts a nursery, asks it for workers, and ends it."""

    def __init__(
        self,
        station: worker.Station,
        *,
        context: str,
        preload: Sequence[str] = (),
        inherited: nursery.Inherited | None = None,
    ) -> None:
        """Starts the process; `read` tells when it is ready.

        Args:
            station: What all workers share.
            context: "forkserver", "spawn" or "fork".
            preload: Modules that it imports before it is ready.
            inherited: For "fork": gives each worker's factory.

        Raises:
            RuntimeError: If `context` is "fork" and other threads run.
        """
        if context == "fork":
            refuse_other_threads()
        mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection = mine
        self._process: subprocess.Popen[bytes] | None = None
        with other, contextlib.ExitStack() as stack:
            stack.callback(mine.close)
            if context == "fork":
                assert inherited is not None, "a fork inherits its factories"
                self.pid = self._fork(station, other, inherited)
            else:
                self._process = _execute(station, other, context, preload)
                self.pid = self._process.pid
            self.pidfd = os.pidfd_open(self.pid)
            stack.pop_all()

    def fileno(self) -> int:
        """Returns the descriptor, which is readable when there is a message."""
        return self._connection.fileno()

    def fork(self, birth: int, index: int, connection: socket.socket) -> None:
        """Asks for a worker.

        Args:
            birth: A number that no other worker has, with which its birth and its
                death are told.
            index: Its place among the workers.
            connection: Its end of its channel.

        Raises:
            OSError: If the nursery is gone.
        """
        message = pickle.dumps((birth, index))
        nursery.send(self._connection, message, connection.fileno())

    def read(self) -> Iterator[tuple[tuple[Any, ...], int | None]]:
        """Gives the messages that have arrived, each with the descriptor it had.

        One by one, so that an error in reading one loses no descriptor of another.
        """
        while True:
            try:
                data, descriptors = nursery.receive(
                    self._connection, socket.MSG_DONTWAIT
                )
            except (BlockingIOError, ConnectionError):
                return
            if not data:
                return
            yield pickle.loads(data), next(iter(descriptors), None)

    def end(self) -> None:
        """Ends the nursery and all that is left of its workers, and reaps its guard."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGTERM)
            signal.pidfd_send_signal(self.pidfd, signal.SIGCONT)  # It may be stopped.
        self._connection.close()
        if not is_readable(self.pidfd, _END_SECONDS):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        os.close(self.pidfd)
        if self._process is not None:
            self._process.wait()
        else:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)

    def _fork(
        self,
        station: worker.Station,
        other: socket.socket,
        inherited: nursery.Inherited,
    ) -> int:
        caller, foreign = os.getpid(), (self._connection.fileno(),)
        for stream in (sys.stdout, sys.stderr):  # Else each process prints the rest.
            with contextlib.suppress(Exception):  # It may be closed, or None.
                stream.flush()
        # Python drops a KeyboardInterrupt that comes while it prepares a fork.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with warnings.catch_warnings():
                # Python 3.12 counts threads of BLAS too, which restart in the child.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
            if pid == 0:
                nursery.run_forked(station, other, caller, inherited, foreign)
            return pid
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def refuse_other_threads() -> None:
    """Raises RuntimeError where a fork of this process would copy locks in use."""
    others = [
        thread.name
        for thread in threading.enumerate()
        if thread is not threading.current_thread()
    ]
    # The pool of BLAS, at most one thread for each other core, survives a fork.
    allowed = len(others) + (os.cpu_count() or 1)
    if others or nursery.num_threads() > allowed:
        raise RuntimeError(
            'context="fork" copies this process, and a copy of a lock that another '
            "thread holds is never released: expected no other threads, found "
            f"{others or f'{nursery.num_threads()} started by libraries'}. Use the "
            "default context, or make the environments before the threads start."
        )


def _execute(
    station: worker.Station,
    other: socket.socket,
    context: str,
    preload: Sequence[str],
) -> subprocess.Popen[bytes]:
    own = (other.fileno(), *station.descriptors)
    with standard_streams.copied_above(own) as copies:
        connection, *descriptors = copies
        arguments = nursery.command(
            worker.Station.of(station.num_workers, descriptors),
            connection,
            is_spawning=context == "spawn",
            preload=preload,
        )
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=standard_streams.for_program(1),
            stderr=standard_streams.for_program(2),
            pass_fds=copies,
            start_new_session=True,  # Ctrl-C in a terminal is not meant for it.
            env=surroundings.with_single_threads(os.environ),
            # Some interpreters do not start in a folder that was deleted.
            cwd=surroundings.current_folder() or "/",
        )
