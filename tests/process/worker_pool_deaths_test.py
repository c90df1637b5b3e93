"""Workers, nurseries and parents that die or hang, and what is left of them."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import numpy as np
import pytest

from parallel_envs.process.remote_error import RemoteError
from parallel_envs.process.worker import ServantFactory
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
    descriptors,
    make_all,
    pool_of,
    replace_dead,
    running,
    start_sleeper,
    started,
)

CONTEXTS = ["forkserver", "spawn", "fork"]
MEGABYTES_5 = 5_000_000


def fail(*_: Any) -> Any:
    raise ValueError("will not be made")


def leave(*_: Any) -> Any:
    os._exit(3)


def die(*_: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("context", CONTEXTS)
def test_what_a_factory_raises_is_told_with_its_worker(context: str) -> None:
    before = descriptors()

    with started([Adder, fail], context=context) as pool:
        made, failure = make_all(pool)

        assert made == "adder"
        assert failure.summary == "ValueError('will not be made')"
        assert pool.dead == []
    del pool
    assert descriptors() == before


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize(
    ("make", "exitcode"), [(leave, 3), (die, -signal.SIGKILL)], ids=["exit", "kill"]
)
def test_death_while_making_is_told_with_its_exit_status(
    context: str, make: ServantFactory, exitcode: int
) -> None:
    before = descriptors()

    with started([Adder, make], context=context) as pool:
        pid = pool.pids[1]

        assert make_all(pool) == ["adder", WorkerGone(1, pid, exitcode)]
    del pool
    assert descriptors() == before


@pytest.mark.parametrize(
    ("wish", "exitcode"), [(servants.DIE, -signal.SIGKILL), (servants.EXIT, 7)]
)
def test_death_in_a_round_does_not_keep_the_others(wish: int, exitcode: int) -> None:
    with running(3) as (pool, inputs, sums):
        inputs[:] = 1, wish, servants.TELL

        news = pool.round(0)

        assert news is not None
        assert list(news) == [2]
        assert pool.dead == [1]
        assert pool.gone(1).exitcode == exitcode
        assert sums.tolist() == [1, 0, 0]
        assert pool.round(0) == {}


def test_death_while_idle_is_noticed_by_the_next_round() -> None:
    with pool_of(2) as pool, Watch(pool.pids[1]) as watch:
        attach(pool)
        os.kill(pool.pids[1], signal.SIGTERM)
        assert watch.living_after(5) == []

        pool.round(0)

        assert pool.dead == [1]
        assert pool.living == [0]
        assert pool.gone(1).exitcode == -signal.SIGTERM


def test_death_before_an_answer_is_told_and_others_answer() -> None:
    with pool_of(2) as pool:
        numbers = [pool.ask(0, "call", die), pool.ask(1, "echo", 5)]

        gone = pool.answer(numbers[0])

        assert gone == WorkerGone(0, pool.pids[0], -signal.SIGKILL)
        assert pool.answer(numbers[1]) == 5
        assert ask(pool, 0, "echo", 1) == gone


def test_what_was_answered_before_death_is_still_there() -> None:
    with pool_of(1) as pool, Watch(*pool.pids) as watch:
        number = pool.ask(0, "echo", "last words")
        end = pool.ask(0, "call", die)
        assert watch.living_after(5) == []

        assert pool.answer(number) == "last words"
        assert isinstance(pool.answer(end), WorkerGone)


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_dead_are_replaced_and_rounds_go_on(context: str) -> None:
    with running(4, context=context) as (pool, inputs, sums):
        before = pool.pids
        for number in range(1, 3):
            inputs[:] = 1, servants.DIE, servants.DIE, 1
            pool.round(0)
            replace_dead(pool)
            inputs[:] = 1

            assert pool.dead == []
            assert [pool.round(0) for _ in range(5)] == [None] * 5
            assert sums.tolist() == [6 * number, 5, 5, 6 * number]
        assert pool.pids[::3] == before[::3]
        assert len({*before, *pool.pids}) == 6


def test_a_busy_worker_is_waited_for_before_the_dead_are_replaced(gate: Gate) -> None:
    with running(2) as (pool, inputs, sums):
        ask(pool, 0, "use_gate", gate.path)
        inputs[:] = servants.WAIT, servants.DIE
        pool.round(0)
        gate.open()

        replace_dead(pool)
        inputs[:] = 1

        assert pool.round(0) is None
        assert sums.tolist() == [1, 1]


def test_a_replacement_that_cannot_be_made_may_be_tried_again(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "forbidden"

    def make(*place: Any) -> Adder:
        if path.exists():
            raise ValueError("not now")
        return Adder(*place)

    with running([make] * 3) as (pool, inputs, _):
        path.touch()
        inputs[:] = 1, servants.DIE, servants.DIE
        pool.round(0)
        kept = pool.ask(0, "echo", "an answer of one that lives")
        pool.start([1, 2])
        failures = [pool.answer(pool.make(worker)) for worker in (1, 2)]
        path.unlink()

        pool.kill([1, 2])
        replace_dead(pool)
        inputs[:] = 1

        assert {failure.summary for failure in failures} == {"ValueError('not now')"}
        assert pool.answer(kept) == "an answer of one that lives"
        assert pool.dead == []
        assert pool.round(0) is None


def test_a_worker_whose_object_could_not_be_made_may_make_another(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "forbidden"
    path.touch()

    def make(*place: Any) -> Adder:
        if path.exists():
            raise ValueError("not now")
        return Adder(*place)

    with started([make]) as pool:
        (failure,), pids = make_all(pool), pool.pids
        path.unlink()

        assert isinstance(failure, RemoteError)
        assert make_all(pool) == ["adder"]
        assert pool.pids == pids


def test_what_was_asked_of_the_dead_is_told_though_they_were_replaced() -> None:
    with running(2) as (pool, inputs, _):
        numbers = [pool.ask(0, "call", leave), pool.ask(0, "echo", 1)]
        pid = pool.pids[0]
        assert isinstance(ask(pool, 0, "echo", 2), WorkerGone)
        replace_dead(pool)
        inputs[:] = 1
        start = time.monotonic()

        assert [pool.answer(n) for n in numbers] == [WorkerGone(0, pid, 3)] * 2
        assert time.monotonic() - start < 0.5
        assert pool.round(0) is None


def test_what_the_dead_answered_is_there_though_they_were_replaced() -> None:
    with running(2) as (pool, inputs, _):
        number = pool.ask(0, "echo", "last words")
        ask(pool, 0, "echo", "what comes after them")
        inputs[:] = servants.DIE, 1
        pool.round(0)

        replace_dead(pool)

        assert pool.answer(number) == "last words"


def test_a_pool_whose_workers_cannot_be_started_again_can_be_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = descriptors()
    with running(2) as (pool, inputs, _), Watch(*pool.pids) as watch:
        os.kill(servants.nursery_of(pool), signal.SIGKILL)
        assert watch.living_after(5) == []
        inputs[:] = 1
        pool.round(0)
        wait_until_dead(pool)

        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", "/nowhere/python")
            with pytest.raises(FileNotFoundError):
                pool.start(pool.dead)
            assert pool.dead == [0, 1]
        pool.close()
    del pool, inputs, _

    assert descriptors() == before


def wait_until_dead(pool: WorkerPool) -> None:
    """Deaths are noted while something is waited for."""
    for worker in range(len(pool.pids)):
        while not isinstance(ask(pool, worker, "echo", 0), WorkerGone):
            pass


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_killed_nursery_takes_its_workers_along_and_is_replaced(
    context: str,
) -> None:
    with pool_of(3, context=context) as pool, Watch(*pool.pids) as watch:
        inputs, sums = attach(pool)
        inputs[:] = 1
        nursery = servants.nursery_of(pool)
        os.kill(nursery, signal.SIGKILL)
        assert watch.living_after(5) == []

        pool.round(0)
        wait_until_dead(pool)
        replace_dead(pool)

        assert [pool.round(0) for _ in range(3)] == [None] * 3
        assert sums.tolist() == [3, 3, 3]
        assert servants.nursery_of(pool) != nursery


def test_what_the_workers_of_a_killed_nursery_started_ends_as_well() -> None:
    with pool_of(2) as pool:
        sleepers = [call(pool, worker, start_sleeper) for worker in range(2)]
        with Watch(*pool.pids, *sleepers) as watch:
            os.kill(servants.nursery_of(pool), signal.SIGKILL)
            wait_until_dead(pool)

            assert watch.living_after(2) == []


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_worker_started_ends_with_it(signal_number: int) -> None:
    with pool_of(2) as pool:
        sleeper = call(pool, 0, start_sleeper)
        with Watch(sleeper) as watch:
            os.kill(pool.pids[0], signal_number)

            assert watch.living_after(2) == []
        assert ask(pool, 1, "echo", 1) == 1


PROGRAM = """
import os, signal, sys
from tests.process.servants import attach, call, nursery_of, pool_of, start_sleeper

