"""One environment in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Generator

import numpy as np
import pytest
from tf_agents.trajectories import time_step as tf_time_step

import parallel_envs as pe
from parallel_envs.adapters import tf_agents as adapter
from parallel_envs.testing import environments


@pytest.fixture
def env() -> Generator[adapter.ProcessPyEnvironment, None, None]:
    started = adapter.ProcessPyEnvironment(environments.Counting)
    started.start()
    yield started
    started.close()


def fails() -> None:
    raise KeyError("no licence")


def test_it_is_stepped_alone(env: adapter.ProcessPyEnvironment) -> None:
    first = env.reset()

    promise = env.step(np.int64(0), blocking=False)

    assert isinstance(first, tf_time_step.TimeStep)
    assert np.shape(first.reward) == ()
    assert promise().reward == 1.0


def test_it_tells_the_specs_of_tf_agents(env: adapter.ProcessPyEnvironment) -> None:
    spec = env.time_step_spec()

    assert isinstance(spec, tf_time_step.TimeStep)
    assert spec.observation == env.observation_spec()
    assert spec.reward == env.reward_spec()
    assert spec.discount == env.discount_spec()
    assert env.action_spec() == adapter.to_tf_agents_spec(
        environments.Counting().action_spec()
    )


def test_its_attributes_and_methods_are_those_of_the_environment(
    env: adapter.ProcessPyEnvironment,
) -> None:
    env.reset()

    assert env.access("batched") is False
    assert env.batched is False
    assert env.call("current_time_step")().is_first()
    assert env.current_time_step().is_first()
    with pytest.raises(AttributeError, match="has no attribute '_nothing'"):
        _ = env._nothing


def test_it_starts_in_the_background() -> None:
    env = adapter.ProcessPyEnvironment(lambda: environments.Counting())
    env.start(wait_to_start=False)

    env.wait_start()

    assert env.reset().is_first()
    env.close()


def test_what_a_constructor_raises_comes_from_where_it_is_waited_for() -> None:
    env = adapter.ProcessPyEnvironment(fails)

    with pytest.raises(pe.WorkerError, match="no licence"):
        env.start()
    env.start(wait_to_start=False)  # It was not started, so may be again.
    with pytest.raises(pe.WorkerError, match="no licence"):
        env.wait_start()

    env.close()


def test_before_the_start_it_says_what_to_do() -> None:
    env = adapter.ProcessPyEnvironment(environments.Counting)

    with pytest.raises(RuntimeError, match=r"was not started: call start\(\) first"):
        env.reset()
    env.close()


def test_a_second_start_is_refused(env: adapter.ProcessPyEnvironment) -> None:
    with pytest.raises(RuntimeError, match="was started before"):
        env.start()


def test_its_process_ends_with_it(env: adapter.ProcessPyEnvironment) -> None:
    pid = env._started().worker_pids[0]

    env.close()
    env.close()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"expected a callable .*, got the non-callable"
    ):
        adapter.ProcessPyEnvironment(environments.Counting())
