"""The batch in this process, and what it has in common with that of processes."""

from __future__ import annotations

import numpy as np
from tf_agents.environments import (
    py_environment,
    random_py_environment,
    tf_py_environment,
)
from tf_agents.specs import array_spec as tf_array_spec
from tf_agents.trajectories import time_step as tf_time_step

from parallel_envs.adapters import tf_agents as adapter
from parallel_envs.testing import environments


def random_environment() -> random_py_environment.RandomPyEnvironment:
    return random_py_environment.RandomPyEnvironment(
        tf_array_spec.ArraySpec((3,), np.float32),
        tf_array_spec.BoundedArraySpec((), np.int32, 0, 1),
        seed=3,
    )


class Silent(py_environment.PyEnvironment):
    """Observes nothing, for which TF-Agents' own functions are an IndexError."""

    def observation_spec(self) -> object:
        return ()

    def action_spec(self) -> object:
        return tf_array_spec.BoundedArraySpec((), np.int32, 0, 1)

    def _reset(self) -> tf_time_step.TimeStep:
        return tf_time_step.TimeStep(np.int32(0), np.float32(0), np.float32(1), ())

    def _step(self, action: object) -> tf_time_step.TimeStep:
        return tf_time_step.TimeStep(np.int32(1), np.float32(1), np.float32(1), ())


def test_it_is_one_of_tf_agents() -> None:
    with adapter.BatchedPyEnvironment([environments.Counting()]) as env:
        time_step = env.reset()

        assert isinstance(env, py_environment.PyEnvironment)
        assert isinstance(time_step, tf_time_step.TimeStep)
        assert isinstance(env.action_spec(), tf_array_spec.BoundedArraySpec)


def test_its_environments_are_those_that_were_given() -> None:
    given = [random_environment(), random_environment()]

    with adapter.BatchedPyEnvironment(given) as env:
        assert [a is b for a, b in zip(env.envs, given, strict=True)] == [True, True]


def test_it_is_stepped_by_tensorflow() -> None:
    with adapter.BatchedPyEnvironment([random_environment()]) as env:
        tf_env = tf_py_environment.TFPyEnvironment(env)

        time_step = tf_env.step(np.zeros(1, np.int32))

    assert time_step.observation.shape == (1, 3)


def test_it_gives_what_the_batch_of_processes_gives() -> None:
    action = np.zeros(2, np.int64)
    with (
        adapter.BatchedPyEnvironment([environments.Counting() for _ in "ab"]) as here,
        adapter.ParallelPyEnvironment([environments.Counting] * 2) as there,
    ):
        steps = [(here.reset(), there.reset())]
        steps += [(here.step(action), there.step(action)) for _ in range(6)]

    for ours, theirs in steps:
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)


def test_actions_are_unstacked_by_rows() -> None:
    rows = adapter.unstack_actions({"a": np.arange(2), "b": np.ones((2, 3))})

    assert [row["a"] for row in rows] == [0, 1]
    assert rows[1]["b"].shape == (3,)


def test_an_environment_may_observe_nothing() -> None:
    with adapter.BatchedPyEnvironment([Silent(), Silent()]) as env:
        env.reset()

        time_step = env.step(np.zeros(2, np.int32))

    assert env.observation_spec() == time_step.observation == ()
    assert time_step.reward.tolist() == [1.0, 1.0]
