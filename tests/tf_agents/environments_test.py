"""Environments of the one library as those of the other."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from tf_agents.environments import py_environment, random_py_environment
from tf_agents.specs import array_spec as tf_array_spec
from tf_agents.trajectories import time_step as tf_time_step

import parallel_envs as pe
from parallel_envs.adapters import tf_agents as adapter
from parallel_envs.testing import environments


def test_our_environment_is_one_of_tf_agents() -> None:
    env = adapter.to_tf_agents(environments.Counting())

    time_step = env.reset()

    assert isinstance(env, py_environment.PyEnvironment)
    assert isinstance(time_step, tf_time_step.TimeStep)
    assert isinstance(env.time_step_spec(), tf_time_step.TimeStep)
    assert isinstance(env.action_spec(), tf_array_spec.BoundedArraySpec)


def test_there_and_back_is_the_same_object() -> None:
    ours = environments.Counting()
    theirs = random_py_environment.RandomPyEnvironment(
        tf_array_spec.ArraySpec((3,), np.float32),
        tf_array_spec.BoundedArraySpec((), np.int32, 0, 1),
    )

    assert adapter.from_tf_agents(adapter.to_tf_agents(ours)) is ours
    assert adapter.to_tf_agents(adapter.from_tf_agents(theirs)) is theirs


def test_a_batch_of_views_is_copied_from() -> None:
    batch = pe.ParallelPyEnvironment([environments.Counting] * 2, copy=False)
    with adapter.to_tf_agents(batch) as env:
        first = env.reset()

        kept = first.observation.copy()
        for _ in range(8):
            env.step(np.zeros(2, np.int64))

    np.testing.assert_array_equal(first.observation, kept)


@pytest.mark.parametrize("function", ["to_tf_agents", "from_tf_agents"])
def test_what_is_no_environment_is_refused(function: str) -> None:
    with pytest.raises(TypeError, match=r"expected a PyEnvironment.*, got 3"):
        getattr(adapter, function)(3)


def test_a_batch_of_both_libraries_gets_our_specs_and_steps() -> None:
    with adapter.ParallelPyEnvironment([environments.Counting] * 2) as both:
        env = adapter.from_tf_agents(both)

        pe.validate_py_environment(env, episodes=1)

        assert isinstance(env.action_spec(), pe.ArraySpec)
        assert type(env.reset()) is pe.TimeStep


class TwoDiscounts(random_py_environment.RandomPyEnvironment):
    """Says of its discount what TF-Agents' own `time_step_spec` leaves out."""

    def __init__(self) -> None:
        super().__init__(
            tf_array_spec.ArraySpec((2,), np.float32),
            tf_array_spec.BoundedArraySpec((), np.int32, 0, 1),
        )

    def discount_spec(self) -> tf_array_spec.BoundedArraySpec:
        return tf_array_spec.BoundedArraySpec((2,), np.float32, 0.0, 1.0, "two")

    def _reset(self) -> tf_time_step.TimeStep:
        return super()._reset()._replace(discount=np.ones(2, np.float32))


def test_the_discount_spec_of_an_environment_counts() -> None:
    env = adapter.from_tf_agents(TwoDiscounts())
    with adapter.BatchedPyEnvironment([TwoDiscounts(), TwoDiscounts()]) as batch:
        time_step = batch.reset()

    assert env.discount_spec().shape == (2,)
    assert env.time_step_spec().discount == env.discount_spec()
    np.testing.assert_array_equal(time_step.discount, np.ones((2, 2)))


def test_an_environment_of_gymnasium_is_adapted_on_the_way() -> None:
    with adapter.to_tf_agents(gymnasium.make("CartPole-v1")) as env:
        assert env.reset().observation.shape == (4,)
