"""Episodes that begin with a press of the button."""

from __future__ import annotations

from typing import Any

import pytest

from parallel_envs import time_step as ts
from parallel_envs.batched_py_environment import BatchedPyEnvironment
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.testing import conformance, environments
from parallel_envs.wrappers import FireOnReset, FrameStack


class Button(environments.Counting):
    """Notes its actions; where they have a meaning, FIRE is the second."""

    def __init__(self, *meanings: str, length: int = 5) -> None:
        super().__init__(length=length)
        self.meanings = list(meanings or ("NOOP", "FIRE", "RIGHT"))
        self.actions: list[Any] = []

    def get_action_meanings(self) -> list[str]:
        return self.meanings

    def _step(self, action: Any) -> ts.TimeStep:
        self.actions.append(action)
        return super()._step(action)


class TestConformance(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return FireOnReset(Button())


def test_each_episode_begins_with_fire_and_the_action_after_it() -> None:
    inside = Button(length=4)
    env = FireOnReset(inside)

    steps = [env.reset(), *(env.step(0) for _ in range(4))]

    assert inside.actions == [1, 2, 0, 0, 1, 2, 0]
    assert [step.observation[2] for step in steps] == [2, 3, 4, 2, 3]
    assert [int(step.step_type) for step in steps] == [0, 1, 2, 0, 1]


def test_the_first_step_has_no_reward_of_the_two_before_it() -> None:
    first = FireOnReset(Button()).reset()

    assert first.is_first()
    assert first.reward == 0.0
    assert first.discount == 1.0


@pytest.mark.parametrize(
    "meanings", [("NOOP", "UP", "FIRE"), ("NOOP", "FIRE"), ("NOOP",)]
)
def test_games_whose_second_action_is_another_are_left_alone(
    meanings: tuple[str, ...],
) -> None:
    inside = Button(*meanings)

    first = FireOnReset(inside).reset()

    assert inside.actions == []
    assert first.observation[2] == 0


@pytest.mark.parametrize(("length", "t"), [(1, 0), (2, 0)])
def test_an_episode_that_ends_meanwhile_is_followed_by_another(
    length: int, t: int
) -> None:
    first = FireOnReset(Button(length=length)).reset()

    assert first.is_first()
    assert first.observation[2] == t


def test_meanings_are_found_through_other_wrappers() -> None:
    inside = Button()

    FireOnReset(FrameStack(inside, 2)).reset()

    assert inside.actions == [1, 2]


def test_an_environment_without_meanings_is_refused() -> None:
    with pytest.raises(TypeError, match=r"with get_action_meanings\(\), as AtariPrep"):
        FireOnReset(environments.Counting())


def test_a_batch_is_refused() -> None:
    with pytest.raises(
        ValueError, match="expected a single environment, got the batch"
    ):
        FireOnReset(BatchedPyEnvironment([Button()]))
