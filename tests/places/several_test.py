"""More than one batch: beside, inside, and after another."""

from __future__ import annotations

import collections
import concurrent.futures
import functools
import gc
import os
import pathlib
import signal
from typing import Any

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs.testing import environments
from tests import waiting
from tests.places import programs

CONTEXTS = ["forkserver", "spawn", "fork"]


def make(first: int, context: str | None = None) -> pe.ParallelPyEnvironment:
    constructors = [
        functools.partial(environments.Counting, first + i, 1000) for i in range(2)
    ]
    return pe.ParallelPyEnvironment(constructors, context=context)


def step(env: pe.ParallelPyEnvironment) -> list[list[int]]:
    actions = np.zeros(env.batch_size, np.int64)
    return env.step(actions).observation.tolist()


@pytest.mark.parametrize("context", CONTEXTS)
def test_two_batches_are_stepped_in_turn(context: str) -> None:
    with make(0, context) as one, make(10, context) as other:
        one.reset()
        other.reset()

        seen = [(step(one), step(other)) for _ in range(20)]

    assert seen == [
        ([[0, 0, t], [1, 0, t]], [[10, 0, t], [11, 0, t]]) for t in range(1, 21)
    ]


def test_two_batches_are_stepped_by_two_threads() -> None:
    def live(first: int) -> list[list[list[int]]]:
        with make(first) as env:
            env.reset()
            return [step(env) for _ in range(200)]

    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        seen = list(executor.map(live, (0, 10), timeout=programs.SECONDS))

    assert seen == [
        [[[first, 0, t], [first + 1, 0, t]] for t in range(1, 201)] for first in (0, 10)
    ]


def test_one_batch_may_fail_and_end_beside_another() -> None:
    with make(0) as env:
        env.reset()
        with pe.ParallelPyEnvironment([environments.Dying] * 2) as other:
            other.reset()
            with pytest.raises(pe.WorkerDiedError):
                step(other)
            assert step(env) == [[0, 0, 1], [1, 0, 1]]

        assert step(env) == [[0, 0, 2], [1, 0, 2]]


class Outer(environments.Counting):
    """Its observation is what a batch of its own says; it does not close that."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.inner = make(10 * index)
        self.inner.reset()

    def _step(self, action: Any) -> Any:
        time_step = super()._step(action)
        return time_step._replace(observation=np.array(step(self.inner)[1]))

    def inner_pids(self) -> tuple[int, ...]:
        return self.inner.worker_pids


@pytest.mark.parametrize("context", CONTEXTS)
def test_an_environment_may_have_a_batch_of_its_own(context: str) -> None:
    constructors = [functools.partial(Outer, i) for i in range(2)]
    with pe.ParallelPyEnvironment(constructors, context=context) as env:
        env.reset()
        pids = sum(env.call("inner_pids"), ())

        seen = [step(env) for _ in range(2)]

    assert seen == [[[1, 0, t], [11, 0, t]] for t in (1, 2)]
    assert len(set(pids)) == 4
    waiting.wait_for_end(pids)


def test_a_batch_in_an_environment_ends_with_a_worker_that_is_killed() -> None:
    with pe.ParallelPyEnvironment([Outer, Outer]) as env:
        env.reset()
        killed, others = env.call("inner_pids")

        os.kill(env.worker_pids[0], signal.SIGKILL)

        waiting.wait_for_end(killed)
        with pytest.raises(pe.WorkerDiedError):
            step(env)
        assert env.reset().step_type.tolist() == [0, 0]
        assert env.call("inner_pids")[1] == others


def test_one_hundred_batches_in_a_row_leave_nothing() -> None:
    def live() -> None:
        with make(0) as env:
            env.reset()
            step(env)

    live()  # What is imported and opened once.
    before = possessions()

    for _ in range(100):
        live()

    assert possessions() == before


def possessions() -> collections.Counter[str]:
    """Returns what this process holds of the system."""
    gc.collect()
    children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children")
    return collections.Counter(
        descriptors=len(os.listdir("/proc/self/fd")),
        threads=len(os.listdir("/proc/self/task")),
        maps=len(pathlib.Path("/proc/self/maps").read_text().splitlines()),
        children=len(children.read_text().split()),
    )
