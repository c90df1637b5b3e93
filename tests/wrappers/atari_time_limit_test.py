"""Limits on games that go on after the end of an episode."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from parallel_envs import time_step as ts
from parallel_envs.batched_py_environment import BatchedPyEnvironment
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.testing import conformance, environments
from parallel_envs.wrappers import AtariTimeLimit, FrameStack


class Game(environments.Counting):
    """A life has `length` steps, a game has `num_lives`; observes `[0, game, t]`."""

    def __init__(self, length: int = 2, num_lives: int = 3) -> None:
        super().__init__(length=length)
        self.num_lives = num_lives
        self.lives = 0
        self.is_cut = False

    @property
    def game_over(self) -> bool:
        return self.lives == 0

    @property
    def goes_on(self) -> bool:
        is_last = self.t == self.length
        return is_last and not self.game_over and not self.is_cut

    def end_game(self) -> None:
        self.is_cut = True

    def _reset(self) -> ts.TimeStep:
        if not self.goes_on:
            self.lives = self.num_lives
            self.episode += 1
        self.is_cut = False
        self.t = 0
        return ts.restart(self._observation())

    def _step(self, action: Any) -> ts.TimeStep:
        time_step = super()._step(action)
        self.lives -= int(time_step.is_last())
        return time_step


class TestConformance(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return AtariTimeLimit(Game(), 3)


def run(env: PyEnvironment, num_steps: int) -> list[ts.TimeStep]:
    return [env.reset()] + [env.step(0) for _ in range(num_steps)]


def kinds(steps: list[ts.TimeStep]) -> list[int]:
    return [int(step.step_type) for step in steps]


def test_steps_are_counted_over_the_lives_of_a_game() -> None:
    env = AtariTimeLimit(Game(length=2, num_lives=9), 5)

    steps = run(env, 8)

    assert kinds(steps) == [0, 1, 2, 0, 1, 2, 0, 2, 0]
    assert [float(step.discount) for step in steps if step.is_last()] == [0, 0, 1]
    assert [step.observation[1] for step in steps] == [0] * 8 + [1]


def test_a_life_that_ends_at_the_limit_ends_the_game() -> None:
    env = AtariTimeLimit(Game(length=2, num_lives=9), 4)

    steps = run(env, 6)

    assert kinds(steps) == [0, 1, 2, 0, 1, 2, 0]
    assert steps[5].discount == 0.0
    assert steps[6].observation[1] == 1


def test_a_new_game_starts_a_new_count() -> None:
    env = AtariTimeLimit(Game(length=2, num_lives=1), 3)

    assert kinds(run(env, 6)) == [0, 1, 2, 0, 1, 2, 0]


def test_a_reset_on_the_way_starts_a_new_count() -> None:
    env = AtariTimeLimit(Game(length=9), 3)
    run(env, 2)

    assert kinds(run(env, 3)) == [0, 1, 1, 2]


def test_game_over_tells_a_cut_game_from_a_lost_life() -> None:
    env = AtariTimeLimit(Game(length=2), 3)
    env.reset()

    told: list[bool] = []
    for _ in range(4):
        env.step(0)
        told.append(env.game_over)

    assert told == [False, False, False, True]


def test_a_game_is_found_through_other_wrappers() -> None:
    env = AtariTimeLimit(FrameStack(Game(length=2), 2), 3)

    assert kinds(run(env, 4)) == [0, 1, 2, 0, 2]


def test_the_count_is_part_of_the_state() -> None:
    class Kept(Game):
        def get_state(self) -> Any:
            return super().get_state(), self.lives

        def set_state(self, state: Any) -> None:
            inside, self.lives = state
            super().set_state(inside)

    env = AtariTimeLimit(Kept(length=2), 3)
    run(env, 1)
    state = pickle.loads(pickle.dumps(env.get_state()))
    expected = kinds([env.step(0) for _ in range(6)])

    env.set_state(state)

    assert kinds([env.step(0) for _ in range(6)]) == expected


def test_the_duration_can_be_read() -> None:
    assert AtariTimeLimit(Game(), 7).duration == 7


def test_a_duration_below_one_step_is_refused() -> None:
    with pytest.raises(ValueError, match="duration: expected at least 1 step, got 0"):
        AtariTimeLimit(Game(), 0)


def test_a_batch_is_refused() -> None:
    with pytest.raises(
        ValueError, match="expected a single environment, got the batch"
    ):
        AtariTimeLimit(BatchedPyEnvironment([Game()]), 3)


def test_an_environment_without_games_is_refused() -> None:
    with pytest.raises(TypeError, match=r"expected AtariPreprocessing, .*TimeLimit"):
        AtariTimeLimit(environments.Counting(), 3)
