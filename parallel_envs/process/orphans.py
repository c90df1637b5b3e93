"""Processes that lost their parent: who adopts them, whose they were, their end.

An environment may start programs that leave its worker's process group: a session of
their own, or a daemon by two forks, as simulators and X servers do. Linux gives what
they leave to the nearest ancestor that has declared itself for it, so they cannot get
away from under one that has.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import resource
import select
import signal
import time
from collections.abc import Iterator

_PR_SET_CHILD_SUBREAPER = 36
# Locks on files have not been counted since Linux 2.4.25, so this limit limits nothing.
# Unlike a variable of the environment, or a group, a child cannot lose it by chance:
# it outlives fork, exec and setsid, and can be read from outside.
_RLIMIT_LOCKS = 10
_LOOK_SECONDS = 0.02  # How often what has ended is looked for, at the least.


def adopt() -> None:
    """Has what its descendants leave behind become children of this process."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def mark(number: int) -> None:
    """Marks this process and all that will descend from it, where the system can."""
    _, hard = resource.getrlimit(_RLIMIT_LOCKS)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(_RLIMIT_LOCKS, (number, hard))


def mark_of(pid: int) -> int | None:
    """Returns the number that a process was marked with, if it can be known."""
    try:
        soft, _ = resource.prlimit(pid, _RLIMIT_LOCKS)
    except (OSError, ValueError):
        return None
    return None if soft == resource.RLIM_INFINITY else soft


def children() -> list[int]:
    """Returns the children of this process, which has one thread.

    Those that have ended and were not reaped are among them. On a kernel that lists no
    children there are none.
    """
    own = os.getpid()
    with contextlib.suppress(FileNotFoundError):
        listed = pathlib.Path(f"/proc/self/task/{own}/children").read_text()
        return [int(word) for word in listed.split()]
    return []


def ended() -> Iterator[int]:
    """Gives each child that has ended; it is to be reaped before the next is asked."""
    with contextlib.suppress(ChildProcessError):
        while True:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None:
                return
            yield found.si_pid


def kill(pid: int) -> None:
    """Ends a child, unless it runs as another user."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def cleans_up(pid: int) -> bool:
    """Whether a child unlinks the shared memory of others, and then ends by itself.

    Each program that uses the shared memory of `multiprocessing` has one such child,
    which acts once the last process that could use that memory is gone.
    """
    with contextlib.suppress(OSError):
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"multiprocessing.resource_tracker" in command
    return False


def end_all(seconds: float) -> None:
    """Ends and reaps every child, and theirs, which thereby become children.

    Args:
        seconds: When to give up: the kernel may hold a process for a while, and one
            that runs as another user may go on for ever.
    """
    deadline = time.monotonic() + seconds
    while remaining := _unreaped():
        is_late = time.monotonic() >= deadline
        for pid in remaining:
            if is_late or not cleans_up(pid):
                kill(pid)
        if is_late:
            return
        _wait_for(remaining[0])


def _unreaped() -> list[int]:
    for pid in ended():
        os.waitpid(pid, 0)
    return children()


def _wait_for(pid: int) -> None:
    """Waits a moment for a child to end."""
    pidfd = os.pidfd_open(pid)
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    poller.poll(_LOOK_SECONDS * 1000)
    os.close(pidfd)
