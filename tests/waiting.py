"""Waits for what processes do, each with an end."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable


def wait_for_end(pids: Iterable[int], seconds: float = 10.0) -> None:
    """Returns once all processes are gone; fails if one is not by then."""
    deadline = time.monotonic() + seconds
    for pid in pids:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        has_ended = is_readable(pidfd, deadline - time.monotonic())
        os.close(pidfd)
        assert has_ended, f"process {pid} is still there"


def is_readable(descriptor: int, seconds: float) -> bool:
    """Returns whether a descriptor is readable, or gets so in time."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(max(0.0, seconds) * 1000))
