from __future__ import annotations

import numpy as np
import pytest

from parallel_envs.replay import layout, streams


def appended(
    index: streams.Streams, stream: int, count: int, kind: int = 0
) -> streams.Streams:
    for _ in range(count):
        index.append(np.array([stream]), np.array([kind], np.uint8))
    return index


def test_ranks_count_over_the_streams_oldest_row_first() -> None:
    index = appended(appended(streams.Streams(3, 4), 0, 6), 2, 2)

    which, rows = index.all_rows()

    assert which.tolist() == [0, 0, 0, 0, 2, 2]
    assert rows.tolist() == [2, 3, 4, 5, 0, 1]


def test_columns_grow_with_the_rows() -> None:
    index = streams.Streams(1, 100_000)
    empty = index.nbytes

    appended(index, 0, 300)

    assert empty == 0
    assert index.nbytes == 512 * (4 + 1 + 8)


def test_a_segment_lasts_until_last_first_or_end() -> None:
    index = streams.Streams(1, 20)
    for kind in (layout.FIRST, 0, layout.LAST, 0, layout.FIRST, 0):
        appended(index, 0, 1, kind)
    index.end(0)
    appended(index, 0, 2)

    segments = index.segments(*index.all_rows())

    assert segments.tolist() == [1, 1, 1, 2, 3, 3, 4, 4]


def test_a_restored_index_goes_on_where_the_saved_one_was() -> None:
    index = appended(appended(streams.Streams(2, 4), 0, 7, layout.FIRST), 1, 1)
    copy = streams.Streams(3, 9)

    copy.restore(index.state())
    for each in (index, copy):
        appended(each, 1, 1)

    for name, column in index.state().items():
        np.testing.assert_array_equal(copy.state()[name][: len(column)], column)


def test_a_state_that_does_not_fit_is_refused() -> None:
    state = appended(streams.Streams(2, 5), 0, 5).state()

    with pytest.raises(
        ValueError, match="2 streams of up to 5 steps were saved, and 2 "
    ):
        streams.Streams(2, 4).restore(state)
    with pytest.raises(ValueError, match="and 1 of at most 5 fit"):
        streams.Streams(1, 5).restore(state)


def test_turns_name_each_stream_once_and_keep_its_order() -> None:
    batch = np.array([3, 1, 3, 3, 1, 0])

    turns = [np.asarray(turn).tolist() for turn in streams.in_turns(batch)]

    assert turns == [[0, 1, 5], [2, 4], [3]]
    assert list(streams.in_turns(np.array([2, 0, 1]))) == [...]
