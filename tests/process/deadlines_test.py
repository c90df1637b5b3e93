"""Workers that take longer than they may, with bells and on the portable way."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Generator
from typing import Any

import pytest

from parallel_envs.process.control_block import Progress
from parallel_envs.process.worker import Report
from parallel_envs.process.worker_handle import WorkerGone
from parallel_envs.process.worker_pool import WorkerPool
from tests.process import servants
from tests.process.servants import (
    Adder,
    Gate,
    Watch,
    ask,
    attach,
    call,
    hang,
    make_all,
    pool_of,
    replace_dead,
    running,
    start_sleeper,
    started,
)

LIMIT = 0.4
START_LIMIT = 2.0  # Of which an interpreter takes its part.
SOON = 3.0  # On a busy machine.
MEGABYTES_5 = 5_000_000


@pytest.fixture(params=["bells", "portable"])
def way(request: pytest.FixtureRequest) -> str:
    if request.param == "portable":
        request.getfixturevalue("portable")
    return request.param


either_way = pytest.mark.usefixtures("way")


@contextlib.contextmanager
def taking(least: float, most: float) -> Generator[None]:
    """Checks that what is done within takes so many seconds."""
    start = time.monotonic()
    yield
    assert least <= time.monotonic() - start < most


def is_late(answer: Any, worker: int, *, part: int = 0, limit: float = LIMIT) -> bool:
    assert isinstance(answer, WorkerGone), answer
    told = (answer.worker, answer.part, answer.limit, answer.exitcode)
    assert told == (worker, part, limit, -signal.SIGKILL)
    return True


def all_of(pool: WorkerPool) -> dict[int, Any]:
    """What to give to all workers for a round by channel on shared arrays."""
    return dict.fromkeys(range(len(pool.pids)), (None, None))


def test_a_worker_that_hangs_in_a_round_is_killed_and_the_others_are_done() -> None:
    with running(3, timeout=LIMIT) as (pool, inputs, sums):
        inputs[:] = 1, servants.HANG, servants.TELL

        with taking(LIMIT, LIMIT + SOON):
            news = pool.round(5)

        assert news == {2: Report(extras="sum 0")}
        assert pool.dead == [1]
        assert is_late(pool.gone(1), 1, part=5)
        replace_dead(pool)
        inputs[:] = 1
        assert pool.round(0) is None
        assert sums.tolist() == [7, 1, 1]


@either_way
def test_a_worker_that_hangs_in_a_round_by_channel_is_killed() -> None:
    with running(3, timeout=LIMIT) as (pool, inputs, sums):
        inputs[:] = 1, servants.HANG, 1

        with taking(LIMIT, LIMIT + SOON):
            answers = pool.round_by_channel(5, all_of(pool))

        assert (answers.pop(0), answers.pop(2)) == ((None, None), (None, None))
        assert is_late(answers.pop(1), 1, part=5)
        assert pool.dead == [1]
        replace_dead(pool)
        inputs[:] = 1
        assert len(pool.round_by_channel(0, all_of(pool))) == 3
        assert sums.tolist() == [7, 1, 7]


@either_way
def test_a_worker_that_hangs_in_a_request_is_killed_with_what_it_started() -> None:
    with (
        pool_of(2, timeout=LIMIT) as pool,
        Watch(call(pool, 0, start_sleeper)) as watch,
    ):
        with taking(LIMIT, LIMIT + SOON):
            late = ask(pool, 0, "call", hang)

        assert is_late(late, 0)
        assert watch.living_after(1) == []
        assert ask(pool, 1, "echo", 1) == 1


def hang_in_part_2(progress: Progress, order: Any) -> Adder:
    progress.begin(2)
    hang()
    return Adder(progress, order)


@either_way
def test_workers_that_hang_while_they_make_an_object_are_killed() -> None:
    makers = [Adder, hang_in_part_2, hang_in_part_2]
    with started(makers, start_timeout=START_LIMIT) as pool:
        with taking(START_LIMIT, START_LIMIT + SOON):
            made, *late = make_all(pool)

        assert made == "adder"
        for worker in (1, 2):
            assert is_late(late[worker - 1], worker, part=2, limit=START_LIMIT)


def test_a_worker_that_hangs_while_it_takes_its_rows_is_killed() -> None:
    class Hanging(Adder):
        def attach(self, inputs: Any, outputs: Any) -> None:
            hang()

    with pool_of([Hanging], start_timeout=START_LIMIT) as pool:
        with pytest.raises(AssertionError, match=f"limit={START_LIMIT}"):
            attach(pool)

        assert is_late(pool.gone(0), 0, limit=START_LIMIT)


@either_way
def test_sending_to_a_worker_that_does_not_read_ends_at_the_limit() -> None:
    with pool_of(2, timeout=LIMIT) as pool:
        with taking(LIMIT / 2, LIMIT + SOON):
            first = pool.ask(0, "call", hang)
            second = pool.ask(0, "echo", bytes(MEGABYTES_5))

        assert is_late(pool.answer(first), 0)
        assert is_late(pool.answer(second), 0)
        assert ask(pool, 1, "echo", 1) == 1


@either_way
def test_a_worker_that_was_stopped_before_it_begins_is_late() -> None:
    with running(2, timeout=LIMIT) as (pool, inputs, sums):
        inputs[:] = 1
        os.kill(pool.pids[1], signal.SIGSTOP)

        with taking(LIMIT, LIMIT + SOON):
            answers = pool.round_by_channel(0, all_of(pool))

        assert answers[0] == (None, None)
        assert is_late(answers[1], 1)
        assert sums.tolist() == [1, 0]


def test_a_worker_that_was_stopped_before_the_bell_is_late() -> None:
    with running(2, timeout=LIMIT) as (pool, inputs, sums):
        inputs[:] = 1
        os.kill(pool.pids[1], signal.SIGSTOP)

        with taking(LIMIT, LIMIT + SOON):
            assert pool.round(0) == {}

        assert is_late(pool.gone(1), 1)
        assert sums.tolist() == [1, 0]


@either_way
def test_a_worker_that_ignores_signals_is_killed_all_the_same() -> None:
    def ignore_and_hang() -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        hang()

    with pool_of(1, timeout=LIMIT) as pool:
        with taking(LIMIT, LIMIT + SOON):
            late = ask(pool, 0, "call", ignore_and_hang)

        assert is_late(late, 0)


def parent_of(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def test_a_late_worker_is_killed_without_help_of_the_nursery() -> None:
    with pool_of(1, timeout=LIMIT) as pool:
        os.kill(parent_of(pool.pids[0]), signal.SIGSTOP)

        with taking(LIMIT, LIMIT + 1.0 + SOON):  # It is the one to know exit codes.
            late = ask(pool, 0, "call", hang)

        assert late.limit == LIMIT
        assert late.exitcode is None


@either_way
def test_all_that_are_late_at_once_are_known_and_killed_together() -> None:
    with running(6, timeout=LIMIT) as (pool, inputs, sums):
        inputs[:] = servants.HANG
        inputs[3] = 1

        with taking(LIMIT, LIMIT + SOON):
            answers = pool.round_by_channel(4, all_of(pool))

        assert answers.pop(3) == (None, None)
        assert sorted(answers) == pool.dead == [0, 1, 2, 4, 5]
        for worker, answer in answers.items():
            assert is_late(answer, worker, part=4)
        assert sums[3] == 5


def test_all_that_are_late_in_a_round_of_the_bell_are_killed_together() -> None:
    with running(6, timeout=LIMIT) as (pool, inputs, _):
        inputs[:] = servants.HANG
        inputs[3] = 1

        with taking(LIMIT, LIMIT + SOON):
            assert pool.round(4) == {}

        assert pool.dead == [0, 1, 2, 4, 5]
        for worker in pool.dead:
            assert is_late(pool.gone(worker), worker, part=4)


@either_way
def test_what_a_request_waits_for_behind_others_is_not_counted() -> None:
    part = LIMIT * 0.7
    with pool_of(1, timeout=LIMIT) as pool:
        numbers = [pool.ask(0, "parts", part) for _ in range(3)]

        assert list(pool.gather(numbers).values()) == [1, 1, 1]


@either_way
def test_that_which_may_take_longer_is_not_counted_for_what_waits_behind_it() -> None:
    with pool_of(1, timeout=LIMIT) as pool:
        long = pool.ask_to_make(0, "parts", LIMIT * 2)
        behind = pool.ask(0, "echo", 1)

        assert pool.answer(behind) == 1
        assert pool.answer(long) == 1


@either_way
def test_that_which_nobody_waits_for_any_more_may_take_its_time_as_well() -> None:
    with pool_of(1, timeout=LIMIT) as pool:
        pool.forget(pool.ask_to_make(0, "parts", LIMIT * 2))

        assert ask(pool, 0, "echo", 1) == 1
        pool.forget(pool.ask(0, "call", hang))
        with taking(LIMIT, LIMIT + SOON):
            assert is_late(ask(pool, 0, "echo", 1), 0)


@either_way
@pytest.mark.parametrize("size", [1, MEGABYTES_5], ids=["small", "large"])
def test_an_answer_that_lies_unread_is_not_late(size: int) -> None:
    with pool_of(1, timeout=LIMIT) as pool:
        number = pool.ask(0, "call", bytes, size)
        time.sleep(LIMIT * 1.5)  # The caller does something else.

        assert len(pool.answer(number)) == size


@either_way
def test_an_answer_that_is_yet_to_come_after_the_limit_is_late_at_once() -> None:
    with pool_of(1, timeout=LIMIT) as pool:
        number = pool.ask(0, "call", hang)
        time.sleep(LIMIT * 1.5)

        with taking(0.0, SOON):
            assert is_late(pool.answer(number), 0)


@either_way
def test_a_worker_that_stops_within_an_answer_is_late() -> None:
    def stop_soon() -> bytes:
        threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGSTOP]).start()
        return bytes(MEGABYTES_5)

    with pool_of(1, timeout=LIMIT) as pool:
        number = pool.ask(0, "call", stop_soon)
        time.sleep(LIMIT * 1.5)

        with taking(LIMIT / 2, LIMIT + SOON):
            assert is_late(pool.answer(number), 0)


@either_way
def test_each_part_may_take_as_long_as_the_limit() -> None:
    part = LIMIT * 0.5
    with pool_of(1, timeout=LIMIT) as pool:
        assert ask(pool, 0, "parts", part, part, part) == 3

        late = ask(pool, 0, "parts", 0.0, part, 1000.0, 0.0)

        assert is_late(late, 0, part=2)


def test_each_part_of_a_round_may_take_as_long_as_the_limit() -> None:
    with running(2, timeout=LIMIT) as (pool, inputs, _):
        inputs[:] = servants.THREE_PARTS

        news = pool.round(round(LIMIT * 500))

        assert news == {0: Report(extras=3), 1: Report(extras=3)}


def test_without_a_limit_everything_may_take_its_time(gate: Gate) -> None:
    with pool_of(1, start_timeout=START_LIMIT) as pool:
        ask(pool, 0, "use_gate", gate.path)
        number = pool.ask(0, "wait")
        opener = threading.Timer(0.5, gate.open)
        opener.start()

        assert pool.answer(number) is None
        opener.join()


def test_a_worker_that_a_failed_round_left_behind_is_held_to_its_limit() -> None:
    with running(2, timeout=LIMIT) as (pool, inputs, _):
        inputs[:] = servants.HANG, servants.FAIL
        with taking(0.0, LIMIT):
            news = pool.round(3)
        assert news is not None
        assert sorted(news) == [1]
        assert pool.dead == []

        with taking(0.0, LIMIT + SOON):
            pool.settle()

        assert pool.dead == [0]
        assert is_late(pool.gone(0), 0, part=3)


@either_way
def test_a_worker_that_a_failed_round_by_channel_left_behind_is_too() -> None:
    with running(2, timeout=LIMIT) as (pool, inputs, _):
        inputs[:] = servants.HANG, servants.FAIL
        with taking(0.0, LIMIT):
            answers = pool.round_by_channel(3, all_of(pool))
        assert sorted(answers) == [1]

        with taking(0.0, LIMIT + SOON):
            pool.settle()

        assert is_late(pool.gone(0), 0, part=3)
