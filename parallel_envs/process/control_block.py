"""What was asked of each worker, what it has done, and what it is at.

It lies in memory that all map, so that the parent can read it of a worker that does
not answer, or is dead.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from parallel_envs.process import shared_arrays, word_table

_COMMAND, _MAY_SPIN = range(2)
_ASKED, _DONE, _PART, _BEGAN = range(4)


class ControlBlock(word_table.WordTable):
    """Words of 64 bits: two that concern all, and four for each worker.

    A worker does a round only while what is asked of it differs from what it has done.

    Attributes:
        asked: Number of the round that each worker was last asked for, `[workers]`.
        done: Number of the round that each has done; negative where it has also sent a
            message about the round.
    """

    NUM_SHARED = 2
    NUM_KINDS = 4

    def __init__(self, memory: shared_arrays.MemoryFile, num_workers: int) -> None:
        """Maps the block, which lies at the start of `memory`."""
        super().__init__(memory, num_workers)
        self.asked, self.done = map(self._column, (_ASKED, _DONE))

    @property
    def may_spin(self) -> bool:
        """Whether workers may stay awake for a short time after a round."""
        return bool(self._words[_MAY_SPIN])

    @may_spin.setter
    def may_spin(self, may_spin: bool) -> None:
        self._words[_MAY_SPIN] = may_spin

    def asked_of(self, worker: int) -> int:
        """Returns the number of the round that `worker` was last asked for."""
        return self._words[self._word(_ASKED, worker)]

    def set_done(self, worker: int, number: int) -> None:
        """Says that `worker` has done a round; negative where it sent news as well."""
        self._words[self._word(_DONE, worker)] = number

    def forget(self, worker: int) -> None:
        """Notes that a worker which is yet to be started is at nothing."""
        self.done[worker] = self.asked[worker]
        self.progress(worker).note(0)

    def part_of(self, worker: int) -> int:
        """Returns which part of its object `worker` was last at."""
        return self._words[self._word(_PART, worker)]

    def began_at(self, worker: int) -> float:
        """Returns when `worker` began what it was last at, by `time.monotonic`."""
        return self._words[self._word(_BEGAN, worker)] / 1e9

    def places_of(self, worker: int) -> dict[str, Any]:
        """Returns the words, and which of them concern `worker` in its rounds."""
        return {
            "words": self._words,
            "command": _COMMAND,
            "asked": self._word(_ASKED, worker),
            "done": self._word(_DONE, worker),
            "began": self._word(_BEGAN, worker),
        }

    def progress(self, worker: int) -> Progress:
        """Returns what `worker` notes with what it is at."""
        part = self._word(_PART, worker)
        began = self._word(_BEGAN, worker)
        return Progress(self._words, part, began)


class Progress:
    """Where a worker notes what it is at, for its parent to read at any moment.

    Attributes:
        note: Called with the number of a part of the object, notes that the worker is
            at it. A part is what can be late or at fault by itself.
    """

    def __init__(self, words: memoryview[int], part: int, began: int) -> None:
        """Writes into two of the words."""
        self._words, self._part, self._began = words, part, began
        self.note: Callable[[int], None] = functools.partial(words.__setitem__, part)

    @property
    def place(self) -> tuple[memoryview[int], int, int]:
        """The words, and which of them say the part and when it began, in ns."""
        return self._words, self._part, self._began

    def begin(self, part: int | None = None) -> None:
        """Notes that the worker begins now, with `part` or what it was last at."""
        if part is not None:
            self.note(part)
        self._words[self._began] = time.monotonic_ns()
