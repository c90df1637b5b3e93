"""Which rows may start a sample, and how starts are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from parallel_envs.replay import layout
from parallel_envs.replay.streams import Integers, Streams

Accepts = Callable[[Integers, Integers], npt.NDArray[np.bool_]]
"""Given streams `[N]` and rows `[N]`, says which of them may start a sample."""

_MIN_CANDIDATES = 64


class Starts(NamedTuple):
    """First rows of samples: streams int64 `[N]` and rows int64 `[N]`."""

    streams: Integers
    rows: Integers


def of_length(index: Streams, num_steps: int) -> Accepts:
    """Accepts rows that begin `num_steps` consecutive rows of one episode."""

    def accepts(streams: Integers, rows: Integers) -> npt.NDArray[np.bool_]:
        good = _goes_on(index, streams, rows, num_steps - 1)
        # Longer windows cannot begin there anyway: an episode ends with its LAST row.
        if num_steps == 1:
            good &= (index.kinds(streams, rows) & layout.BOUNDARY) == 0
        return good

    return accepts


def horizons(index: Streams, streams: Integers, rows: Integers, n: int) -> Integers:
    """Returns how many steps the n-step item of each row spans, int64 `[N]`.

    n, or fewer where the episode ends before; 0 where there is no item: at a LAST row,
    and where neither n steps nor the end of the episode are stored.
    """
    steps = np.zeros(len(rows), np.int64)
    for ahead in range(1, n + 1):
        steps += _goes_on(index, streams, rows, ahead)
    is_last = (index.kinds(streams, rows + steps) & layout.LAST) != 0
    steps[(steps < n) & ~is_last] = 0
    return steps


def with_horizon(index: Streams, n: int) -> Accepts:
    """Accepts rows that begin an n-step item."""

    def accepts(streams: Integers, rows: Integers) -> npt.NDArray[np.bool_]:
        good: npt.NDArray[np.bool_] = horizons(index, streams, rows, n) > 0
        return good

    return accepts


def listed(index: Streams, accepts: Accepts) -> Starts:
    """Returns all rows that are accepted: stream after stream, oldest first."""
    streams, rows = index.all_rows()
    good = accepts(streams, rows)
    return Starts(streams[good], rows[good])


def draw(
    index: Streams, accepts: Accepts, count: int, generator: np.random.Generator
) -> Starts | None:
    """Returns `count` starts drawn uniformly with replacement; None if none is there.

    Rows are drawn until enough are accepted, which keeps the accepted ones uniform and
    costs the same however large the buffer is. Where few are accepted, all are listed.
    """
    num_rows = int(index.lengths.sum())
    num_candidates = max(2 * count, _MIN_CANDIDATES)
    while num_candidates <= num_rows:
        streams, rows = index.locate(generator.integers(num_rows, size=num_candidates))
        good = np.flatnonzero(accepts(streams, rows))[:count]
        if len(good) == count:
            return Starts(streams[good], rows[good])
        num_candidates *= 4
    every = listed(index, accepts)
    if not len(every.rows):
        return None
    picked = generator.integers(len(every.rows), size=count)
    return Starts(every.streams[picked], every.rows[picked])


def runs(index: Streams) -> tuple[Starts, Integers]:
    """Returns the start and the length of every run of rows without a break."""
    streams, rows = index.all_rows()
    segments = index.segments(streams, rows)
    breaks = (np.diff(streams) != 0) | (np.diff(segments) != 0)
    starts = np.flatnonzero(np.append(len(rows) > 0, breaks))
    lengths = np.diff(np.append(starts, len(rows)))
    return Starts(streams[starts], rows[starts]), lengths


def episodes(index: Streams, *, complete: bool) -> tuple[Starts, Integers]:
    """Returns the start and the length of every episode, also of parts if asked."""
    starts, lengths = runs(index)
    if not complete:
        return starts, lengths
    begins = index.kinds(*starts) & layout.FIRST
    ends = index.kinds(starts.streams, starts.rows + lengths - 1) & layout.ENDS_EPISODE
    whole = (begins != 0) & (ends != 0)
    return Starts(starts.streams[whole], starts.rows[whole]), lengths[whole]


def _goes_on(
    index: Streams, streams: Integers, rows: Integers, ahead: int
) -> npt.NDArray[np.bool_]:
    """Returns whether the row `ahead` of each is stored and of the same episode."""
    later = rows + ahead
    stored = later < index.written[streams]
    # The slot of a row that is not there yet may lie beyond the columns made so far.
    later = np.where(stored, later, rows)
    same: npt.NDArray[np.bool_]
    same = index.segments(streams, rows) == index.segments(streams, later)
    return stored & same
