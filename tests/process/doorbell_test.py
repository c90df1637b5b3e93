from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
from collections.abc import Callable, Generator, Iterator

import pytest

from parallel_envs.process import doorbell, shared_arrays
from parallel_envs.process.control_block import ControlBlock
from parallel_envs.process.doorbell import Doorbell
from tests.process import servants


@pytest.fixture
def bells() -> Iterator[Doorbell]:
    with contextlib.closing(Doorbell.create()) as made:
        yield made


@pytest.fixture
def memory() -> Iterator[shared_arrays.MemoryFile]:
    with contextlib.closing(shared_arrays.MemoryFile.create()) as made:
        made.reserve(ControlBlock.size(8))
        yield made


@contextlib.contextmanager
def forked(*works: Callable[[], object]) -> Generator[list[int]]:
    """Runs each work in a process of its own, over and over."""
    pids: list[int] = []
    for work in works:
        pid = os.fork()
        if pid == 0:
            try:
                while True:
                    work()
            finally:
                os._exit(1)
        pids.append(pid)
    try:
        yield pids
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def worker(bells: Doorbell, control: ControlBlock, index: int) -> Callable[[], object]:
    number = 0

    def serve() -> None:
        nonlocal number
        go = bells.go(number + 1)
        select.select([go], [], [])
        if control.asked_of(index) != number:
            number = control.asked_of(index)
            control.set_done(index, number)
            bells.answer()

    return serve


@pytest.mark.parametrize("num_workers", [1, 2, 5])
def test_one_ring_wakes_all_and_the_last_of_them_rings_back(
    bells: Doorbell, memory: shared_arrays.MemoryFile, num_workers: int
) -> None:
    control = ControlBlock(memory, num_workers)
    works = [worker(bells, control, index) for index in range(num_workers)]

    with forked(*works):
        for number in range(1, 301):
            bells.expect(num_workers)
            control.asked[:] = number
            bells.ring(number)

            assert servants.is_readable(bells.bell, 10)
            assert doorbell.take(bells.bell)
            assert control.done.tolist() == [number] * num_workers


def test_rounds_in_a_row_have_different_bells(bells: Doorbell) -> None:
    bells.ring(1)

    assert servants.is_readable(bells.go(1))
    assert not servants.is_readable(bells.go(2))
    assert bells.go(1) == bells.go(3)


def test_go_is_up_until_the_next_ring(bells: Doorbell) -> None:
    for number in range(1, 5):
        bells.ring(number)

        assert servants.is_readable(bells.go(number))
        assert not servants.is_readable(bells.go(number + 1))


def test_only_the_last_answer_rings(bells: Doorbell) -> None:
    bells.expect(3)

    rung: list[bool] = []
    for _ in range(3):
        bells.answer()
        rung.append(servants.is_readable(bells.bell))

    assert rung == [False, False, True]


def test_answer_of_a_worker_that_was_not_rung_for_yet_counts(bells: Doorbell) -> None:
    bells.expect(2)
    bells.answer()  # It was awake, and saw what it was asked for.
    bells.ring(1)

    assert not servants.is_readable(bells.bell)
    bells.answer()
    assert servants.is_readable(bells.bell)


def test_silence_takes_back_whatever_is_left(bells: Doorbell) -> None:
    bells.expect(3)
    bells.ring(1)
    bells.ring(2)
    os.eventfd_write(bells.bell, 1)

    bells.silence()

    assert not any(map(servants.is_readable, bells.descriptors))


def test_bells_are_made_whole_or_not_at_all() -> None:
    before = servants.descriptors()
    free = os.dup(0)
    os.close(free)
    _, hard = limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            Doorbell.create()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    assert servants.descriptors() == before


def test_closing_frees_the_descriptors() -> None:
    before = servants.descriptors()
    made = Doorbell.create()
    assert len(servants.descriptors() - before) == 4

    made.close()

    assert servants.descriptors() == before
