"""TF-Agents' training loop, saved policies and evaluation over a batch of ours."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.agents.dqn import dqn_agent
from tf_agents.drivers import py_driver
from tf_agents.environments import tf_py_environment
from tf_agents.eval import metric_utils
from tf_agents.metrics import py_metrics, tf_metrics
from tf_agents.networks import q_network
from tf_agents.policies import policy_saver, py_tf_eager_policy, random_py_policy
from tf_agents.replay_buffers import tf_uniform_replay_buffer
from tf_agents.specs import tensor_spec
from tf_agents.train import actor, learner
from tf_agents.train.utils import train_utils
from tf_agents.trajectories import time_step as tf_time_step

import parallel_envs as pe
from parallel_envs.adapters import tf_agents as adapter
from tests.tf_agents import scenes, ways

LENGTHS = (2, 3, 5)


@pytest.fixture(params=ways.WAYS)
def make(request: pytest.FixtureRequest) -> ways.Make:
    return ways.WAYS[request.param]


def small_agent(env: Any, train_step: tf.Variable) -> Any:
    time_step_spec = tensor_spec.from_spec(env.time_step_spec())
    action_spec = tensor_spec.from_spec(env.action_spec())
    agent = dqn_agent.DqnAgent(
        time_step_spec,
        action_spec,
        q_network=q_network.QNetwork(
            time_step_spec.observation, action_spec, fc_layer_params=(8,)
        ),
        optimizer=tf.keras.optimizers.Adam(1e-2),
        train_step_counter=train_step,
    )
    agent.initialize()
    return agent


def test_an_actor_collects_what_a_learner_learns_from(
    make: ways.Make, tmp_path: pathlib.Path
) -> None:
    train_step = train_utils.create_train_step()
    with make(scenes.walks(*LENGTHS)) as env:
        agent = small_agent(env, train_step)
        buffer = tf_uniform_replay_buffer.TFUniformReplayBuffer(
            agent.collect_data_spec, batch_size=3, max_length=100
        )
        collector = actor.Actor(
            env,
            py_tf_eager_policy.PyTFEagerPolicy(
                agent.collect_policy, use_tf_function=True, batch_time_steps=False
            ),
            train_step,
            steps_per_run=20,
            observers=[buffer.add_batch],
            metrics=actor.collect_metrics(buffer_size=10),
            summary_dir=str(tmp_path),
        )
        trainer = learner.Learner(
            str(tmp_path),
            train_step,
            agent,
            lambda: buffer.as_dataset(sample_batch_size=8, num_steps=2),
        )

        collector.run_and_log()
        before = [variable.numpy() for variable in agent.policy.variables()]
        loss = trainer.run(iterations=5)
        collector.run()

    after = [variable.numpy() for variable in agent.policy.variables()]
    assert int(train_step) == 5
    assert np.isfinite(loss.loss.numpy())
    assert not all(map(np.array_equal, before, after))
    found = {metric.name: float(metric.result()) for metric in collector.metrics}
    # Of 18 calls; rows end every 3, 4 and 6 of them, and a boundary counts no step.
    assert found["NumberOfEpisodes"] == 6 + 4 + 3
    assert found["EnvironmentSteps"] == 18 * 3 - (6 + 4 + 3)
    assert int(buffer.num_frames()) == 18 * 3


def test_a_saved_policy_drives_the_batch(
    make: ways.Make, tmp_path: pathlib.Path
) -> None:
    trajectories: list[Any] = []
    with make(scenes.walks(*LENGTHS)) as env:
        agent = small_agent(env, train_utils.create_train_step())
        policy_saver.PolicySaver(agent.policy, batch_size=None).save(str(tmp_path))
        loaded = py_tf_eager_policy.SavedModelPyTFEagerPolicy(
            str(tmp_path),
            env.time_step_spec(),
            env.action_spec(),
            batch_time_steps=False,
        )

        py_driver.PyDriver(env, loaded, [trajectories.append], max_steps=9).run(
            env.reset()
        )

        for trajectory in trajectories:
            time_step = tf_time_step.restart(
                tf.constant(trajectory.observation), batch_size=3
            )
            expected = agent.policy.action(time_step).action
            np.testing.assert_array_equal(trajectory.action, expected)
    assert len(trajectories) >= 3


def test_a_saved_policy_drives_a_batch_by_our_driver(tmp_path: pathlib.Path) -> None:
    trajectories: list[Any] = []
    with pe.ParallelPyEnvironment(scenes.walks(*LENGTHS)) as env:
        theirs = adapter.to_tf_agents(env)
        agent = small_agent(theirs, train_utils.create_train_step())
        policy_saver.PolicySaver(agent.policy, batch_size=None).save(str(tmp_path))
        loaded = py_tf_eager_policy.SavedModelPyTFEagerPolicy(
            str(tmp_path),
            theirs.time_step_spec(),
            theirs.action_spec(),
        )
        policy = adapter.from_tf_agents_policy(loaded)

        pe.PyDriver(env, policy, [trajectories.append], max_steps=9).run()
        single = pe.specs.zeros(env.time_step_spec())
        answer = policy.action(single)

    assert isinstance(trajectories[0].action, np.ndarray)
    assert trajectories[0].action.shape == (3,)
    assert answer.action.shape == ()


def test_evaluation_in_graphs_and_in_python_agree(make: ways.Make) -> None:
    with make(scenes.walks(*LENGTHS)) as env:
        tf_env = tf_py_environment.TFPyEnvironment(env)

        in_graph = metric_utils.eager_compute(
            [
                tf_metrics.AverageReturnMetric(batch_size=3),
                tf_metrics.AverageEpisodeLengthMetric(batch_size=3),
            ],
            tf_env,
            ways.q_network_policy(env),
            num_episodes=4,
        )
        in_python = metric_utils.compute(
            [
                py_metrics.AverageReturnMetric(batch_size=3),
                py_metrics.AverageEpisodeLengthMetric(batch_size=3),
            ],
            env,
            random_py_policy.RandomPyPolicy(env.time_step_spec(), env.action_spec()),
            num_episodes=4,
        )

    expected = {"AverageReturn": 27 / 4, "AverageEpisodeLength": 12 / 4}
    assert {name: float(value) for name, value in in_graph.items()} == expected
    assert {name: float(value) for name, value in in_python.items()} == expected
