"""What was asked of each part of the workers' objects, and what is done.

It lies in memory that all map. Parts are counted through, worker after worker.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from parallel_envs.process import shared_arrays

_COMMAND = 0  # Index of the command; then one word of each kind for each part.
_NUM_SHARED = 1
_ASKED, _DONE, _DONE_AT = range(3)
_NUM_KINDS = 3


class PartBlock:
    """Words of 64 bits: a command for all, and three for each part.

    Numbers of requests grow from 1, over all parts; a part is worked on while what is
    asked of it differs from what it has done.

    Attributes:
        asked: Number of the request that each part was last asked for, `[parts]`; 0
            where it is to do nothing.
        done: Number of the request that each has done; negative where the worker has
            also sent a message about it.
        done_at: When that was, in ns, by `time.monotonic_ns`.
    """

    def __init__(
        self, memory: shared_arrays.MemoryFile, offset: int, num_parts: int
    ) -> None:
        """Maps the block, which lies at `offset` in `memory`."""
        size = self.size(num_parts)
        self._words = memoryview(memory.map(size, offset)).cast("q")
        self._num_parts = num_parts
        everything: npt.NDArray[np.int64] = np.frombuffer(self._words, np.int64)
        self.asked, self.done, self.done_at = (
            everything[self._word(kind, 0) : self._word(kind, num_parts)]
            for kind in range(_NUM_KINDS)
        )

    @staticmethod
    def size(num_parts: int) -> int:
        """Bytes of the block, a whole number of pages."""
        return shared_arrays.whole_pages((_NUM_SHARED + _NUM_KINDS * num_parts) * 8)

    @property
    def command(self) -> int:
        """What requests are about; the worker knows what the number means."""
        return self._words[_COMMAND]

    @command.setter
    def command(self, command: int) -> None:
        self._words[_COMMAND] = command

    def open_requests(
        self, first: int, end: int, last: int
    ) -> Iterator[tuple[int, int]]:
        """Yields part and number of what some parts are yet to do, oldest first.

        Args:
            first: The first part.
            end: One past the last one.
            last: The last request that counts.
        """
        asked = self.asked[first:end].tolist()
        done = self.done[first:end].tolist()
        ahead = [
            (number, part)
            for part, (number, past) in enumerate(
                zip(asked, done, strict=True), start=first
            )
            if 0 < number <= last and number != abs(past)
        ]
        for number, part in sorted(ahead):
            # It may have been taken back meanwhile.
            if self._words[self._word(_ASKED, part)] == number:
                yield part, number

    def set_done(self, part: int, number: int) -> None:
        """Says that a request is done now; negative where a message was sent."""
        self._words[self._word(_DONE_AT, part)] = time.monotonic_ns()
        self._words[self._word(_DONE, part)] = number

    def _word(self, kind: int, part: int) -> int:
        return _NUM_SHARED + kind * self._num_parts + part
