from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallel_envs import time_step as ts
from parallel_envs.specs import array_spec
from parallel_envs.testing import RandomPyEnvironment

OBSERVATION = array_spec.BoundedArraySpec((2,), np.int64, 0, 10**9)
ACTION = array_spec.BoundedArraySpec((), np.int64, 0, 3)


def ones(step_type: Any, action: Any, observation: Any) -> Any:
    """A reward function."""
    return np.ones(step_type.shape)


def observations(env: RandomPyEnvironment, num_steps: int = 5) -> list[Any]:
    return [env.step(()).observation.tolist() for _ in range(num_steps)]


def test_two_environments_draw_different_numbers_unless_their_seed_is_the_same() -> (
    None
):
    made = [RandomPyEnvironment(OBSERVATION, seed=seed) for seed in (None, None, 5, 5)]

    one, two, three, four = map(observations, made)

    assert one != two
    assert three == four


def test_seed_begins_anew() -> None:
    env = RandomPyEnvironment(OBSERVATION)
    runs: list[Any] = []

    for _ in range(2):
        env.seed(3)
        env.reset()
        runs.append(observations(env))

    assert runs[0] == runs[1]


@pytest.mark.parametrize("batch_size", [None, 4])
def test_episodes_are_as_long_as_allowed(batch_size: int | None) -> None:
    env = RandomPyEnvironment(
        OBSERVATION,
        episode_end_probability=0.5,
        batch_size=batch_size,
        min_duration=2,
        max_duration=4,
        seed=0,
    )

    types = [np.atleast_1d(env.step(()).step_type) for _ in range(400)]

    for row in np.stack(types, axis=1):
        starts = np.flatnonzero(row == ts.StepType.FIRST)
        ends = np.flatnonzero(row == ts.StepType.LAST)
        lengths = ends - starts[: len(ends)]
        assert set(lengths.tolist()) == {2, 3, 4}
        assert (starts[1:] == ends[: len(starts) - 1] + 1).all()


def test_rows_of_a_batch_end_each_by_itself() -> None:
    env = RandomPyEnvironment(
        OBSERVATION,
        episode_end_probability=0.3,
        discount=0.9,
        reward_fn=ones,
        batch_size=3,
        seed=0,
    )

    steps = [env.reset(), *(env.step(()) for _ in range(50))]

    ended = np.stack([step.is_last() for step in steps])
    assert (ended.any(axis=1) & ~ended.all(axis=1)).any()
    for step in steps:
        expected = np.select([step.is_first(), step.is_last()], [1, 0], 0.9)
        assert step.discount.tolist() == expected.astype(np.float32).tolist()
        assert step.reward.tolist() == (~step.is_first()).astype(int).tolist()
        assert step.step_type.dtype == np.int32


def test_without_auto_reset_episodes_follow_one_another_without_a_first() -> None:
    env = RandomPyEnvironment(
        OBSERVATION, episode_end_probability=0, max_duration=2, auto_reset=False
    )

    types = [int(env.step(()).step_type) for _ in range(5)]

    assert types == [0, 1, 2, 1, 2]


def test_rewards_come_from_the_function() -> None:
    asked: list[Any] = []

    def reward_fn(*arguments: Any) -> list[float]:
        asked.append(arguments)
        return [1.0, 2.0]

    env = RandomPyEnvironment(OBSERVATION, ACTION, 0.0, 1.0, reward_fn, batch_size=2)
    env.reset()
    action = np.array([0, 3])

    time_step = env.step(action)

    assert time_step.reward.tolist() == [1.0, 2.0]
    assert time_step.reward.dtype == np.float32
    step_type, given_action, observation = asked[0]
    assert step_type.tolist() == [1, 1]
    assert given_action is action
    assert observation is time_step.observation


def test_reward_of_another_shape_is_refused() -> None:
    def reward_fn(*_: object) -> list[float]:
        return [1.0]

    env = RandomPyEnvironment(OBSERVATION, reward_fn=reward_fn, batch_size=2)
    env.reset()

    with pytest.raises(ValueError, match=r"reward of shape \(2,\), got .* \(1,\)"):
        env.step(())


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (np.zeros(3, np.int64), r"action .* shape \(2,\), got .* \(3,\)"),
        (np.array([0, 4]), r"action .* at most 3, got 4 at index \(1,\)"),
        ({"a": np.zeros(2)}, "action"),
    ],
)
def test_action_that_does_not_fit_is_refused(action: Any, text: str) -> None:
    env = RandomPyEnvironment(OBSERVATION, ACTION, batch_size=2)
    env.reset()

    with pytest.raises(ValueError, match=text):
        env.step(action)


def test_pictures_have_the_size_asked_for() -> None:
    env = RandomPyEnvironment(OBSERVATION, render_size=(4, 5, 3))

    assert env.render().shape == (4, 5, 3)
    with pytest.raises(NotImplementedError, match="rgb_array"):
        env.render("human")
