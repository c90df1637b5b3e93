"""What was asked of each part of the workers' objects, and what is done.

It lies in memory that all map. Parts are counted through, worker after worker.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from parallel_envs.process import shared_arrays, word_table

_ASKED, _DONE, _DONE_AT = range(3)


class PartBlock(word_table.WordTable):
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

    NUM_SHARED = 1
    NUM_KINDS = 3

    def __init__(
        self, memory: shared_arrays.MemoryFile, num_parts: int, offset: int
    ) -> None:
        """Maps the block, which lies at `offset` in `memory`."""
        super().__init__(memory, num_parts, offset)
        self.asked, self.done, self.done_at = map(
            self._column, (_ASKED, _DONE, _DONE_AT)
        )

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
