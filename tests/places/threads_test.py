"""From threads other than the main one."""

from __future__ import annotations

import concurrent.futures
import functools
import itertools
import os
import pathlib
from typing import Any

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs.testing import environments
from tests import waiting
from tests.places import programs

CONTEXTS = ["forkserver", "spawn"]


def in_a_thread(function: Any) -> Any:
    """Returns what a function returns in a thread that has ended then."""
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        return executor.submit(function).result(programs.SECONDS)


def make(context: str | None = None) -> pe.ParallelPyEnvironment:
    constructors = [functools.partial(environments.Counting, i) for i in range(2)]
    return pe.ParallelPyEnvironment(constructors, context=context)


def step(env: pe.ParallelPyEnvironment) -> list[list[int]]:
    return env.step(np.zeros(env.batch_size, np.int64)).observation.tolist()


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_thread_makes_steps_and_closes_a_batch(context: str) -> None:
    def live() -> Any:
        with make(context) as env:
            env.reset()
            return env.worker_pids, step(env)

    pids, observation = in_a_thread(live)

    assert observation == [[0, 0, 1], [1, 0, 1]]
    waiting.wait_for_end(pids)


@pytest.mark.parametrize("context", CONTEXTS)
def test_workers_outlive_the_thread_that_made_them(context: str) -> None:
    # The kernel's own signal at the end of a parent comes when its thread ends.
    env = in_a_thread(lambda: make(context))
    pids = env.worker_pids

    in_a_thread(env.reset)
    seen = [in_a_thread(lambda: step(env)), step(env), in_a_thread(lambda: step(env))]

    assert [observation[1] for observation in seen] == [[1, 0, t] for t in (1, 2, 3)]
    assert env.worker_pids == pids
    in_a_thread(env.close)
    waiting.wait_for_end(pids)


def test_a_worker_that_died_is_replaced_from_another_thread() -> None:
    with in_a_thread(
        lambda: pe.ParallelPyEnvironment([environments.Dying, environments.Counting])
    ) as env:
        env.reset()
        with pytest.raises(pe.WorkerDiedError):
            in_a_thread(lambda: step(env))

        assert in_a_thread(env.reset).step_type.tolist() == [0, 0]


def test_threads_take_turns_with_one_batch() -> None:
    num_threads, num_steps = 4, 25
    constructors = [functools.partial(environments.Counting, i, 1000) for i in range(2)]
    with pe.ParallelPyEnvironment(constructors) as env:
        env.reset()

        def step_often() -> list[int]:
            return [step(env)[1][2] for _ in range(num_steps)]

        with concurrent.futures.ThreadPoolExecutor(num_threads) as executor:
            futures = [executor.submit(step_often) for _ in range(num_threads)]
            counts = [each.result(programs.SECONDS) for each in futures]

    assert sorted(itertools.chain(*counts)) == list(
        range(1, num_threads * num_steps + 1)
    )
    assert all(count == sorted(count) for count in counts)


def test_a_daemon_thread_that_steps_does_not_hold_up_the_end() -> None:
    text = f"""{programs.PREAMBLE}
import threading
is_stepping = threading.Event()

def step_for_ever():
    env = pe.ParallelPyEnvironment([Env, Env])
    env.reset()
    try:
        while True:
            env.step(np.zeros(2, np.int64))
            is_stepping.set()
    except pe.ClosedError:  # The end of the program has closed it.
        pass

threading.Thread(target=step_for_ever, daemon=True).start()
is_stepping.wait()
print("done")
"""

    assert programs.run(["-c", text]) == "done\n"


def test_a_batch_that_another_thread_made_ends_with_the_program() -> None:
    text = f"""{programs.PREAMBLE}
import threading
made = []
thread = threading.Thread(target=lambda: made.append(pe.ParallelPyEnvironment([Env])))
thread.start()
thread.join()
made[0].reset()
print(*made[0].worker_pids)
"""

    assert len(programs.run(["-c", text]).split()) == 1


def test_a_thread_that_waits_leaves_the_others_free(tmp_path: pathlib.Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    class Waiting(environments.Counting):
        """Its step waits until somebody writes into the pipe."""

        def _step(self, action: Any) -> Any:
            fifo.read_text()
            return super()._step(action)

    with pe.ParallelPyEnvironment([Waiting]) as waiting, make() as other:
        waiting.reset()
        other.reset()
        with concurrent.futures.ThreadPoolExecutor(1) as executor:
            later = executor.submit(step, waiting)

            seen = [step(other)[0][2] for _ in range(3)]

            is_done = later.done()
            fifo.write_text("go on")
            assert later.result(programs.SECONDS) == [[0, 0, 1]]

    assert (seen, is_done) == ([1, 2, 3], False)
