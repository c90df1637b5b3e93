"""Waits for what processes do, each with an end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from parallel_envs.process.watch import is_readable


def wait_for_end(pids: Iterable[int], seconds: float = 10.0) -> None:
    """Returns once all processes are gone; fails if one is not by then."""
    deadline = time.monotonic() + seconds
    for pid in pids:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        has_ended = is_readable(pidfd, max(0.0, deadline - time.monotonic()))
        os.close(pidfd)
        assert has_ended, f"process {pid} is still there"
