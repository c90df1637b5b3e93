"""What a drill has left behind."""

from __future__ import annotations

import collections
import gc
import os
import pathlib
import threading
import time
from collections.abc import Collection

VARIABLE = "PARALLEL_ENVS_DRILL"
"""Name of the environment variable that marks the processes of a drill."""


def possessions() -> collections.Counter[str]:
    """Returns what this process holds of the system, with the number of each."""
    gc.collect()
    gc.collect()  # What a finalizer held until it ran is garbage of the next round.
    held = [
        f"{folder}/{name}"
        for folder in ("/proc/self/fd", "/dev/shm")
        for name in os.listdir(folder)
        # Of other programs: nothing here uses multiprocessing.
        if not name.startswith(("sem.mp-", "psm_"))
    ]
    return collections.Counter(
        {
            **dict.fromkeys(held, 1),
            "thread": len(os.listdir("/proc/self/task")),
            "thread of Python": threading.active_count(),
        }
    )


def processes_left(mark: str, pids: Collection[int], seconds: float) -> list[str]:
    """Returns the processes of a drill that are still there after some time.

    Args:
        mark: What the variable says in them.
        pids: More of them, where a fork has hidden the variable.
        seconds: For the system to end those that were killed.
    """
    deadline = time.monotonic() + seconds
    while (left := _processes(mark, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def _processes(mark: str, pids: Collection[int]) -> list[str]:
    wanted = f"{VARIABLE}={mark}".encode()
    left: list[str] = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        try:
            is_marked = wanted in (folder / "environ").read_bytes().split(b"\0")
            if is_marked or int(folder.name) in pids:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                left.append(f"{folder.name}: {line.decode(errors='replace'):.80}")
        except OSError:  # It has ended meanwhile, or belongs to somebody else.
            continue
    return left
