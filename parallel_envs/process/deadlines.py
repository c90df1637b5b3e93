"""Waits for workers, and ends those that take longer than they may."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from parallel_envs.process.control_block import ControlBlock
from parallel_envs.process.crash_notes import CrashNotes
from parallel_envs.process.processes import Processes
from parallel_envs.process.watch import Watch


class Errand(NamedTuple):
    """Something that was asked of a worker.

    Attributes:
        worker: Its number.
        asked_at: By `time.monotonic`.
        limit: Seconds that the worker may take; None for as long as it likes.
        name: What was asked for, if it has a name.
    """

    worker: int
    asked_at: float
    limit: float | None
    name: str = ""


class Deadlines:
    """Holds workers to their limits.

    A worker notes when it begins what it was asked for, and with each part of it. Its
    time runs from then, or from when it was asked if it has not begun: what it had to
    do before is not counted, and one that was stopped is not given more. It runs anew
    when something arrives from the worker, as an answer larger than the socket does in
    parts while it is read, however late the caller comes to read it.
    """

    def __init__(
        self,
        watch: Watch,
        processes: Processes,
        control: ControlBlock,
        notes: CrashNotes,
    ) -> None:
        self._watch, self._processes = watch, processes
        self._control, self._notes = control, notes

    def wait(
        self, unfinished: Callable[[], Iterable[Errand]], until: float | None = None
    ) -> None:
        """Handles what happens next, waiting for it until `until` at most.

        Args:
            unfinished: Returns what is waited for. A worker that is late with it is
                killed, which is then what has happened.
            until: By `time.monotonic`.
        """
        left = self.left(unfinished())
        if left is not None and left <= 0.0:
            self._watch.wait(0.0)  # An answer that is there already is not late.
            self.enforce(unfinished())
            return
        lefts = [] if left is None else [left]
        if until is not None:
            lefts.append(max(0.0, until - time.monotonic()))
        self._watch.wait(min(lefts, default=None))

    def left(self, errands: Iterable[Errand]) -> float | None:
        """Returns the seconds until one of them is late; None where none can be."""
        ends = [
            max(errand.asked_at, self._last_seen(errand.worker)) + errand.limit
            for errand in errands
            if errand.limit is not None
        ]
        return min(ends) - time.monotonic() if ends else None

    def enforce(self, errands: Iterable[Errand]) -> None:
        """Kills the workers that are late, after asking them where they stand."""
        self.end([errand for errand in errands if self._is_late(errand)])

    def end(self, late: Sequence[Errand]) -> None:
        """Kills workers, after asking them where they stand."""
        errands = {errand.worker: errand for errand in late}
        workers = [self._processes.workers[index] for index in errands]
        living = [worker for worker in workers if not worker.is_dead]
        self._notes.ask({w.index: w.pidfd for w in living if w.pidfd is not None})
        for worker in living:
            worker.exceeded = errands[worker.index].limit
            worker.late_with = errands[worker.index].name
        self._processes.kill([worker.index for worker in living])
        for worker in living:
            # One that waits within a driver of the system dies when that returns:
            # nobody is to wait for it.
            worker.is_dead = True

    def _last_seen(self, worker: int) -> float:
        heard_at = self._processes.workers[worker].channel.heard_at
        return max(self._control.began_at(worker), heard_at)

    def _is_late(self, errand: Errand) -> bool:
        left = self.left([errand])
        return left is not None and left <= 0.0
