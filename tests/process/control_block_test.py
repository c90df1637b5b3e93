from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator

import hypothesis
import pytest
from hypothesis import strategies as st

from parallel_envs.process import shared_arrays
from parallel_envs.process.control_block import ControlBlock
from parallel_envs.process.shared_arrays import MemoryFile

KINDS = ["command", "asked", "done", "part", "began"]


@contextlib.contextmanager
def both_sides(num_workers: int) -> Generator[tuple[ControlBlock, ControlBlock]]:
    with contextlib.closing(MemoryFile.create()) as memory:
        memory.reserve(ControlBlock.size(num_workers))
        yield ControlBlock(memory, num_workers), ControlBlock(memory, num_workers)


@pytest.fixture
def sides() -> Iterator[tuple[ControlBlock, ControlBlock]]:
    with both_sides(3) as made:
        yield made


def test_both_sides_see_the_same_numbers(
    sides: tuple[ControlBlock, ControlBlock],
) -> None:
    mine, theirs = sides

    mine.command = 7
    mine.asked[:] = 4, 5, 6
    theirs.set_done(1, -5)
    theirs.progress(2).note(9)

    assert theirs.command == 7
    assert [theirs.asked_of(index) for index in range(3)] == [4, 5, 6]
    assert mine.done.tolist() == [0, -5, 0]
    assert [mine.part_of(index) for index in range(3)] == [0, 0, 9]


def test_beginning_notes_the_time_and_a_part_if_one_is_named(
    sides: tuple[ControlBlock, ControlBlock],
) -> None:
    mine, theirs = sides
    progress = theirs.progress(1)

    first = time.monotonic()
    progress.begin(4)
    second = time.monotonic()
    began = mine.began_at(1)
    progress.begin()

    assert first <= began <= second <= mine.began_at(1) <= time.monotonic()
    assert mine.part_of(1) == 4


def test_a_worker_that_is_yet_to_be_started_is_at_nothing(
    sides: tuple[ControlBlock, ControlBlock],
) -> None:
    mine, theirs = sides
    mine.asked[:] = 8
    theirs.set_done(1, -7)
    theirs.progress(1).note(3)

    mine.forget(1)

    assert mine.done.tolist() == [0, 8, 0]
    assert mine.part_of(1) == 0


@hypothesis.given(st.data(), st.integers(1, 40))
def test_no_word_lies_on_another(data: st.DataObject, num_workers: int) -> None:
    write = st.tuples(
        st.sampled_from(KINDS),
        st.integers(0, num_workers - 1),
        st.integers(-(2**62), 2**62),
    )
    expected = {(kind, w): 0 for kind in KINDS for w in range(num_workers)}

    with both_sides(num_workers) as (mine, theirs):
        for kind, worker, value in data.draw(st.lists(write, max_size=20)):
            if kind == "command":
                mine.command = value
                expected |= {(kind, w): value for w in range(num_workers)}
            elif kind == "asked":
                mine.asked[worker] = value
            elif kind == "done":
                theirs.set_done(worker, value)
            elif kind == "part":
                theirs.progress(worker).note(value)
            else:
                theirs.progress(worker).begin()
                value = round(mine.began_at(worker) * 1e9)
            expected[kind, worker] = value

        found = {
            (kind, w): value
            for w in range(num_workers)
            for kind, value in zip(
                KINDS,
                (
                    theirs.command,
                    theirs.asked_of(w),
                    int(mine.done[w]),
                    mine.part_of(w),
                    round(mine.began_at(w) * 1e9),
                ),
                strict=True,
            )
        }
        assert found == expected


@pytest.mark.parametrize("num_workers", [1, 255, 256, 10_000])
def test_the_block_holds_its_words_in_whole_pages(num_workers: int) -> None:
    size = ControlBlock.size(num_workers)

    assert size % shared_arrays.PAGE_SIZE == 0
    assert 0 <= size - 8 * (1 + 4 * num_workers) < shared_arrays.PAGE_SIZE
