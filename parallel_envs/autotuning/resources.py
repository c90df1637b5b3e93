"""What processes take of a machine, and what there is: memory, cores, their time.

Read from Linux' own files, so that nothing need be installed.
"""

from __future__ import annotations

import contextlib
import math
import os
import pathlib
from collections.abc import Iterator, Sequence

_ROOT = pathlib.Path("/")

# Below /sys/fs/cgroup, of version 2 and 1: a limit and what of it is used.
_MEMORY_FILES = (
    ("memory.max", "memory.current", "memory.stat"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
    ),
)
_QUOTA_FILES = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))


def usable_cores(root: pathlib.Path = _ROOT) -> int:
    """Returns how many cores this process may keep busy: at least 1.

    By its affinity, and by the quota of its container.

    Args:
        root: Where `sys` is.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    for names in _QUOTA_FILES:
        words = " ".join(_text(root / "sys/fs/cgroup" / name) for name in names).split()
        if len(words) == 2 and words[0].isdigit():
            cores = min(cores, math.ceil(int(words[0]) / int(words[1])))
    return max(1, cores)


def load() -> float:
    """Returns how many programs wanted a core of late, for each core there is.

    0 where the system does not tell.
    """
    if not hasattr(os, "getloadavg"):
        return 0.0
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def available_memory(root: pathlib.Path = _ROOT) -> int | None:
    """Returns the bytes that can be had without swapping; None where nobody tells.

    Of the machine, or of the container where that leaves less.

    Args:
        root: Where `proc` and `sys` are.
    """
    machine = _numbers(_text(root / "proc/meminfo")).get("MemAvailable:")
    if machine is None:
        return None
    groups = _left_to_groups(root / "sys/fs/cgroup")
    return max(0, min([machine * 1024, *groups]))


def own_memory(pids: Sequence[int]) -> int | None:
    """Returns the bytes that only these processes and what they started have.

    What is shared with others does not count: what a process was forked with, say, or
    the code of libraries.

    Args:
        pids: Processes of this user.

    Returns:
        None where it cannot be known.
    """
    everyone = {*pids, *_descendants(pids)}
    texts = {pid: _text(pathlib.Path(f"/proc/{pid}/smaps_rollup")) for pid in everyone}
    if not all(texts[pid] for pid in pids):
        return None
    kilobytes = sum(
        amount
        for text in texts.values()
        for name, amount in _numbers(text).items()
        if name.startswith("Private_")
    )
    return kilobytes * 1024


def seconds_of_children() -> float:
    """Returns the time of processors that descendants of this process have used."""
    times = os.times()
    ticks = sum(_ticks(pid) for pid in _descendants([os.getpid()]))
    running = ticks / os.sysconf("SC_CLK_TCK") if ticks else 0.0
    return times.children_user + times.children_system + running


class Queueing:
    """Tells how long the thread that made this has waited for a core, ready to run.

    Where the system does not tell it seems never to have waited.
    """

    def __init__(self) -> None:
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):
            self._descriptor = os.open("/proc/thread-self/schedstat", os.O_RDONLY)

    def seconds(self) -> float:
        """Returns the time so far."""
        if self._descriptor is None:
            return 0.0
        return int(os.pread(self._descriptor, 64, 0).split()[1]) * 1e-9

    def close(self) -> None:
        """Closes the file that it is read from; may be called any number of times."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _left_to_groups(folder: pathlib.Path) -> Iterator[int]:
    for limit_name, used_name, stat_name in _MEMORY_FILES:
        limit, used = _text(folder / limit_name), _text(folder / used_name)
        if limit.strip().isdigit() and used.strip().isdigit():
            stat = _numbers(_text(folder / stat_name))
            # Files that were read count as used, and make way when memory is needed.
            idle = stat.get("total_inactive_file", stat.get("inactive_file", 0))
            yield int(limit) - int(used) + idle


def _descendants(pids: Sequence[int]) -> list[int]:
    children: dict[int, list[int]] = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        fields = _stat_fields(int(folder.name))
        if fields:
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found: list[int] = []
    ancestors = list(pids)
    while ancestors:
        own = children.pop(ancestors.pop(), [])
        found += own
        ancestors += own
    return found


def _ticks(pid: int) -> int:
    """Returns time of processors, also of children that were waited for."""
    return sum(map(int, _stat_fields(pid)[11:15]))


def _stat_fields(pid: int) -> list[str]:
    """Returns the fields after the name, which may have blanks and brackets."""
    return _text(pathlib.Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()


def _numbers(text: str) -> dict[str, int]:
    """Returns the second word of each line by the first, where it is a number."""
    pairs = (line.split()[:2] for line in text.splitlines())
    return {
        pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()
    }


def _text(path: pathlib.Path) -> str:
    """Returns what stands in a file; nothing where there is none for us."""
    with contextlib.suppress(OSError):
        return path.read_text("utf-8", "replace")
    return ""
