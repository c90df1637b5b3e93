"""Which faults happen where, and what has happened so far.

A fault depends on a seed and on where an environment is in its own life, never on time:
the same seed gives the same faults. What has happened stands in files of one folder,
which outlive the processes of the environments.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import random
from typing import Literal

from tests.fault_drill.faults import (
    DYING,
    HANGING,
    HARMLESS,
    MISFITS,
    RAISING,
    Fault,
)

Place = Literal[
    "constructor", "reset", "step", "seed", "get_info", "render", "call", "close"
]

_RATES: dict[Place, float] = {
    "constructor": 0.06,
    "reset": 0.02,
    "step": 0.025,
    "seed": 0.03,
    "get_info": 0.02,
    "render": 0.05,
    "call": 0.04,
    "close": 0.03,
}
_WEIGHTS = {
    **dict.fromkeys(RAISING, 1.0),
    **dict.fromkeys(MISFITS, 1.0),
    **dict.fromkeys(DYING, 1.2),
    **dict.fromkeys(HANGING, 0.6),
    **dict.fromkeys(HARMLESS, 0.8),
}


@dataclasses.dataclass(frozen=True)
class Event:
    """A fault that is about to be committed.

    Attributes:
        position: Of the constructor whose environment does it.
        life: Which of its environments.
        place: What it is doing.
        count: How often it had done that before.
        fault: What it does.
        pid: Of its process; where its parent is killed, of that.
    """

    position: int
    life: int
    place: str
    count: int
    fault: Fault
    pid: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """What goes wrong in one batch.

    Attributes:
        seed: Decides all of it.
        has_processes: Whether an environment may take its process with it.
        is_slow: Whether processes take long to start, so that few are to be lost.
    """

    seed: str
    has_processes: bool
    is_slow: bool

    def fault(self, position: int, life: int, place: Place, count: int) -> Fault | None:
        """Returns what happens in an environment's `count`-th use of one method."""
        chance = random.Random(f"{self.seed} {position} {life} {place} {count}")
        if chance.random() >= _RATES[place]:
            return None
        kinds = list(self._kinds(place))
        weights = [_WEIGHTS[kind] for kind in kinds]
        fault = chance.choices(kinds, weights)[0]
        # These cost a start_timeout, or the three seconds of close().
        if fault in HANGING and place in ("constructor", "close"):
            return fault if chance.random() < 0.3 else None
        if fault in HANGING + DYING and self.is_slow:
            return fault if chance.random() < 0.4 else None
        return fault

    def _kinds(self, place: Place) -> tuple[Fault, ...]:
        kinds = (*RAISING, *(MISFITS if place in ("step", "reset") else ()))
        if self.has_processes:
            return (*kinds, *DYING, *HANGING, *HARMLESS)
        here = (Fault.RAISES_KEYBOARD_INTERRUPT, Fault.FORKS, Fault.STARTS_PROCESS)
        return tuple(kind for kind in (*kinds, *HARMLESS) if kind not in here)


@dataclasses.dataclass(frozen=True)
class Diary:
    """The files in which environments write down what becomes of them."""

    folder: pathlib.Path

    def begin_life(self, position: int) -> int:
        """Returns how many lives of this constructor had begun before."""
        self._append("pids", f"{os.getpid()}\n")
        return self._append(f"lives of {position}", ".") - 1

    def note(self, event: Event) -> None:
        """Writes down what happens next."""
        who, what = (event.position, event.life), (event.place, event.count)
        words = (*who, *what, event.fault.name, event.pid)
        self._append("events", " ".join(map(str, words)) + "\n")

    def events(self, start: int = 0) -> list[Event]:
        """Returns what was written down, from the event number `start` on."""
        return [_event(line) for line in self._lines("events")[start:]]

    def pids(self) -> set[int]:
        """Returns the processes that have begun to make an environment."""
        return {int(line) for line in self._lines("pids")}

    def _append(self, name: str, text: str) -> int:
        """Writes at the end of a file, in one piece; returns the file's size."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        descriptor = os.open(self.folder / name, flags)
        try:
            os.write(descriptor, text.encode())
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def _lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


def _event(line: str) -> Event:
    position, life, place, count, fault, pid = line.split()
    where = (int(position), int(life), place, int(count))
    return Event(*where, Fault[fault], int(pid))
