"""How long the others are waited for once something has failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parallel_envs.process.remote_error import RemoteError
from parallel_envs.process.worker import Report
from parallel_envs.process.worker_pool import WorkerPool
from tests.process import servants
from tests.process.servants import Gate, ask, in_thread, running

GATHER = 0.05

Gated = tuple[WorkerPool, Any, Any]


@pytest.fixture
def gated(gate: Gate) -> Iterator[Gated]:
    """A pool of three whose first worker can be held up."""
    with running(3) as (pool, inputs, sums):
        ask(pool, 0, "use_gate", gate.path)
        yield pool, inputs, sums


def opening(gate: Gate) -> Callable[[], None]:
    """Lets the worker at the gate go on, a while after it has come there."""

    def open_late() -> None:
        gate.wait_until_entered()
        time.sleep(GATHER * 3)
        gate.open()

    return open_late


def everyone(pool: WorkerPool, extras: Any = None) -> dict[int, Any]:
    return dict.fromkeys(range(len(pool.pids)), (None, extras))


def test_a_round_may_wait_for_all_whatever_fails(gated: Gated, gate: Gate) -> None:
    pool, inputs, sums = gated
    inputs[:] = servants.WAIT_AND_TELL, servants.FAIL, 4

    thread = in_thread(opening(gate))
    news = pool.round(0, wait_for_all=True)
    thread.join()

    assert news is not None
    assert news.pop(0) == Report(extras="late")
    assert isinstance(news.pop(1), RemoteError)
    assert news == {}
    assert sums.tolist() == [0, 0, 4]


def test_a_round_that_waits_for_all_is_done_though_some_are_dead() -> None:
    with running(3) as (pool, inputs, sums):
        pool.kill([1])
        inputs[:] = 1

        assert [pool.round(0) for _ in range(2)] == [{}, {}]
        assert sums.tolist() == [0, 0, 0]
        assert [pool.round(0, wait_for_all=True) for _ in range(2)] == [{}, {}]
        assert sums.tolist() == [2, 0, 2]


def test_a_round_by_channel_may_wait_for_all(gated: Gated, gate: Gate) -> None:
    pool, inputs, _ = gated
    inputs[:] = servants.WAIT_AND_TELL, servants.FAIL, 4

    thread = in_thread(opening(gate))
    answers = pool.round_by_channel(0, everyone(pool), wait_for_all=True)
    thread.join()

    assert answers[0] == (Report(extras="late"), None)
    assert isinstance(answers[1], RemoteError)
    assert answers[2] == (None, None)


def test_a_round_by_channel_waits_50_ms_after_a_failure_and_drops_what_is_late(
    gated: Gated, gate: Gate
) -> None:
    pool, inputs, sums = gated
    inputs[:] = servants.WAIT_AND_TELL, servants.FAIL, servants.FAIL

    start = time.monotonic()
    answers = pool.round_by_channel(0, everyone(pool))
    duration = time.monotonic() - start
    gate.wait_until_entered()
    gate.open()
    inputs[:] = 1

    assert sorted(answers) == [1, 2]
    assert GATHER <= duration < 1.0
    told = pool.round_by_channel(0, everyone(pool, "own"))
    assert told == dict.fromkeys(range(3), (Report(extras="own"), None))
    assert sums.tolist() == [1, 1, 1]


def test_one_by_one_those_that_come_within_50_ms_are_asked_as_well() -> None:
    with running(3) as (pool, inputs, sums):
        inputs[:] = servants.FAIL, servants.FAIL, 1

        answers = pool.round_by_channel(0, everyone(pool), max_concurrency=1)

        assert sorted(answers) == [0, 1, 2]
        assert sums.tolist() == [0, 0, 1]


def test_one_by_one_a_slow_one_is_not_waited_for_after_a_failure(gate: Gate) -> None:
    with running(3) as (pool, inputs, sums):
        ask(pool, 1, "use_gate", gate.path)
        inputs[:] = servants.FAIL, servants.WAIT, 1

        start = time.monotonic()
        answers = pool.round_by_channel(0, everyone(pool), max_concurrency=1)
        duration = time.monotonic() - start

        assert list(answers) == [0]
        assert GATHER <= duration < 1.0
        assert sums.tolist() == [0, 0, 0]
        gate.open()
        inputs[:] = 1
        assert len(pool.round_by_channel(0, everyone(pool), max_concurrency=1)) == 3
        assert sums.tolist() == [1, 1, 1]


def test_requests_are_gathered_for_50_ms_after_a_failure_and_then_forgotten(
    gated: Gated, gate: Gate
) -> None:
    pool, _, _ = gated
    slow = pool.ask(0, "wait")
    failing = pool.ask(1, "call", int, "no number")
    quick = pool.ask(2, "echo", 2)

    start = time.monotonic()
    answers = pool.gather([slow, failing, quick])
    duration = time.monotonic() - start
    gate.open()

    assert sorted(answers) == [failing, quick]
    assert isinstance(answers[failing], RemoteError)
    assert GATHER <= duration < 1.0
    with pytest.raises(KeyError):
        pool.answer(slow)
    assert [ask(pool, 0, "echo", n) for n in range(3)] == [0, 1, 2]


def test_gathering_may_wait_for_all(gated: Gated, gate: Gate) -> None:
    pool, _, _ = gated
    numbers = [pool.ask(0, "wait"), pool.ask(1, "call", int, "no number")]

    thread = in_thread(opening(gate))
    answers = pool.gather(numbers, wait_for_all=True)
    thread.join()

    assert answers[numbers[0]] is None
    assert isinstance(answers[numbers[1]], RemoteError)
