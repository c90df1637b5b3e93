"""TF-Agents' drivers, metrics and replay buffers over a batch of ours."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.drivers import (
    dynamic_episode_driver,
    dynamic_step_driver,
    py_driver,
    tf_driver,
)
from tf_agents.environments import tf_py_environment, utils
from tf_agents.metrics import batched_py_metric, py_metrics, tf_metrics
from tf_agents.policies import py_tf_eager_policy, random_py_policy, random_tf_policy
from tf_agents.replay_buffers import py_uniform_replay_buffer, tf_uniform_replay_buffer
from tf_agents.trajectories import trajectory as tf_trajectory

from parallel_envs.adapters import tf_agents as adapter
from parallel_envs.testing import environments
from tests.tf_agents import scenes, ways

LENGTHS = (2, 3, 5)


@pytest.fixture(params=ways.WAYS)
def make(request: pytest.FixtureRequest) -> ways.Make:
    return ways.WAYS[request.param]


def types_of(trajectories: list[Any]) -> list[list[int]]:
    """Returns for each row its step types in order."""
    return np.transpose([np.asarray(t.step_type) for t in trajectories]).tolist()


# What rows with episodes of 2, 3 and 5 steps say in seven calls.
TYPES = [
    [0, 1, 2, 0, 1, 2, 0],
    [0, 1, 1, 2, 0, 1, 1],
    [0, 1, 1, 1, 1, 2, 0],
]


def random_py(env: Any) -> Any:
    return random_py_policy.RandomPyPolicy(
        env.time_step_spec(), env.action_spec(), seed=1
    )


def greedy(env: Any) -> Any:
    return py_tf_eager_policy.PyTFEagerPolicy(
        ways.q_network_policy(env), use_tf_function=True, batch_time_steps=False
    )


def random_tf(env: Any) -> Any:
    tf_env = tf_py_environment.TFPyEnvironment(env)
    return py_tf_eager_policy.PyTFEagerPolicy(
        random_tf_policy.RandomTFPolicy(tf_env.time_step_spec(), tf_env.action_spec()),
        batch_time_steps=False,
    )


@pytest.mark.parametrize("policy_of", [random_py, greedy, random_tf])
def test_py_driver_steps_the_batch(make: ways.Make, policy_of: Any) -> None:
    trajectories: list[Any] = []
    transitions: list[Any] = []
    infos: list[Any] = []
    with make(scenes.walks(*LENGTHS)) as env:
        driver = py_driver.PyDriver(
            env,
            policy_of(env),
            [trajectories.append],
            [transitions.append],
            [infos.append],
            max_steps=17,
        )

        time_step, state = driver.run(env.reset())

    assert types_of(trajectories) == TYPES
    assert len(transitions) == len(infos) == 7
    assert isinstance(trajectories[0], tf_trajectory.Trajectory)
    np.testing.assert_array_equal(infos[-1]["t"], time_step.observation[:, 2])
    assert state == ()


def test_dynamic_step_driver_fills_a_replay_buffer_in_a_graph(make: ways.Make) -> None:
    with make(scenes.walks(*LENGTHS)) as env:
        tf_env = tf_py_environment.TFPyEnvironment(env)
        policy = ways.q_network_policy(env)
        buffer = tf_uniform_replay_buffer.TFUniformReplayBuffer(
            policy.collect_data_spec, batch_size=3, max_length=100
        )
        driver = dynamic_step_driver.DynamicStepDriver(
            tf_env, policy, [buffer.add_batch], num_steps=17
        )

        tf.function(driver.run)()

    stored = buffer.gather_all()
    assert stored.step_type.numpy().tolist() == TYPES
    # Rows hold what their own environments said.
    np.testing.assert_array_equal(
        stored.observation[:, :, 0], np.repeat([[0], [1], [2]], 7, axis=1)
    )
    assert stored.reward.numpy()[0].tolist() == [1, 2, 0, 1, 2, 0, 1]


def test_a_replay_buffer_gives_batches_of_sequences(make: ways.Make) -> None:
    with make(scenes.walks(*LENGTHS)) as env:
        tf_env = tf_py_environment.TFPyEnvironment(env)
        policy = random_tf_policy.RandomTFPolicy(
            tf_env.time_step_spec(), tf_env.action_spec()
        )
        buffer = tf_uniform_replay_buffer.TFUniformReplayBuffer(
            policy.collect_data_spec, batch_size=3, max_length=100
        )
        dynamic_step_driver.DynamicStepDriver(
            tf_env, policy, [buffer.add_batch], num_steps=20
        ).run()

    dataset = buffer.as_dataset(sample_batch_size=4, num_steps=2)
    sample, _ = next(iter(dataset))

    assert sample.observation.shape == (4, 2, 3)
    np.testing.assert_array_equal(sample.next_step_type[:, 0], sample.step_type[:, 1])


def test_dynamic_episode_driver_counts_episodes_of_all_rows(make: ways.Make) -> None:
    metrics = [
        tf_metrics.NumberOfEpisodes(),
        tf_metrics.EnvironmentSteps(),
        tf_metrics.AverageReturnMetric(batch_size=3, buffer_size=4),
        tf_metrics.AverageEpisodeLengthMetric(batch_size=3, buffer_size=4),
    ]
    with make(scenes.walks(*LENGTHS)) as env:
        tf_env = tf_py_environment.TFPyEnvironment(env)
        driver = dynamic_episode_driver.DynamicEpisodeDriver(
            tf_env, ways.q_network_policy(env), metrics, num_episodes=4
        )

        driver.run()

    # Episodes end after calls 2, 3, 5 and 5; a driver counts them at their boundaries.
    values = [float(metric.result()) for metric in metrics]
    assert values == [4, 14, (3 + 6 + 3 + 15) / 4, (2 + 3 + 2 + 5) / 4]


def test_tf_driver_goes_on_where_it_ended(make: ways.Make) -> None:
    trajectories: list[Any] = []
    with make(scenes.walks(*LENGTHS)) as env:
        tf_env = tf_py_environment.TFPyEnvironment(env)
        driver = tf_driver.TFDriver(
            tf_env,
            ways.q_network_policy(env),
            [trajectories.append],
            max_steps=8,
            disable_tf_function=True,  # A list is no observer for a graph.
        )

        state = driver.run(tf_env.reset())
        driver.run(*state)

    assert types_of(trajectories) == TYPES


def test_a_killed_worker_ends_an_episode_within_the_graph_of_a_tf_driver(
    make: ways.Make,
) -> None:
    dying = functools.partial(environments.Dying, 1, at=3, length=9)
    with make([environments.Endless, dying], max_restarts=1) as env:
        tf_env = tf_py_environment.TFPyEnvironment(env)
        policy = random_tf_policy.RandomTFPolicy(
            tf_env.time_step_spec(), tf_env.action_spec()
        )
        buffer = tf_uniform_replay_buffer.TFUniformReplayBuffer(
            policy.collect_data_spec, batch_size=2, max_length=10
        )
        driver = tf_driver.TFDriver(tf_env, policy, [buffer.add_batch], max_steps=9)

        driver.run(tf_env.reset())

        (failure,) = env.failures
    stored = buffer.gather_all()
    assert failure.index == 1
    assert stored.step_type.numpy().tolist() == [[0, 1, 1, 1, 1], [0, 1, 1, 2, 0]]
    # The step in which it was killed: a truncation, without a reward.
    assert stored.next_step_type.numpy()[:, 2].tolist() == [1, 2]
    assert stored.reward.numpy()[:, 2].tolist() == [3, 0]
    assert stored.discount.numpy()[:, 2].tolist() == [1, 1]


def test_metrics_in_python_measure_rows_one_by_one(make: ways.Make) -> None:
    returns = batched_py_metric.BatchedPyMetric(
        py_metrics.AverageReturnMetric, batch_size=3
    )
    episodes = py_metrics.NumberOfEpisodes()
    steps = py_metrics.EnvironmentSteps()
    with make(scenes.walks(*LENGTHS)) as env:
        driver = py_driver.PyDriver(
            env, random_py(env), [returns, episodes, steps], max_episodes=4
        )

        driver.run(env.reset())

    assert (episodes.result(), steps.result()) == (4, 14)
    assert returns.result() == (3 + 6 + 15) / 3


def test_py_uniform_replay_buffer_takes_a_single_row() -> None:
    env = adapter.to_tf_agents(scenes.Walk(length=3))
    policy = random_py(env)
    buffer = py_uniform_replay_buffer.PyUniformReplayBuffer(
        policy.collect_data_spec, capacity=100
    )

    def add(step: Any) -> None:
        buffer.add_batch(
            tf.nest.map_structure(lambda leaf: np.asarray(leaf)[None], step)
        )

    py_driver.PyDriver(env, policy, [add], max_steps=6).run(env.reset())

    assert buffer.size == 7
    sample = next(iter(buffer.as_dataset(sample_batch_size=2, num_steps=2)))
    assert sample.observation.shape == (2, 2, 3)
    env.close()


def test_py_uniform_replay_buffer_takes_a_batch_of_one(make: ways.Make) -> None:
    with make(scenes.walks(3)) as env:
        policy = random_py(env)
        buffer = py_uniform_replay_buffer.PyUniformReplayBuffer(
            policy.collect_data_spec, capacity=100
        )
        driver = py_driver.PyDriver(env, policy, [buffer.add_batch], max_steps=6)

        driver.run(env.reset())

    assert buffer.size == 7
    stored = buffer.gather_all()
    assert stored.step_type[0, :7].tolist() == [0, 1, 1, 2, 0, 1, 1]


def test_nested_rows_are_stored(make: ways.Make) -> None:
    with make([scenes.Rich] * 2) as env:
        tf_env = tf_py_environment.TFPyEnvironment(env)
        # TF-Agents draws no booleans.
        policy = adapter.to_tf_agents_policy(
            lambda time_step: {
                "move": np.full((2, 2), 0.5, np.float32),
                "jump": np.array([True, False]),
            },
            env,
        )
        spec = tf_trajectory.from_transition(
            tf_env.time_step_spec(),
            policy.policy_step_spec._replace(action=tf_env.action_spec()),
            tf_env.time_step_spec(),
        )
        buffer = tf_uniform_replay_buffer.TFUniformReplayBuffer(
            spec, batch_size=2, max_length=10
        )
        driver = py_driver.PyDriver(env, policy, [buffer.add_batch], max_steps=4)

        driver.run(env.reset())

    stored = buffer.gather_all()
    assert stored.reward.numpy().tolist() == [[[1, 0.5], [2, 0.5]]] * 2
    assert stored.observation["cam"]["rgb"].shape == (2, 2, 5, 5, 3)
    assert stored.action["jump"].numpy().tolist() == [[True, True], [False, False]]


def test_validation_of_tf_agents_passes(make: ways.Make) -> None:
    with make(scenes.walks(*LENGTHS)) as env:
        utils.validate_py_environment(env, episodes=2)
