"""Processes below another one, and the memory that is theirs alone."""

from __future__ import annotations

import pathlib

_PROC = pathlib.Path("/proc")


def own_bytes_of_descendants(pid: int) -> int | None:
    """Returns the bytes that would be free if all processes below this one ended.

    Pages that they share with each other or with anybody else do not count. None where
    the system does not tell.
    """
    if not (_PROC / "self" / "smaps_rollup").exists():
        return None
    return sum(own_bytes(each) for each in _descendants(pid))


def own_bytes(pid: int) -> int:
    """Returns the bytes that would be free if a process ended; 0 if it has."""
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    fields = [line.split() for line in lines if line.startswith("Private_")]
    return sum(int(kibibytes) * 1024 for name, kibibytes, _ in fields if name)


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (parent := _parent(entry)) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for each in found:  # Grows on the way.
        found.extend(children.get(each, ()))
    return found[1:]


def _parent(process: pathlib.Path) -> int | None:
    try:
        stat = (process / "stat").read_text()
    except OSError:  # It has ended in the meantime.
        return None
    # The name of the program, in parentheses, may contain anything.
    return int(stat.rpartition(")")[2].split()[1])