with pool_of(3, context={context!r}) as pool:
    attach(pool)
    sleeper = call(pool, 1, start_sleeper)
    print(nursery_of(pool), *pool.pids, sleeper, flush=True)
    {end}
"""


def run_program(context: str, end: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Runs a program with a pool; returns its nursery, workers and their child."""
    program = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(PROGRAM).format(context=context, end=end),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert program.stdout is not None
    return program, [int(pid) for pid in program.stdout.readline().split()]


KILLED = "os.kill(os.getpid(), signal.SIGKILL)"
ENDS = {
    "exit": "sys.exit(0)",
    "abrupt exit": "os._exit(0)",
    "exception": "raise SystemError",
    "stopped by hand": "os.kill(os.getpid(), signal.SIGTERM)",
}


@pytest.mark.parametrize(
    ("context", "end"),
    [
        *((context, "killed") for context in CONTEXTS),
        *(("forkserver", e) for e in ENDS),
    ],
)
def test_nothing_outlives_the_parent(
    context: str, end: str, capfd: pytest.CaptureFixture[str]
) -> None:
    program, pids = run_program(
        context, f"sys.stdin.readline(); {ENDS.get(end, KILLED)}"
    )

    with Watch(*pids) as watch:
        program.communicate("go\n")

        assert len(pids) == 5
        assert watch.living_after(1.0) == []
    capfd.readouterr()


