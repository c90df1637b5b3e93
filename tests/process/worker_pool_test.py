"""Starting, rounds and requests; deaths and ends have files of their own."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from parallel_envs.process import pickling
from parallel_envs.process.doorbell import Doorbell
from parallel_envs.process.remote_error import RemoteError
from parallel_envs.process.shared_arrays import ArrayLayout
from parallel_envs.process.worker import Report
from parallel_envs.process.worker_pool import WorkerPool
from tests.process import servants
from tests.process.servants import (
    Adder,
    Gate,
    ask,
    attach,
    call,
    make_all,
    pool_of,
    running,
    started,
)

CONTEXTS = ["forkserver", "spawn", "fork"]
MEGABYTES_50 = 50_000_000


@pytest.fixture
def gated(gate: Gate) -> Iterator[tuple[WorkerPool, Any, Any]]:
    """A pool of three whose first worker can be held up."""
    with running(3) as (pool, inputs, sums):
        ask(pool, 0, "use_gate", gate.path)
        yield pool, inputs, sums


@pytest.mark.parametrize("context", CONTEXTS)
def test_workers_serve_what_their_factories_make(context: str) -> None:
    makers = [functools.partial(Adder, name=("adder", n)) for n in range(3)]

    with started(makers, context=context) as pool:
        introductions = make_all(pool)
        inputs, sums = attach(pool)
        inputs[:] = 1, 2, 3
        news = [pool.round(0), pool.round(10)]

        assert introductions == [("adder", 0), ("adder", 1), ("adder", 2)]
        assert news == [None, None]
        assert sums.tolist() == [12, 14, 16]
        assert [call(pool, w, os.getpid) for w in range(3)] == list(pool.pids)
        assert len({os.getpid(), *pool.pids}) == 4


def test_a_pool_that_was_made_has_started_nothing() -> None:
    with contextlib.closing(WorkerPool([pickling.dumps(Adder)] * 2)) as pool:
        assert (pool.pids, pool.living, pool.dead) == ((), [], [])
        assert pool.nursery_pid is None


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_factory_gets_the_order_that_its_worker_is_given(context: str) -> None:
    with started(3, context=context) as pool:
        orders = ["first", None, ("third", 3)]
        pool.gather([pool.make(worker, order) for worker, order in enumerate(orders)])

        assert [ask(pool, worker, "order") for worker in range(3)] == orders


def test_objects_are_made_at_the_same_time(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "meeting")

    # Opening a named pipe waits until the other side opens it as well.
    def read(*place: Any) -> Adder:
        return Adder(*place, name=open(tmp_path / "meeting").read())

    def write(*place: Any) -> Adder:
        (tmp_path / "meeting").write_text("met")
        return Adder(*place)

    with started([read, write]) as pool:
        assert make_all(pool) == ["met", "adder"]


def test_rounds_with_many_workers_lose_nobody() -> None:
    with running(8) as (pool, inputs, sums):
        inputs[:] = range(8)

        for _ in range(500):
            assert pool.round(1) is None

        assert sums.tolist() == [500 * (n + 1) for n in range(8)]


def test_what_a_round_has_to_tell_comes_with_its_worker() -> None:
    with running(3) as (pool, inputs, sums):
        for n in range(1, 50):
            inputs[:] = 1, servants.TELL, n
            assert pool.round(0) == {1: Report(extras="sum 0")}

        assert sums.tolist() == [49, 0, sum(range(50))]
        inputs[:] = servants.TELL
        told = pool.round(0)
        assert told == {w: Report(extras=f"sum {sums[w]}") for w in range(3)}


def test_news_do_not_come_again_in_the_next_round() -> None:
    with running(2) as (pool, inputs, _):
        inputs[:] = servants.TELL
        pool.round(0)
        inputs[:] = 1

        assert pool.round(0) is None


def test_a_failure_is_told_and_the_next_round_is_as_if_nothing_had_been() -> None:
    with running(3) as (pool, inputs, sums):
        inputs[:] = 1, servants.FAIL, 1
        news = pool.round(0)
        assert news is not None
        failure = news[1]
        inputs[:] = 1

        assert list(news) == [1]
        assert isinstance(failure, RemoteError)
        assert failure.summary == "ValueError('a round that fails')"
        assert pool.round(0) is None
        assert sums.tolist() == [2, 1, 2]


def test_a_call_that_failed_waits_50_ms_for_further_failures(
    gated: tuple[WorkerPool, Any, Any], gate: Gate
) -> None:
    pool, inputs, sums = gated
    inputs[:] = servants.WAIT, servants.FAIL, servants.FAIL

    start = time.monotonic()
    news = pool.round(0)
    duration = time.monotonic() - start

    assert news is not None
    assert sorted(news) == [1, 2]
    assert 0.05 <= duration < 1.0
    # The first worker is still at it: the next round waits for it.
    inputs[1:] = 5
    gate.wait_until_entered()
    opener = threading.Timer(0.01, gate.open)
    opener.start()
    pool.settle()
    opener.join()
    inputs[0] = 5
    assert pool.round(0) is None
    assert sums.tolist() == [5, 5, 5]


def test_news_of_a_round_that_was_given_up_are_dropped(
    gated: tuple[WorkerPool, Any, Any], gate: Gate
) -> None:
    pool, inputs, _ = gated

    inputs[:] = servants.WAIT_AND_TELL, servants.FAIL, 1
    late = pool.round(0)
    gate.wait_until_entered()
    gate.open()
    inputs[:] = servants.TELL, 1, 1
    news = pool.round(0)

    assert late is not None
    assert list(late) == [1]
    assert news == {0: Report(extras="sum 0")}


def test_the_round_after_an_interrupted_one_has_its_own_answers(
    gated: tuple[WorkerPool, Any, Any], gate: Gate
) -> None:
    pool, inputs, sums = gated
    me = threading.get_ident()

    def interrupt() -> None:
        gate.wait_until_entered()
        signal.pthread_kill(me, signal.SIGINT)

    for number in range(1, 6):
        inputs[:] = servants.WAIT, 1, servants.TELL
        other = servants.in_thread(interrupt)
        with pytest.raises(KeyboardInterrupt):
            pool.round(0)
        other.join()
        gate.open()
        pool.settle()
        inputs[:] = 100, 100, 100

        assert pool.round(0) is None
        assert sums.tolist() == [100 * number, 101 * number, 100 * number]


@pytest.mark.parametrize("num_workers", [1, 3])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_round_that_is_interrupted_before_anybody_is_asked_is_as_none(
    monkeypatch: pytest.MonkeyPatch, moment: str, num_workers: int
) -> None:
    expect = Doorbell.expect

    def interrupt(bell: Doorbell, number: int) -> None:
        if moment == "after":
            expect(bell, number)
        raise KeyboardInterrupt

    with running(num_workers) as (pool, inputs, sums):
        inputs[:] = 1
        for number in range(1, 6):
            time.sleep(0.002)  # Until workers that are awake have gone to sleep.
            with monkeypatch.context() as patch:
                patch.setattr(Doorbell, "expect", interrupt)
                with pytest.raises(KeyboardInterrupt):
                    pool.round(0)

            assert pool.round(0) is None
            assert sums.tolist() == [number] * num_workers


def test_an_answer_that_was_interrupted_can_be_waited_for_again(
    gated: tuple[WorkerPool, Any, Any], gate: Gate
) -> None:
    pool, _, _ = gated
    me = threading.get_ident()
    number = pool.ask(0, "wait")

    def interrupt() -> None:
        gate.wait_until_entered()
        signal.pthread_kill(me, signal.SIGINT)

    other = threading.Thread(target=interrupt)

    def wait() -> None:
        other.start()
        pool.answer(number)

    with pytest.raises(KeyboardInterrupt):
        wait()
    other.join()
    gate.open()

    assert pool.answer(number) is None


def test_requests_are_answered_in_any_order() -> None:
    with pool_of(3) as pool:
        numbers = {pool.ask(n % 3, "echo", n): n for n in range(30)}

        for number in sorted(numbers, key=lambda number: number * 7 % 31):
            assert pool.answer(number) == numbers[number]


def test_a_request_may_stay_open_over_rounds() -> None:
    with running(2) as (pool, inputs, _):
        inputs[:] = 1
        number = pool.ask(1, "echo", "kept")

        assert pool.round(0) is None
        assert pool.answer(number) == "kept"


def test_what_was_asked_before_a_round_is_done_before_it() -> None:
    with running(2) as (pool, inputs, _):
        inputs[:] = 1
        for number in range(300):
            asked = pool.ask(1, "sum")
            pool.round(0)

            assert pool.answer(asked) == number


def test_a_forgotten_answer_is_dropped() -> None:
    with pool_of(1) as pool:
        number = pool.ask(0, "echo", "unwanted")
        pool.forget(number)

        assert ask(pool, 0, "echo", "wanted") == "wanted"
        with pytest.raises(KeyError):
            pool.answer(number)


def test_what_a_request_raises_is_its_answer() -> None:
    with pool_of(1) as pool:
        answer = ask(pool, 0, "call", int, "no number")

        assert isinstance(answer, RemoteError)
        assert isinstance(answer.rebuild(), ValueError)
        assert "in do_call" in answer.traceback
        assert ask(pool, 0, "echo", 1) == 1


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, EOFError])
def test_whatever_is_raised_the_worker_lives_on(kind: type[BaseException]) -> None:
    def fail() -> None:
        raise kind

    with pool_of(1) as pool:
        assert isinstance(ask(pool, 0, "call", fail), RemoteError)
        assert ask(pool, 0, "echo", 1) == 1


class RaisesWhenPickled:
    def __reduce__(self) -> tuple[Any, ...]:
        raise RuntimeError("not today")


class RaisesWhenRead:
    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("no number",)


def test_an_answer_that_cannot_be_pickled_is_an_error_of_that_request() -> None:
    with pool_of(1) as pool:
        for make in (threading.Lock, RaisesWhenPickled):
            answer = ask(pool, 0, "call", make)

            assert isinstance(answer, RemoteError)
            assert "cannot be pickled" in answer.summary
        assert ask(pool, 0, "echo", 1) == 1


def test_an_argument_that_cannot_be_pickled_is_refused() -> None:
    with pool_of(1) as pool:
        with pytest.raises(TypeError, match="cannot be pickled"):
            pool.ask(0, "echo", threading.Lock())

        assert ask(pool, 0, "echo", 1) == 1


def test_an_argument_that_cannot_be_read_is_an_error_of_that_request() -> None:
    with pool_of(1) as pool:
        answer = ask(pool, 0, "echo", RaisesWhenRead())

        assert isinstance(answer, RemoteError)
        assert "no number" in answer.summary
        assert ask(pool, 0, "echo", 1) == 1


def test_an_answer_that_cannot_be_read_is_an_error_of_that_request() -> None:
    with pool_of(1) as pool:
        answer = ask(pool, 0, "call", RaisesWhenRead)

        assert isinstance(answer, RemoteError)
        assert "no number" in answer.summary
        assert ask(pool, 0, "echo", 1) == 1


def test_large_messages_both_ways_do_not_wait_for_each_other() -> None:
    payload = np.arange(MEGABYTES_50, dtype=np.uint8)
    with pool_of(2) as pool:
        numbers = [pool.ask(worker, "echo", payload) for worker in (0, 1, 0)]

        for number in numbers:
            np.testing.assert_array_equal(pool.answer(number), payload)


def test_a_worker_may_print_a_lot(capfd: pytest.CaptureFixture[str]) -> None:
    def chatter() -> None:
        for _ in range(10_000):
            sys.stdout.write("x" * 99 + "\n")

    with pool_of(1) as pool:
        call(pool, 0, chatter)

    assert capfd.readouterr().out == ("x" * 99 + "\n") * 10_000


@pytest.mark.parametrize("context", ["forkserver", "fork"])
def test_what_this_process_has_still_to_print_is_printed_once(
    context: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "printed"
    with open(path, "w") as file:
        monkeypatch.setattr("sys.stdout", file)
        sys.stdout.write("before\n")
        with pool_of(3, context=context):
            pass

    assert path.read_text() == "before\n"


def test_rounds_by_channel_carry_inputs_and_outputs() -> None:
    with pool_of(2) as pool:
        attach(pool, shared_memory=False)
        values = {worker: ([np.array([worker])], None) for worker in range(2)}

        answers = [pool.round_by_channel(10, values) for _ in range(3)]

        assert answers[-1] == {0: (None, [30]), 1: (None, [33])}


def test_rounds_by_channel_may_use_the_shared_arrays_and_some_workers_only() -> None:
    with running(3) as (pool, inputs, sums):
        inputs[:] = 1, 2, 3

        answers = pool.round_by_channel(0, {0: (None, None), 2: (None, None)})

        assert answers == {0: (None, None), 2: (None, None)}
        assert sums.tolist() == [1, 0, 3]


def test_rounds_one_by_one_begin_when_the_one_before_is_done(
    tmp_path: pathlib.Path,
) -> None:
    class Logging(Adder):
        def round(self, command: int, extras: Any = None) -> Report | None:
            with open(tmp_path / "log", "a") as log:
                for what in ("begin", "end"):
                    log.write(f"{what} {extras}\n")
                    log.flush()
                    time.sleep(0.001)
            return None

    with running([Logging] * 4) as (pool, _, _):
        for _ in range(5):
            pool.round_by_channel(
                0, {w: (None, w) for w in range(4)}, max_concurrency=1
            )

    lines = [f"{what} {n}" for n in range(4) for what in ("begin", "end")]
    assert (tmp_path / "log").read_text().splitlines() == lines * 5


def test_extras_travel_with_a_round_by_channel() -> None:
    with running(1) as (pool, _, _):
        answers = pool.round_by_channel(0, {0: (None, {"any": "thing"})})

        assert answers == {0: (Report(extras={"any": "thing"}), None)}


def test_an_object_that_refuses_the_arrays_is_an_error() -> None:
    class Refusing(Adder):
        def attach(self, inputs: Any, outputs: Any) -> None:
            raise ValueError("no such arrays")

    with pool_of([Adder, Refusing]) as pool:
        layout = ArrayLayout([(2,)], [np.dtype(np.int64)])
        pool.lay_out(layout, 1, [(0, 1), (1, 2)])
        taken, refused = (pool.answer(pool.attach(worker)) for worker in range(2))

        assert taken is None
        assert refused.summary == "ValueError('no such arrays')"


def test_workers_draw_different_numbers() -> None:
    for context in CONTEXTS:
        with pool_of(3, context=context) as pool:
            drawn = {call(pool, w, lambda: np.random.random()) for w in range(3)}

        assert len(drawn) == 3


def test_a_worker_reads_nothing_from_the_terminal() -> None:
    for context in CONTEXTS:
        with pool_of(1, context=context) as pool:
            assert call(pool, 0, lambda: os.readlink("/proc/self/fd/0")) == os.devnull


def test_workers_ignore_ctrl_c_but_programs_that_they_start_do_not() -> None:
    for context in CONTEXTS:
        with pool_of(1, context=context) as pool:
            call(pool, 0, lambda: os.kill(os.getpid(), signal.SIGINT))
            status = call(
                pool,
                0,
                lambda: subprocess.run(["sh", "-c", "kill -INT $$"]).returncode,
            )

        assert status == -signal.SIGINT


def test_factories_are_read_in_the_callers_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for context in CONTEXTS:
        with pool_of(1, context=context) as pool:
            assert call(pool, 0, os.getcwd) == str(tmp_path)


def test_a_pool_takes_factories_pickled_before() -> None:
    factories = [pickling.dumps(Adder)] * 2

    with contextlib.closing(WorkerPool(factories)) as pool:
        pool.start([0, 1])

        assert make_all(pool) == ["adder", "adder"]
