"""Environments of TF-Agents inside of our batches, as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tf_agents.environments import suite_gym
from tf_agents.trajectories import time_step as tf_time_step

import parallel_envs as pe
from parallel_envs.adapters import tf_agents as adapter
from tests.tf_agents import theirs

CONSTRUCTORS = [
    theirs.Theirs,
    theirs.without_auto_reset,
    theirs.wrapped,
    theirs.batched,
]
NUM_ROWS = 5  # The last of these is a batch of two.
ZEROS = np.zeros(NUM_ROWS, np.int32)


# A worker imports TensorFlow here, so that there is one for all rows, for all tests.
@pytest.fixture(scope="module")
def batches() -> Iterator[dict[str, Any]]:
    with (
        pe.ParallelPyEnvironment(CONSTRUCTORS, num_workers=1) as ours,
        adapter.ParallelPyEnvironment(CONSTRUCTORS, num_workers=1) as tf_agents,
        pe.ParallelPyEnvironment(CONSTRUCTORS, num_workers=0) as here,
    ):
        yield {"ours": ours, "TF-Agents'": tf_agents, "this process": here}


@pytest.fixture(params=["ours", "TF-Agents'", "this process"])
def env(request: pytest.FixtureRequest, batches: dict[str, Any]) -> Any:
    return batches[request.param]


def test_specs_are_theirs(env: Any) -> None:
    assert env.batch_size == NUM_ROWS
    assert (env.reward_spec().shape, env.reward_spec().name) == ((2,), "rewards")
    assert env.observation_spec().maximum == np.finfo(np.float32).max
    assert env.action_spec().maximum == 9


def test_rows_reset_as_each_environment_does(env: Any) -> None:
    time_steps = [env.reset(), *(env.step(ZEROS) for _ in range(5))]

    is_theirs = isinstance(env, adapter.ParallelPyEnvironment)
    kind = tf_time_step.TimeStep if is_theirs else pe.TimeStep
    assert all(type(time_step) is kind for time_step in time_steps)
    types = np.transpose([time_step.step_type for time_step in time_steps])
    assert types.tolist() == [
        [0, 1, 1, 2, 0, 1],
        [0, 1, 1, 2, 0, 1],
        [0, 1, 2, 0, 1, 2],
        [0, 1, 1, 2, 0, 1],
        [0, 1, 1, 2, 0, 1],
    ]
    discounts = np.transpose([time_step.discount for time_step in time_steps])
    assert discounts[0].tolist() == [1, 1, 1, 0, 1, 1]
    assert discounts[2].tolist() == [1, 1, 1, 1, 1, 1]  # The limit is a truncation.
    assert time_steps[1].observation[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_rewards_are_vectors(env: Any) -> None:
    env.reset()

    time_step = env.step(np.arange(NUM_ROWS))

    assert time_step.reward.tolist() == [[1, 0], [1, 1], [1, 2], [1, 3], [1, 4]]
    assert time_step.reward.dtype == np.float32


def test_pictures_infos_and_seeds_are_theirs(env: Any) -> None:
    env.reset()
    env.step(ZEROS)

    pictures, infos = env.render(), env.get_info()

    assert pictures.shape == (NUM_ROWS, 2, 3, 3)
    assert np.all(pictures == 1)
    is_theirs = isinstance(env, adapter.ParallelPyEnvironment)
    told = infos["t"] if is_theirs else [info["t"] for info in infos]
    assert list(told) == [1] * NUM_ROWS


def test_states_and_attributes_are_theirs(env: Any) -> None:
    env.reset()
    handle = env.envs[0]
    handle.call("seed", 7)()

    handle.call("set_state", (5, 1))()
    time_step = handle.step(np.int32(2))

    assert time_step.observation.tolist() == [0, 5, 2]
    assert handle.get_state() == (5, 2)
    assert handle.access("_t") == 2
    assert handle.seeds[-1] == 7
    assert env.envs[2].duration == 2
    assert env.envs[2].access("_t") == 0


def test_an_error_inside_names_its_row_and_keeps_its_type(env: Any) -> None:
    env.reset()

    with pytest.raises(pe.errors.WorkerError, match="environment 1 raised") as caught:
        env.step(np.array([0, 9, 0, 0, 0]))

    assert caught.value.index == 1
    assert type(caught.value.__cause__) is ValueError
    assert str(caught.value.__cause__) == "no move 9"
    assert env.reset().step_type.tolist() == [0] * NUM_ROWS


def test_actions_out_of_their_bounds_are_refused(env: Any) -> None:
    env.reset()

    with pytest.raises(ValueError, match=r"action: .*10"):
        env.step(np.full(NUM_ROWS, 10))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_constructor_that_raises_is_named(num_workers: int) -> None:
    with pytest.raises(pe.errors.WorkerError, match="environment 0 raised") as caught:
        adapter.ParallelPyEnvironment([theirs.broken], num_workers=num_workers)

    assert type(caught.value.__cause__) is LookupError


@pytest.mark.parametrize(
    "make", [pe.ParallelPyEnvironment, adapter.ParallelPyEnvironment]
)
def test_environments_of_suite_gym_run_in_workers(make: Callable[..., Any]) -> None:
    def constructor() -> Any:
        return suite_gym.load("CartPole-v1", max_episode_steps=5)

    with make([constructor] * 2, num_workers=1) as env:
        first = env.reset()
        types = [env.step(np.zeros(2, np.int64)).step_type[0] for _ in range(7)]

    assert first.observation.shape == (2, 4)
    assert first.observation.dtype == np.float32
    assert types == [1, 1, 1, 1, 2, 0, 1]


def test_a_single_environment_is_driven_by_our_driver() -> None:
    env = adapter.from_tf_agents(theirs.Theirs())
    steps: list[Any] = []

    pe.PyDriver(env, lambda _: np.int32(3), [steps.append], max_steps=6).run()

    assert [int(step.step_type) for step in steps] == [0, 1, 1, 2, 0, 1, 1]
    assert type(env.current_time_step()) is pe.TimeStep
    assert env.should_reset(env.current_time_step())
    assert env.wrapped_env().get_info() == env.get_info() == {"t": 3}
