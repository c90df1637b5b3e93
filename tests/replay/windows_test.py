from __future__ import annotations

import numpy as np

from parallel_envs.replay import layout, streams, windows

FIRST, MID = layout.FIRST, 0
LAST = layout.LAST | layout.ENDS_EPISODE


def index_of(*kinds: int, capacity: int = 100) -> streams.Streams:
    index = streams.Streams(1, capacity)
    for kind in kinds:
        index.append(np.array([0]), np.array([kind], np.uint8))
    return index


def test_horizons_end_with_the_episode_and_need_n_steps_where_it_is_open() -> None:
    index = index_of(FIRST, MID, MID, LAST, FIRST, MID, MID)
    every = index.all_rows()

    steps = windows.horizons(index, *every, 2)

    assert steps.tolist() == [2, 2, 1, 0, 2, 0, 0]


def test_an_episode_cut_without_its_last_step_is_open() -> None:
    index = index_of(FIRST, MID, FIRST, MID, LAST)
    every = index.all_rows()

    steps = windows.horizons(index, *every, 3)

    assert steps.tolist() == [0, 0, 2, 1, 0]


def test_the_newest_row_has_none_after_it_wherever_it_lies() -> None:
    index = streams.Streams(1, 1000)
    for count in range(1, 600):
        index.append(np.array([0]), np.zeros(1, np.uint8))
        newest = np.array([count - 1])

        assert not windows.of_length(index, 2)(np.array([0]), newest).any()


def test_nothing_is_drawn_where_nothing_is_accepted() -> None:
    index = index_of(*[FIRST] * 90)
    generator = np.random.default_rng(0)

    assert windows.draw(index, windows.of_length(index, 2), 4, generator) is None


def test_runs_of_different_streams_are_apart() -> None:
    index = streams.Streams(2, 10)
    for _ in range(3):
        index.append(np.arange(2), np.zeros(2, np.uint8))

    starts, lengths = windows.runs(index)

    assert starts.streams.tolist() == [0, 1]
    assert starts.rows.tolist() == [0, 0]
    assert lengths.tolist() == [3, 3]


def test_an_empty_index_has_no_runs() -> None:
    starts, lengths = windows.runs(streams.Streams(2, 10))

    assert len(starts.rows) == len(lengths) == 0


def test_a_complete_episode_has_both_ends() -> None:
    index = index_of(MID, LAST, FIRST, LAST, FIRST, MID, capacity=6)

    starts, lengths = windows.episodes(index, complete=True)

    assert starts.rows.tolist() == [2]
    assert lengths.tolist() == [2]
