"""The process above a nursery, which leaves nothing of it when it or the caller ends.

A nursery cannot do this for itself: it may be killed, or stuck in an import. Whatever
workers and their environments have started falls to the guard once the nursery is gone.
It does nothing but wait, so there is little to go wrong with it. Should it be killed
nonetheless, the nursery sees that, and ends what is below itself.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Sequence
from typing import NoReturn

from parallel_envs.process import orphans

END_SECONDS = 1.0  # What the kernel may take to end everything.


def run(
    caller: int, nursery: Callable[[int], object], foreign: Sequence[int]
) -> NoReturn:
    """Runs a nursery in a fork of this process, and outlives it and all it started.

    SIGTERM, and the end of the caller or of the nursery, end everything.

    Args:
        caller: Process id of the process that all this is for.
        nursery: Called in the fork, with the process id of this process.
        foreign: The nursery's descriptors, to be closed in this process.
    """
    try:
        orphans.adopt()
        signal.signal(signal.SIGTERM, _end)
        pidfds = [os.pidfd_open(caller)]
        guard = os.getpid()
        pid = os.fork()
        if pid == 0:
            os.close(pidfds[0])
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            nursery(guard)
        else:
            for descriptor in foreign:
                os.close(descriptor)
            _wait_for_any([*pidfds, os.pidfd_open(pid)])
            _end()
    finally:
        os._exit(1)  # pyright: ignore[reportPrivateUsage]


def _wait_for_any(descriptors: Sequence[int]) -> None:
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    poller.poll()


def _end(*_: object) -> None:
    orphans.end_all(END_SECONDS)
    os._exit(0)  # pyright: ignore[reportPrivateUsage]
