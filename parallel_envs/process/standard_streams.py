"""Keeps stdin, stdout and stderr of workers what they are said to be.

A program may have been started without one of them, as with `>&-` or by a service
manager. The next thing it opens then gets the number, and what a worker prints would
land in it: in shared memory, or in the socket through which workers are asked for.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Generator, Sequence

_FIRST_OTHER = 3


@contextlib.contextmanager
def copied_above(descriptors: Sequence[int]) -> Generator[list[int]]:
    """Gives copies of descriptors whose numbers are those of no standard stream.

    They are closed at the end.
    """
    with contextlib.ExitStack() as stack:
        copies: list[int] = []
        for descriptor in descriptors:
            copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_OTHER)
            stack.callback(os.close, copy)
            copies.append(copy)
        yield copies


def for_program(number: int) -> int | None:
    """Returns what `subprocess.Popen` is to be given as `stdout` (1) or `stderr` (2).

    A worker prints where this process does: to the null device if that is nowhere.
    """
    try:
        # Of streams it holds, and of nothing that was opened since.
        is_stream = os.get_inheritable(number)
    except OSError:
        is_stream = False
    return None if is_stream else subprocess.DEVNULL
