"""Policies of the one library in the drivers of the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.drivers import dynamic_step_driver, py_driver
from tf_agents.environments import tf_py_environment
from tf_agents.networks import actor_distribution_rnn_network, q_rnn_network
from tf_agents.policies import (
    actor_policy,
    greedy_policy,
    py_policy,
    q_policy,
    random_py_policy,
    random_tf_policy,
    tf_py_policy,
)
from tf_agents.specs import array_spec, tensor_spec
from tf_agents.trajectories import policy_step

import parallel_envs as pe
from parallel_envs.adapters import tf_agents as adapter
from tests.tf_agents import scenes

LENGTHS = (2, 3, 5)
Pair = tuple[Any, Any]


@pytest.fixture(scope="module", params=[None, LENGTHS], ids=["single", "batch"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Yields an environment of ours, and the same as one of TF-Agents."""
    if request.param is None:
        env = scenes.Walk(length=4)
        yield env, adapter.to_tf_agents(env)
        return
    with pe.ParallelPyEnvironment(scenes.walks(*request.param)) as env:
        yield env, adapter.to_tf_agents(env)


def tensor_specs(env: Any) -> tuple[Any, Any]:
    return tuple(
        tensor_spec.from_spec(spec)
        for spec in (env.time_step_spec(), env.action_spec())
    )


def recurrent_q(env: Any) -> Any:
    time_step_spec, action_spec = tensor_specs(env)
    network = q_rnn_network.QRnnNetwork(
        time_step_spec.observation,
        action_spec,
        input_fc_layer_params=(4,),
        lstm_size=(3,),
        output_fc_layer_params=(4,),
    )
    policy = q_policy.QPolicy(time_step_spec, action_spec, q_network=network)
    return greedy_policy.GreedyPolicy(policy)


def recurrent_actor(env: Any) -> Any:
    time_step_spec, action_spec = tensor_specs(env)
    network = actor_distribution_rnn_network.ActorDistributionRnnNetwork(
        time_step_spec.observation,
        action_spec,
        input_fc_layer_params=(4,),
        lstm_size=(3,),
        output_fc_layer_params=(4,),
    )
    policy = actor_policy.ActorPolicy(
        time_step_spec, action_spec, actor_network=network, training=False
    )
    return greedy_policy.GreedyPolicy(policy)


def seen(driver_of: Any, env: Any, policy: Any) -> list[Any]:
    """Returns what a driver tells of ten steps, from a reset on."""
    steps: list[Any] = []
    env.seed([0] * env.batch_size if env.batched else 0)
    driver = driver_of(env, policy, [steps.append], max_steps=10)
    driver.run(env.reset(), policy.get_initial_state(env.batch_size or 1))
    return steps


def told(steps: list[Any]) -> list[Any]:
    return [
        [np.asarray(leaf).tolist() for leaf in (step.step_type, step.action)]
        for step in steps
    ]


