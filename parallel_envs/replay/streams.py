"""The index of a buffer: which rows each stream has, and where its runs break."""

from __future__ import annotations

from collections.abc import Iterator
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs.replay import layout

Integers = npt.NDArray[np.int64]
Kinds = npt.NDArray[np.uint8]

# A key below zero is -1 - (stream * _MAX_ROWS + row): no two rows share one, in
# streams of whatever number, and none is the caller's, which are not negative.
_MAX_ROWS = 2**40

_MIN_COLUMNS = 256


class Streams:
    """What is known of each row, but not the row itself.

    The rows of a stream are numbered from 0 and a number is never given twice; what is
    stored are the last `lengths[stream]` before `written[stream]`. Rows that follow
    each other within an episode have the same *segment*, so whether a window may be
    drawn is one comparison of its two ends.

    Attributes:
        num_streams: Number of streams.
        capacity: Rows kept of each.
        written: int64 `[num_streams]`, rows ever added.
        lengths: int64 `[num_streams]`, rows stored now.
    """

    def __init__(self, num_streams: int, capacity: int) -> None:
        self.num_streams = num_streams
        self.capacity = capacity
        self.written = np.zeros(num_streams, np.int64)
        self.lengths = np.zeros(num_streams, np.int64)
        self._base = np.zeros(num_streams, np.int64)  # The row that slot 0 began with.
        self._segment = np.zeros(num_streams, np.int32)
        self._is_open = np.zeros(num_streams, np.bool_)
        self._segments = np.zeros((num_streams, 0), np.int32)
        self._kinds = np.zeros((num_streams, 0), np.uint8)
        self._keys = np.zeros((num_streams, 0), np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        return self._segments.nbytes + self._kinds.nbytes + self._keys.nbytes

    @property
    def first(self) -> Integers:
        """The oldest row stored of each stream, int64 `[num_streams]`."""
        return self.written - self.lengths

    def next_slots(self, streams: Integers) -> Integers:
        """Returns where the next row of each of these streams belongs."""
        return self.slots(streams, self.written[streams])

    def slots(self, streams: Integers, rows: Integers) -> Integers:
        """Returns where rows lie in the rings of their streams."""
        slots: Integers = (rows - self._base[streams]) % self.capacity
        return slots

    def append(
        self, streams: Integers, kinds: Kinds, keys: Integers | None = None
    ) -> Integers:
        """Adds one row to each of some streams, all different, and returns the keys.

        Args:
            streams: `[B]`.
            kinds: `[B]`, bits of `layout`.
            keys: `[B]` keys of the caller, or None for new ones.
        """
        slots = self.next_slots(streams)
        self._reserve(int(slots.max()) + 1)
        if keys is None:
            keys = -1 - (streams * _MAX_ROWS + self.written[streams])
        goes_on = self._is_open[streams] & ((kinds & layout.FIRST) == 0)
        self._segment[streams] += ~goes_on
        self._is_open[streams] = (kinds & layout.LAST) == 0
        self._segments[streams, slots] = self._segment[streams]
        self._kinds[streams, slots] = kinds
        self._keys[streams, slots] = keys
        self.written[streams] += 1
        self.lengths[streams] = np.minimum(self.lengths[streams] + 1, self.capacity)
        return keys

    def end(self, stream: int) -> None:
        """Breaks the run: no window reaches over to the next row of this stream."""
        self._is_open[stream] = False

    def clear(self) -> None:
        """Forgets all rows. Their numbers and keys are not given again."""
        self.lengths[:] = 0
        self._base[:] = self.written
        self._is_open[:] = False

    def locate(self, ranks: Integers) -> tuple[Integers, Integers]:
        """Returns streams and rows of ranks, counted over all streams, oldest first."""
        ends = np.cumsum(self.lengths)
        streams = np.searchsorted(ends, ranks, side="right")
        rows = self.written[streams] - (ends[streams] - ranks)
        return streams, rows

    def all_rows(self) -> tuple[Integers, Integers]:
        """Returns streams and rows of all that is stored, in the order of ranks."""
        return self.locate(np.arange(int(self.lengths.sum())))

    def segments(self, streams: Integers, rows: Integers) -> npt.NDArray[np.int32]:
        """Returns the segments of rows."""
        segments: npt.NDArray[np.int32]
        segments = self._segments[streams, self.slots(streams, rows)]
        return segments

    def kinds(self, streams: Integers, rows: Integers) -> Kinds:
        """Returns the bits of rows."""
        kinds: Kinds = self._kinds[streams, self.slots(streams, rows)]
        return kinds

    def keys(self, streams: Integers, rows: Integers) -> Integers:
        """Returns the keys of rows."""
        keys: Integers = self._keys[streams, self.slots(streams, rows)]
        return keys

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Returns all of it, the columns from the oldest row of the first stream on."""
        streams, rows = self.all_rows()
        return {
            "written": self.written.copy(),
            "lengths": self.lengths.copy(),
            "segment": self._segment.copy(),
            "is_open": self._is_open.copy(),
            "segments": self.segments(streams, rows),
            "kinds": self.kinds(streams, rows),
            "keys": self.keys(streams, rows),
        }

    def restore(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Takes over a state. Further streams stay as they are.

        Raises:
            ValueError: If it is of more streams, or of longer ones than fit.
        """
        lengths = state["lengths"]
        if len(lengths) > self.num_streams or (lengths > self.capacity).any():
            capacity = max(self.capacity, int(lengths.max()))
            num_streams = max(self.num_streams, len(lengths))
            raise ValueError(
                f"{len(lengths)} streams of up to {lengths.max()} steps were saved, "
                f"and {self.num_streams} of at most {self.capacity} fit: make the "
                f"buffer with ReplayBuffer(capacity={capacity}, "
                f"num_streams={num_streams})."
            )
        saved = slice(len(lengths))
        self.written[saved] = state["written"]
        self.lengths[saved] = lengths
        self._base[saved] = self.first[saved]
        self._segment[saved] = state["segment"]
        self._is_open[saved] = state["is_open"]
        streams, rows = self.all_rows()
        self._reserve(int(self.lengths.max()))
        slots = self.slots(streams, rows)
        self._segments[streams, slots] = state["segments"]
        self._kinds[streams, slots] = state["kinds"]
        self._keys[streams, slots] = state["keys"]

    def _reserve(self, num_slots: int) -> None:
        """Doubles the columns until they have so many slots."""
        have = self._keys.shape[1]
        if num_slots <= have:
            return
        want = min(self.capacity, max(num_slots, 2 * have, _MIN_COLUMNS))
        # Never while a ring goes round: it does so only when all slots are there.
        grow = ((0, 0), (0, want - have))
        self._segments = np.pad(self._segments, grow)
        self._kinds = np.pad(self._kinds, grow)
        self._keys = np.pad(self._keys, grow)


def in_turns(streams: Integers) -> Iterator[Integers | EllipsisType]:
    """Yields selections of a batch in which no stream is there twice, in order."""
    order = np.argsort(streams, kind="stable")
    ordered = streams[order]
    if not (ordered[1:] == ordered[:-1]).any():
        yield ...
        return
    turns = np.empty_like(order)
    turns[order] = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    for turn in range(int(turns.max()) + 1):
        yield np.flatnonzero(turns == turn)
