"""Limits on the episodes of single environments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallel_envs import time_step as ts
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.testing import conformance, environments
from parallel_envs.wrappers import TimeLimit

Counting = environments.Counting


class TestConformance(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return TimeLimit(environments.Drawing(length=5), 3)


def run(env: PyEnvironment, num_steps: int) -> list[ts.TimeStep]:
    return [env.reset()] + [env.step(0) for _ in range(num_steps)]


def kinds(steps: list[ts.TimeStep]) -> list[Any]:
    return [step.step_type.tolist() for step in steps]


def test_the_step_at_the_limit_is_last_and_keeps_reward_and_discount() -> None:
    env = TimeLimit(Counting(length=99), 2)

    last = run(env, 2)[-1]

    assert last.is_last()
    assert last.reward == 2.0
    assert last.discount == 1.0
    assert last.observation.tolist() == [0, 0, 2]
    assert env.current_time_step() is last


def test_a_discount_of_the_environment_itself_is_kept() -> None:
    class Discounted(Counting):
        def _step(self, action: Any) -> ts.TimeStep:
            return super()._step(action)._replace(discount=np.float32(0.9))

    last = run(TimeLimit(Discounted(length=99), 1), 1)[-1]

    assert last.is_last()
    assert last.discount == np.float32(0.9)


def test_an_end_of_its_own_at_the_limit_keeps_discount_0() -> None:
    last = run(TimeLimit(Counting(length=2), 2), 2)[-1]

    assert last.is_last()
    assert last.discount == 0.0


def test_an_episode_that_ends_before_the_limit_is_left_alone() -> None:
    steps = run(TimeLimit(Counting(length=2), 5), 6)

    assert kinds(steps) == [0, 1, 2, 0, 1, 2, 0]


def test_after_the_limit_the_environment_starts_anew_and_so_does_the_count() -> None:
    steps = run(TimeLimit(Counting(length=99), 2), 6)

    assert kinds(steps) == [0, 1, 2, 0, 1, 2, 0]
    assert [step.observation[1] for step in steps] == [0, 0, 0, 1, 1, 1, 2]


def test_a_limit_of_one_step_ends_each_episode_with_its_first_action() -> None:
    assert kinds(run(TimeLimit(Counting(length=99), 1), 4)) == [0, 2, 0, 2, 0]


def test_a_reset_on_the_way_starts_the_count_anew() -> None:
    env = TimeLimit(Counting(length=99), 3)
    run(env, 2)

    assert kinds(run(env, 3)) == [0, 1, 1, 2]


def test_a_step_before_the_first_reset_resets() -> None:
    env = TimeLimit(Counting(length=99), 2)

    assert kinds([env.step(0) for _ in range(3)]) == [0, 1, 2]


def test_of_two_limits_the_shorter_one_counts() -> None:
    for durations in [(2, 5), (5, 2)]:
        env = TimeLimit(TimeLimit(Counting(length=99), durations[0]), durations[1])

        assert kinds(run(env, 5)) == [0, 1, 2, 0, 1, 2]


class ResettingItself(Counting):
    def __init__(self, length: int) -> None:
        super().__init__(length=length)
        self._handle_auto_reset = False

    def _step(self, action: Any) -> ts.TimeStep:
        return self._reset() if self.t == self.length else super()._step(action)


def test_an_environment_that_resets_itself_is_reset_at_the_limit() -> None:
    steps = run(TimeLimit(ResettingItself(length=99), 2), 6)

    assert kinds(steps) == [0, 1, 2, 0, 1, 2, 0]
    assert [step.observation[1] for step in steps] == [0, 0, 0, 1, 1, 1, 2]


def test_an_environment_that_resets_itself_is_counted_from_its_own_first_step() -> None:
    steps = run(TimeLimit(ResettingItself(length=2), 2), 6)

    assert kinds(steps) == [0, 1, 2, 0, 1, 2, 0]
    assert [step.observation[1] for step in steps] == [0, 0, 0, 1, 1, 1, 2]


def test_the_duration_can_be_read() -> None:
    assert TimeLimit(Counting(), np.int64(7)).duration == 7  # type: ignore[arg-type]


@pytest.mark.parametrize("duration", [0, -1])
def test_a_duration_below_one_step_is_refused(duration: int) -> None:
    with pytest.raises(ValueError, match="duration: expected at least 1 step, got"):
        TimeLimit(Counting(), duration)


@pytest.mark.parametrize("duration", [None, 2.0, "2"])
def test_a_duration_that_is_no_integer_is_refused(duration: Any) -> None:
    with pytest.raises(TypeError, match="duration: expected a number of steps, got"):
        TimeLimit(Counting(), duration)