@pytest.mark.parametrize("policy_of", [recurrent_q, recurrent_actor])
def test_a_policy_with_state_answers_as_in_tf_agents(
    pair: Pair, policy_of: Any
) -> None:
    ours, theirs = pair
    policy = policy_of(theirs)
    adapted = adapter.from_tf_agents_policy(policy)
    none = np.zeros(np.shape(ours.reset().step_type), np.int32)
    state = policy.get_initial_state(theirs.batch_size or 1)
    own_state = adapted.get_initial_state(ours.batch_size)

    for _ in range(6):
        time_step = ours.step(none)
        rows = tf.nest.map_structure(
            lambda leaf: tf.constant(leaf if ours.batched else leaf[None]), time_step
        )
        expected = policy.action(rows, state)
        found = adapted.action(time_step, own_state)
        state, own_state = expected.state, found.state

        assert isinstance(found.action, np.ndarray)
        assert found.action.shape == none.shape
        np.testing.assert_array_equal(np.atleast_1d(found.action), expected.action)
        for one, other in zip(
            tf.nest.flatten(own_state), tf.nest.flatten(state), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("policy_of", [recurrent_q, recurrent_actor])
def test_a_policy_with_state_is_driven_alike_by_both_drivers(
    pair: Pair, policy_of: Any
) -> None:
    ours, theirs = pair
    policy = adapter.from_tf_agents_policy(policy_of(theirs))

    by_ours = seen(pe.PyDriver, ours, policy)
    by_theirs = seen(py_driver.PyDriver, theirs, policy)

    assert told(by_ours) == told(by_theirs)


def test_infos_are_arrays(pair: Pair) -> None:
    ours, theirs = pair
    policy = random_tf_policy.RandomTFPolicy(
        *tensor_specs(theirs), emit_log_probability=True
    )

    steps = seen(pe.PyDriver, ours, adapter.from_tf_agents_policy(policy))

    for step in steps:
        log_probability = step.policy_info.log_probability
        assert isinstance(log_probability, np.ndarray)
        assert log_probability.shape == np.shape(step.step_type)
        np.testing.assert_allclose(log_probability, np.log(0.5), rtol=1e-5)


def test_specs_of_policies_are_converted(pair: Pair) -> None:
    ours, theirs = pair
    policy = adapter.from_tf_agents_policy(recurrent_q(theirs))

    assert policy.time_step_spec == ours.time_step_spec()
    assert policy.action_spec == ours.action_spec()
    assert all(isinstance(leaf, pe.ArraySpec) for leaf in policy.policy_state_spec)
    back = adapter.to_tf_agents_policy(pe.RandomPyPolicy(*specs_of(ours), seed=0))
    assert isinstance(back, py_policy.PyPolicy)
    assert back.action_spec == theirs.action_spec()
    assert isinstance(back.trajectory_spec.observation, array_spec.ArraySpec)


def specs_of(env: Any) -> tuple[Any, Any]:
    return env.time_step_spec(), env.action_spec()


def test_there_and_back_is_the_same_policy(pair: Pair) -> None:
    ours = pe.RandomPyPolicy(*specs_of(pair[0]))
    theirs = random_py_policy.RandomPyPolicy(*specs_of(pair[1]))

    assert adapter.from_tf_agents_policy(adapter.to_tf_agents_policy(ours)) is ours
    assert adapter.to_tf_agents_policy(adapter.from_tf_agents_policy(theirs)) is theirs


def test_random_policies_of_ours_drive_alike_in_both(pair: Pair) -> None:
    ours, theirs = pair

    by_ours = seen(pe.PyDriver, ours, pe.RandomPyPolicy(*specs_of(ours), seed=2))
    policy = adapter.to_tf_agents_policy(pe.RandomPyPolicy(*specs_of(ours), seed=2))
    by_theirs = seen(py_driver.PyDriver, theirs, policy)

    assert told(by_ours) == told(by_theirs)
    assert len({str(step.action) for step in by_ours}) > 1


class Seeded(py_policy.PyPolicy):
    """Answers with the seed that it is given."""

    def _action(self, time_step: Any, policy_state: Any, seed: Any = None) -> Any:
        return policy_step.PolicyStep(np.full(np.shape(time_step.step_type), seed))


def test_seeds_reach_the_policy(pair: Pair) -> None:
    ours, theirs = pair
    for_us = adapter.from_tf_agents_policy(Seeded(*specs_of(theirs)))
    wide = pe.BoundedArraySpec((), np.int64, 0, 2**40)
    for_them = adapter.to_tf_agents_policy(
        pe.RandomPyPolicy(ours.time_step_spec(), wide)
    )
    time_step = ours.reset()

    told = for_us.action(time_step, (), seed=5).action
    drawn = [
        for_them.action(theirs.current_time_step(), (), seed=seed).action
        for seed in (5, 5, 6)
    ]

    assert np.all(told == 5)
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.all(drawn[0] != drawn[2])


def test_a_mask_forbids_actions_both_ways() -> None:
    def splitter(observation: Any) -> Any:
        return observation["seen"], observation["mask"]

    with pe.ParallelPyEnvironment([scenes.Masked] * 3) as env:
        theirs = adapter.to_tf_agents(env)
        for steps in (
            seen(
                pe.PyDriver,
                env,
                adapter.from_tf_agents_policy(
                    random_py_policy.RandomPyPolicy(
                        *specs_of(theirs),
                        observation_and_action_constraint_splitter=splitter,
                    )
                ),
            ),
            seen(
                py_driver.PyDriver,
                theirs,
                adapter.to_tf_agents_policy(
                    pe.RandomPyPolicy(
                        *specs_of(env),
                        observation_and_action_constraint_splitter=splitter,
                    )
                ),
            ),
        ):
            for step in steps:
                assert isinstance(step.action, np.ndarray)
                assert np.all(
                    np.take_along_axis(
                        step.observation["mask"], step.action[:, None], axis=1
                    )
                )


class Alternating(pe.PyPolicy):
    """Does 0 and 1 in turn, by a state of its own for each row; tells the state."""

    def __init__(self, env: Any) -> None:
        spec = pe.ArraySpec((), np.int32, "count")
        super().__init__(*specs_of(env), policy_state_spec=spec, info_spec=spec)

    def _action(
        self, time_step: pe.TimeStep, policy_state: Any, seed: int | None = None
    ) -> pe.PolicyStep:
        state = np.asarray(policy_state, np.int32)
        return pe.PolicyStep(state % 2, state + np.int32(1), state)


def test_our_policy_is_driven_by_tf_agents_in_a_graph() -> None:
    steps: list[Any] = []
    with pe.ParallelPyEnvironment(scenes.walks(*LENGTHS)) as env:
        tf_env = tf_py_environment.TFPyEnvironment(adapter.to_tf_agents(env))
        policy = tf_py_policy.TFPyPolicy(
            adapter.to_tf_agents_policy(Alternating(env)), py_policy_is_batched=True
        )
        driver = dynamic_step_driver.DynamicStepDriver(
            tf_env, policy, [observer(steps)], num_steps=9
        )

        _, state = driver.run()

    counts = np.array(steps)
    assert counts[:, 0].tolist() == list(range(len(steps)))
    assert state.numpy().tolist() == [len(steps)] * 3


def observer(steps: list[Any]) -> Any:
    def observe(trajectory: Any) -> Any:
        return tf.numpy_function(steps.append, [trajectory.policy_info], [])

    return observe


@pytest.mark.parametrize("function", ["from_tf_agents_policy", "to_tf_agents_policy"])
def test_what_is_no_policy_is_refused(function: str) -> None:
    with pytest.raises(TypeError, match=r"policy: expected .*got 3"):
        getattr(adapter, function)(3)


def test_specs_of_the_other_library_are_refused_by_name(pair: Pair) -> None:
    message = "action_spec: expected an ArraySpec, got tf_agents.specs.array_spec.Bound"

    with pytest.raises(TypeError, match=re.escape(message)):
        pe.RandomPyPolicy(*specs_of(pair[1]))


def test_a_bare_function_takes_its_specs_from_an_environment_of_either(
    pair: Pair,
) -> None:
    for env in pair:
        policy = adapter.to_tf_agents_policy(
            lambda time_step: np.ones(np.shape(time_step.step_type), np.int32), env
        )

        assert policy.action_spec == pair[1].action_spec()
        steps = seen(py_driver.PyDriver, pair[1], policy)
        assert np.all([step.action for step in steps])
