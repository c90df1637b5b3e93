"""Numbers in memory that all map: some that concern all, and some for each of many."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from parallel_envs.process import shared_arrays

_COMMAND = 0  # The first of those that concern all.


class WordTable:
    """Words of 64 bits: a few that concern all, then one of each kind for each entry.

    A subclass says how many there are, and what they mean.
    """

    NUM_SHARED: ClassVar[int]
    NUM_KINDS: ClassVar[int]

    def __init__(
        self, memory: shared_arrays.MemoryFile, num_entries: int, offset: int = 0
    ) -> None:
        """Maps the table, which lies at `offset` in `memory`."""
        size = self.size(num_entries)
        self._words = memoryview(memory.map(size, offset)).cast("q")
        self._num_entries = num_entries

    @classmethod
    def size(cls, num_entries: int) -> int:
        """Bytes of the table, a whole number of pages."""
        num_words = cls.NUM_SHARED + cls.NUM_KINDS * num_entries
        return shared_arrays.whole_pages(num_words * 8)

    @property
    def command(self) -> int:
        """What requests are about; the worker knows what the number means."""
        return self._words[_COMMAND]

    @command.setter
    def command(self, command: int) -> None:
        self._words[_COMMAND] = command

    def _word(self, kind: int, entry: int) -> int:
        """Returns the index of a word."""
        return self.NUM_SHARED + kind * self._num_entries + entry

    def _column(self, kind: int) -> npt.NDArray[np.int64]:
        """Returns the words of one kind, `[entries]`."""
        everything: npt.NDArray[Any] = np.frombuffer(self._words, np.int64)
        return everything[self._word(kind, 0) : self._word(kind, self._num_entries)]
