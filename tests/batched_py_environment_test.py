"""What is particular to the batch in this process; see also environment_batch_test."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs import time_step as ts
from parallel_envs.testing import environments


class Meeting(environments.Counting):
    """Does not step before all others step too."""

    def __init__(self, barrier: threading.Barrier) -> None:
        super().__init__()
        self._barrier = barrier

    def _reset(self) -> ts.TimeStep:
        self._barrier.wait()
        return super()._reset()

    def _step(self, action: Any) -> ts.TimeStep:
        self._barrier.wait()
        return super()._step(action)


@pytest.mark.parametrize(
    ("envs", "kind", "message"),
    [
        ([], ValueError, r"envs: expected at least one environment, got none\."),
        ((), ValueError, r"envs: expected at least one environment, got none\."),
        (environments.Counting(), TypeError, "envs: expected a list .*, got Counting"),
        (3, TypeError, r"envs: expected a list of environments, got int\."),
        (
            [environments.Counting(), environments.Counting],
            TypeError,
            r"envs\[1\]: expected a PyEnvironment.*Counting",
        ),
        ([None], TypeError, r"envs\[0\]: expected a PyEnvironment.*None"),
    ],
)
def test_what_is_no_list_of_environments_is_named(
    envs: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        pe.BatchedPyEnvironment(envs)


def test_environments_step_at_the_same_time_with_threads() -> None:
    barrier = threading.Barrier(4, timeout=30)
    envs = [Meeting(barrier) for _ in range(4)]

    with pe.BatchedPyEnvironment(envs, multithreading=True) as batch:
        batch.reset()
        stepped = batch.step(np.zeros(4, np.int64))

    assert stepped.observation[:, 2].tolist() == [1, 1, 1, 1]


def test_environments_step_one_after_another_without_threads() -> None:
    barrier = threading.Barrier(2, timeout=0.01)

    with (
        pe.BatchedPyEnvironment([Meeting(barrier), Meeting(barrier)]) as batch,
        pytest.raises(pe.WorkerError, match="BrokenBarrierError") as caught,
    ):
        batch.reset()

    assert caught.value.indices == (0, 1)


def test_threads_end_with_the_batch() -> None:
    before = threading.active_count()
    batch = pe.BatchedPyEnvironment(
        [environments.Counting(), environments.Counting()], multithreading=True
    )
    batch.reset()

    during = threading.active_count()
    batch.close()

    assert during > before
    assert threading.active_count() == before


def test_one_environment_takes_no_thread() -> None:
    before = threading.active_count()
    with pe.BatchedPyEnvironment([environments.Counting()], multithreading=True) as env:
        env.reset()

        during = threading.active_count()

    assert during == before


def test_a_batch_that_cannot_be_made_leaves_no_thread() -> None:
    before = threading.active_count()

    with pytest.raises(ValueError, match="environment 1 has other specs"):
        pe.BatchedPyEnvironment(
            [environments.Counting(), environments.Nested()], multithreading=True
        )

    assert threading.active_count() == before


def test_the_environments_are_the_very_ones() -> None:
    envs = [environments.Counting(i) for i in range(2)]

    with pe.BatchedPyEnvironment(envs) as batch:
        batch.reset()
        batch.envs.clear()

        assert [env is own for env, own in zip(batch.envs, envs, strict=True)] == [
            True,
            True,
        ]
        assert [env.episode for env in envs] == [0, 0]


def test_exceptions_come_with_row_and_cause() -> None:
    raising: list[Callable[[], Any]] = [
        environments.Counting,
        functools.partial(environments.RaisingInStep, 1),
    ]

    with pe.BatchedPyEnvironment([make() for make in raising]) as batch:
        batch.reset()
        with pytest.raises(pe.WorkerError) as caught:
            batch.step([0, 0])

    assert caught.value.indices == (1,)
    assert type(caught.value.__cause__) is ValueError
    assert caught.value.exitcode is None


def test_an_interrupt_is_not_taken_for_a_failure_of_an_environment() -> None:
    class Interrupted(environments.Counting):
        def _step(self, action: Any) -> ts.TimeStep:
            raise KeyboardInterrupt

    with pe.BatchedPyEnvironment([Interrupted()]) as batch:
        batch.reset()

        with pytest.raises(KeyboardInterrupt):
            batch.step([0])
        with pytest.raises(RuntimeError, match=r"Call reset\(\) first"):
            batch.step([0])
        assert batch.reset().step_type.tolist() == [0]


def test_an_environment_cannot_have_two_rows() -> None:
    env = environments.Counting()

    with pytest.raises(ValueError, match=r"envs\[2\] is the same object as envs\[0\]"):
        pe.BatchedPyEnvironment([env, environments.Counting(), env])
