"""Workers, nurseries and parents that die or hang, and what is left of them."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from parallel_envs.process.worker_pool import MakeFailed, WorkerGone, WorkerPool
from tests.process import servants
from tests.process.servants import (
    Adder,
    Gate,
    Watch,
    ask,
    attach,
    call,
    descriptors,
    pool_of,
    start_sleeper,
)

CONTEXTS = ["forkserver", "spawn", "fork"]


@pytest.fixture
def gate(tmp_path: pathlib.Path) -> Iterator[Gate]:
    with contextlib.closing(Gate(str(tmp_path / "gate"))) as made:
        yield made


def fail() -> Any:
    raise ValueError("will not be made")


def leave() -> Any:
    os._exit(3)


def die() -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("context", CONTEXTS)
def test_what_a_factory_raises_is_told_with_its_worker(context: str) -> None:
    before = descriptors()

    with pytest.raises(MakeFailed) as failure, pool_of([Adder, fail], context=context):
        pass

    assert failure.value.worker == 1
    assert "ValueError: will not be made" in str(failure.value.answer)
    del failure
    assert descriptors() == before


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize(
    ("make", "exitcode"), [(leave, 3), (die, -signal.SIGKILL)], ids=["exit", "kill"]
)
def test_death_while_making_is_told_with_its_exit_status(
    context: str, make: Callable[[], Any], exitcode: int
) -> None:
    before = descriptors()

    with pytest.raises(WorkerGone) as gone, pool_of([Adder, make], context=context):
        pass

    assert (gone.value.worker, gone.value.exitcode) == (1, exitcode)
    del gone
    assert descriptors() == before


@pytest.mark.parametrize(
    ("wish", "exitcode"), [(servants.DIE, -signal.SIGKILL), (servants.EXIT, 7)]
)
def test_death_in_a_round_does_not_keep_the_others(wish: int, exitcode: int) -> None:
    with pool_of(3) as pool:
        inputs, sums = attach(pool)
        inputs[:] = 1, wish, servants.TELL

        news = pool.round(0)

        assert news is not None
        assert list(news) == [2]
        assert pool.dead == [1]
        assert pool.exitcode(1) == exitcode
        assert sums.tolist() == [1, 0, 0]
        assert pool.round(0) == {}


def test_death_while_idle_is_noticed_by_the_next_round() -> None:
    with pool_of(2) as pool, Watch(pool.pids[1]) as watch:
        attach(pool)
        os.kill(pool.pids[1], signal.SIGTERM)
        assert watch.living_after(5) == []

        pool.round(0)

        assert pool.dead == [1]
        assert pool.exitcode(1) == -signal.SIGTERM


def test_death_before_an_answer_is_told_and_others_answer() -> None:
    with pool_of(2) as pool:
        numbers = [pool.ask(0, "call", die), pool.ask(1, "echo", 5)]

        with pytest.raises(WorkerGone) as gone:
            pool.answer(numbers[0])

        assert gone.value.exitcode == -signal.SIGKILL
        assert pool.answer(numbers[1]) == 5
        with pytest.raises(WorkerGone):
            pool.ask(0, "echo", 1)


def test_what_was_answered_before_death_is_still_there() -> None:
    with pool_of(1) as pool, Watch(*pool.pids) as watch:
        number = pool.ask(0, "echo", "last words")
        end = pool.ask(0, "call", die)
        assert watch.living_after(5) == []

        assert pool.answer(number) == "last words"
        with pytest.raises(WorkerGone):
            pool.answer(end)


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_dead_are_replaced_and_rounds_go_on(context: str) -> None:
    with pool_of(4, context=context) as pool:
        inputs, sums = attach(pool)
        before = pool.pids
        for number in range(1, 3):
            inputs[:] = 1, servants.DIE, servants.DIE, 1
            pool.round(0)
            pool.replace_dead()
            inputs[:] = 1

            assert pool.dead == []
            assert [pool.round(0) for _ in range(5)] == [None] * 5
            assert sums.tolist() == [6 * number, 5, 5, 6 * number]
        assert pool.pids[::3] == before[::3]
        assert len({*before, *pool.pids}) == 6


def test_a_busy_worker_is_waited_for_before_the_dead_are_replaced(gate: Gate) -> None:
    with pool_of(2) as pool:
        inputs, sums = attach(pool)
        ask(pool, 0, "use_gate", gate.path)
        inputs[:] = servants.WAIT, servants.DIE
        pool.round(0)
        gate.open()

        pool.replace_dead()
        inputs[:] = 1

        assert pool.round(0) is None
        assert sums.tolist() == [1, 1]


def test_a_replacement_that_cannot_be_made_may_be_tried_again(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "forbidden"

    def make() -> Adder:
        if path.exists():
            raise ValueError("not now")
        return Adder()

    with pool_of([make] * 3) as pool:
        inputs, _ = attach(pool)
        path.touch()
        inputs[:] = 1, servants.DIE, servants.DIE
        pool.round(0)
        kept = pool.ask(0, "echo", "an answer of one that lives")
        start = time.monotonic()
        with pytest.raises(MakeFailed):
            pool.replace_dead()
        duration = time.monotonic() - start
        path.unlink()

        pool.replace_dead()
        inputs[:] = 1

        assert duration < 1.5
        assert pool.answer(kept) == "an answer of one that lives"
        assert pool.dead == []
        assert pool.round(0) is None


def wait_until_dead(pool: WorkerPool) -> None:
    """Deaths are noted while something is waited for."""
    for worker in range(len(pool.pids)):
        with pytest.raises(WorkerGone):
            call_until_gone(pool, worker)


def call_until_gone(pool: WorkerPool, worker: int) -> None:
    while True:
        ask(pool, worker, "echo", 0)


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
        pool.replace_dead()

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

        with pytest.raises(WorkerGone) as gone:
            pool.answer(number)

        assert gone.value.exitcode == -signal.SIGKILL
        assert time.monotonic() - start < 5
        gate.open()


def test_survivors_of_a_failure_draw_no_tokens_that_are_not_theirs() -> None:
    generator = np.random.default_rng(0)
    with pool_of(4) as pool:
        inputs, sums = attach(pool)
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
            pool.replace_dead()
            inputs[:] = 1
            assert pool.round(0) is None
            expected += 1
            assert sums.tolist() == expected.tolist()