def test_a_parent_killed_with_its_workers_in_a_round_leaves_nothing() -> None:
    program, pids = run_program(
        "forkserver",
        "pool.ask(0, 'call', lambda: __import__('time').sleep(1000)); "
        "sys.stdin.readline(); os.kill(os.getpid(), signal.SIGKILL)",
    )

    with Watch(*pids) as watch:
        program.communicate("go\n")

        assert watch.living_after(1.0) == []


def test_a_thread_that_ends_does_not_take_its_workers_along() -> None:
    with contextlib.ExitStack() as stack:
        pools: list[Any] = []
        thread = servants.in_thread(
            lambda: pools.append(stack.enter_context(pool_of(2)))
        )
        thread.join()
        attach(pools[0])

        assert pools[0].round(0) is None


def test_a_dead_worker_is_told_apart_from_what_it_started(gate: Gate) -> None:
    """A child that holds the worker's end of the channel keeps it open."""

    def fork_and_die() -> None:
        # Before the fork, and for both ways: a reader that comes too late would wait
        # for a writer that has gone.
        leave = os.open(f"{gate_path}.leave", os.O_RDWR)
        if os.fork() == 0:
            os.setsid()  # Out of the group that is ended with the worker.
            os.read(leave, 1)
            os._exit(0)
        die()

    gate_path = gate.path
    with pool_of(1) as pool:
        start = time.monotonic()
        number = pool.ask(0, "call", fork_and_die)

        gone = pool.answer(number)

        assert gone.exitcode == -signal.SIGKILL
        assert time.monotonic() - start < 5
        gate.open()


def test_sending_to_the_dead_ends_though_others_hold_their_end(gate: Gate) -> None:
    gate_path = gate.path

    def stop_with_a_child() -> None:
        leave = os.open(f"{gate_path}.leave", os.O_RDWR)
        if os.fork() == 0:
            os.setsid()
            os.read(leave, 1)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGSTOP)

    with pool_of(1) as pool:
        pool.ask(0, "call", stop_with_a_child)
        pid = pool.pids[0]
        killer = threading.Timer(0.2, os.kill, [pid, signal.SIGKILL])
        killer.start()
        number = pool.ask(0, "echo", bytes(MEGABYTES_5))
        killer.join()

        assert pool.answer(number) == WorkerGone(0, pid, -signal.SIGKILL)
        gate.open()


def test_survivors_of_a_failure_draw_no_tokens_that_are_not_theirs() -> None:
    generator = np.random.default_rng(0)
    with running(4) as (pool, inputs, sums):
        expected = np.zeros(4, int)
        for _ in range(30):
            wishes = generator.choice(
                [1, servants.FAIL, servants.TELL, servants.DIE],
                4,
                p=[0.7, 0.1, 0.1, 0.1],
            )
            inputs[:] = wishes
            pool.round(0)
            pool.settle()
            expected[wishes == 1] += 1
            expected[pool.dead] = 0
            replace_dead(pool)
            inputs[:] = 1
            assert pool.round(0) is None
            expected += 1
            assert sums.tolist() == expected.tolist()
