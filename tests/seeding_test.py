"""Tests for parallel_envs/seeding.py."""

from __future__ import annotations

from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from parallel_envs import seeding


@hypothesis.given(base=st.integers(0, 2**130), n=st.integers(0, 300))
def test_seeds_are_distinct_small_integers(base: int, n: int) -> None:
    seeds = seeding.spread_seeds(base, n)

    assert len(set(seeds)) == len(seeds) == n
    assert all(type(seed) is int and 0 <= seed < 2**32 for seed in seeds)


@hypothesis.given(
    base=st.integers(0, 2**40), n=st.integers(0, 50), more=st.integers(0, 50)
)
def test_more_seeds_begin_with_the_same_ones(base: int, n: int, more: int) -> None:
    assert seeding.spread_seeds(base, n + more)[:n] == seeding.spread_seeds(base, n)


def test_seeds_stay_the_same_from_release_to_release() -> None:
    assert seeding.spread_seeds(42, 3) == [3444837047, 2669555309, 2046530742]


def test_seeds_are_distinct_where_the_sequence_repeats_itself() -> None:
    # Among this many words of 32 bits some are equal, all but surely.
    n = 300_000
    words = np.random.SeedSequence(1).generate_state(n)
    assert len(np.unique(words)) < n

    seeds = seeding.spread_seeds(1, n)

    assert len(set(seeds)) == n
    assert seeds[:1000] == seeding.spread_seeds(1, 1000)


def test_neighbouring_bases_share_no_seeds() -> None:
    spread = [seed for base in range(50) for seed in seeding.spread_seeds(base, 50)]

    assert len(set(spread)) == len(spread)


def test_integers_of_numpy_are_taken() -> None:
    base: Any = np.int64(3)
    n: Any = np.uint8(2)

    assert seeding.spread_seeds(base, n) == seeding.spread_seeds(3, 2)


@pytest.mark.parametrize(
    ("base", "n", "kind", "message"),
    [
        (None, 1, TypeError, "base: expected an integer, got None."),
        (1.0, 1, TypeError, "base: expected an integer, got 1.0."),
        (True, 1, TypeError, "base: expected an integer, got True."),
        (-1, 1, ValueError, "base: expected at least 0, got -1."),
        (0, "2", TypeError, "n: expected an integer, got '2'."),
        (0, -1, ValueError, "n: expected at least 0, got -1."),
        (0, 2**32 + 1, ValueError, "n: expected at most 2**32, got 4294967297."),
    ],
)
def test_wrong_arguments_are_refused(
    base: Any, n: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as caught:
        seeding.spread_seeds(base, n)

    assert str(caught.value) == message
