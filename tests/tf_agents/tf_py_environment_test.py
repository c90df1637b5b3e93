"""A batch of ours in `TFPyEnvironment`, in all of its modes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.environments import tf_environment, tf_py_environment, utils
from tf_agents.trajectories import time_step as tf_time_step

import parallel_envs as pe
from parallel_envs.adapters import tf_agents as adapter
from parallel_envs.testing import environments
from tests.tf_agents import scenes, ways

LENGTHS = (2, 3, 5)


@pytest.fixture(params=ways.WAYS)
def make(request: pytest.FixtureRequest) -> ways.Make:
    return ways.WAYS[request.param]


def expected_steps(count: int) -> list[Any]:
    """Returns what a batch in this process says at a reset and `count` steps."""
    with pe.BatchedPyEnvironment([new() for new in scenes.staggered(*LENGTHS)]) as env:
        actions = np.zeros(len(LENGTHS), np.int64)
        return [env.reset(), *(env.step(actions) for _ in range(count))]


def assert_same(found: Any, expected: Any) -> None:
    assert isinstance(found, tf_time_step.TimeStep)
    for tensor, array in zip(tf.nest.flatten(found), expected, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), array, strict=True)


@pytest.mark.parametrize("isolation", [False, True])
def test_eager_steps_are_those_of_the_batch(make: ways.Make, isolation: bool) -> None:
    with make(scenes.staggered(*LENGTHS)) as env:
        tf_env = tf_py_environment.TFPyEnvironment(env, isolation=isolation)

        found = [tf_env.reset()]
        found += [tf_env.step(tf.zeros(3, tf.int64)) for _ in range(8)]
        if isolation:
            tf_env._pool.terminate()  # Its own close() joins before it closes.

    for time_step, expected in zip(found, expected_steps(8), strict=True):
        assert_same(time_step, expected)


def test_steps_in_a_graph_are_those_of_the_batch_and_stay(make: ways.Make) -> None:
    with make(scenes.staggered(*LENGTHS)) as env:
        tf_env = tf_py_environment.TFPyEnvironment(env, check_dims=True)

        @tf.function
        def run() -> Any:
            time_step = tf_env.reset()
            steps = [time_step]
            for _ in range(4):
                with tf.control_dependencies(tf.nest.flatten(time_step)):
                    time_step = tf_env.step(tf.zeros(3, tf.int64))
                steps.append(time_step)
            return steps

        found = run()
        run()

    # The second run wrote into none of the tensors of the first.
    for time_step, expected in zip(found, expected_steps(4), strict=True):
        assert_same(time_step, expected)


def test_it_has_the_specs_and_the_size_of_the_batch(make: ways.Make) -> None:
    with make(scenes.staggered(*LENGTHS)) as env:
        tf_env = utils.get_tf_env(env)

        assert isinstance(tf_env, tf_environment.TFEnvironment)
        assert (tf_env.batched, tf_env.batch_size) == (True, 3)
        assert tf_env.pyenv is env
        assert tf_env.observation_spec() == tf.TensorSpec((3,), tf.int64, "observation")
        assert tf_env.action_spec().maximum == 9
        assert (tf_env.reward_spec().shape, tf_env.reward_spec().dtype) == (
            (),
            tf.float32,
        )


def test_a_single_environment_of_ours_makes_a_batch_of_one() -> None:
    env = adapter.to_tf_agents(environments.Counting(length=2))
    tf_env = tf_py_environment.TFPyEnvironment(env)

    tf_env.reset()
    steps = [tf_env.step(tf.zeros(1, tf.int64)) for _ in range(3)]

    assert tf_env.batch_size == 1
    assert [int(step.step_type[0]) for step in steps] == [1, 2, 0]
    assert steps[0].observation.shape == (1, 3)
    tf_env.close()


@pytest.mark.parametrize("is_graph", [False, True])
def test_nests_and_vector_rewards_go_both_ways(make: ways.Make, is_graph: bool) -> None:
    with make([functools.partial(scenes.Rich, index) for index in range(2)]) as env:
        tf_env = tf_py_environment.TFPyEnvironment(env)
        step = tf.function(tf_env.step) if is_graph else tf_env.step
        move = tf.constant([[0.25, 0], [-0.5, 0]])

        tf_env.reset()
        time_step = step({"move": move, "jump": tf.constant([True, False])})

    assert tf_env.reward_spec().shape == (2,)
    np.testing.assert_array_equal(time_step.reward, [[1, 0.25], [1, -0.5]])
    assert time_step.observation["cam"]["rgb"].dtype == tf.uint8
    assert time_step.observation["cam"]["rgb"].shape == (2, 5, 5, 3)
    np.testing.assert_array_equal(time_step.observation["joints"][1], [0, 1])


def test_pictures_are_tensors(make: ways.Make) -> None:
    constructor = functools.partial(environments.Image, height=4, width=6)
    with make([constructor] * 2) as env:
        tf_env = tf_py_environment.TFPyEnvironment(env)
        tf_env.reset()
        tf_env.step(tf.zeros(2, tf.int64))

        picture = tf_env.render()

    assert (picture.dtype, picture.shape) == (tf.uint8, (2, 4, 6, 3))
    assert np.all(picture.numpy() == 1)


@pytest.mark.parametrize("is_graph", [False, True])
def test_an_error_in_a_row_comes_through_with_row_and_text(
    make: ways.Make, is_graph: bool
) -> None:
    with make([environments.Counting, environments.RaisingInStep]) as env:
        tf_env = tf_py_environment.TFPyEnvironment(env)
        step = tf.function(tf_env.step) if is_graph else tf_env.step
        tf_env.reset()

        # TensorFlow has an exception of its own for what NumPy functions raise.
        message = r"environment 1 raised ValueError\('bad state 0'\)"
        with pytest.raises(Exception, match=message):
            step(tf.zeros(2, tf.int64))

        first = tf_env.reset()
    np.testing.assert_array_equal(first.step_type, [0, 0])


def test_a_wrong_number_of_actions_is_refused_before_anything_moves(
    make: ways.Make,
) -> None:
    with make(scenes.staggered(*LENGTHS)) as env:
        tf_env = tf_py_environment.TFPyEnvironment(env)
        tf_env.reset()

        with pytest.raises(Exception, match=r"action: expected .*\(3,\).*\(2,\)"):
            tf_env.step(tf.zeros(2, tf.int64))

        time_step = tf_env.step(tf.zeros(3, tf.int64))
    np.testing.assert_array_equal(time_step.observation[:, 2], [1, 1, 1])


def test_a_killed_worker_is_repaired_within_a_graph(make: ways.Make) -> None:
    dying = functools.partial(environments.Dying, at=3, length=9)
    with make([environments.Endless, dying], max_restarts=1) as env:
        tf_env = tf_py_environment.TFPyEnvironment(env)
        step = tf.function(tf_env.step)

        tf_env.reset()
        types = [step(tf.zeros(2, tf.int64)).step_type.numpy() for _ in range(5)]

        assert len(env.failures) == 1
    np.testing.assert_array_equal(
        np.transpose(types), [[1, 1, 1, 1, 1], [1, 1, 2, 0, 1]]
    )
