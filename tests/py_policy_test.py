from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallel_envs import py_policy, random_py_policy, trajectory
from parallel_envs import time_step as ts
from parallel_envs.specs import array_spec
from parallel_envs.testing import environments
from parallel_envs.trajectory import PolicyStep

STATE_SPEC = {"h": array_spec.ArraySpec((2,), np.float32)}


class Remembering(py_policy.PyPolicy):
    """Answers with what it was asked."""

    def __init__(self) -> None:
        env = environments.Counting()
        super().__init__(
            env.time_step_spec(),
            env.action_spec(),
            policy_state_spec=STATE_SPEC,
            info_spec=array_spec.ArraySpec((), np.float64),
        )

    def _action(
        self, time_step: ts.TimeStep, policy_state: Any, seed: int | None = None
    ) -> PolicyStep:
        return PolicyStep(time_step.observation, policy_state, seed)


def test_action_hands_state_and_seed_on() -> None:
    policy = Remembering()
    time_step = ts.restart(5)

    assert policy.action(time_step) == PolicyStep(5, (), None)
    assert policy.action(time_step, "s", seed=3) == PolicyStep(5, "s", 3)


def test_policy_that_takes_no_seed_is_not_given_one() -> None:
    class Seedless(Remembering):
        def _action(self, time_step: Any, policy_state: Any) -> PolicyStep:  # pyright: ignore[reportIncompatibleMethodOverride]
            return PolicyStep(1, policy_state)

    assert Seedless().action(ts.restart(0), "s") == PolicyStep(1, "s")


@pytest.mark.parametrize(("batch_size", "shape"), [(None, (2,)), (3, (3, 2))])
def test_initial_state_is_zeros(batch_size: Any, shape: tuple[int, ...]) -> None:
    state = Remembering().get_initial_state(batch_size)

    assert state["h"].shape == shape
    assert state["h"].dtype == np.float32
    assert not state["h"].any()


def test_specs_of_what_is_collected_join_those_of_time_step_and_policy() -> None:
    policy = Remembering()
    env = environments.Counting()

    assert policy.time_step_spec == env.time_step_spec()
    assert policy.action_spec == env.action_spec()
    assert policy.policy_state_spec == STATE_SPEC
    assert policy.policy_step_spec == (
        policy.action_spec,
        STATE_SPEC,
        policy.info_spec,
    )
    assert policy.trajectory_spec == trajectory.Trajectory(
        step_type=array_spec.ArraySpec((), np.int32),
        observation=env.observation_spec(),
        action=env.action_spec(),
        policy_info=policy.info_spec,
        next_step_type=array_spec.ArraySpec((), np.int32),
        reward=env.reward_spec(),
        discount=env.discount_spec(),
    )
    assert policy.collect_data_spec == policy.trajectory_spec


def test_policy_without_variables_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"Remembering .* update\(\)"):
        Remembering().update({})


def test_policy_stays_itself() -> None:
    policy = Remembering()

    assert py_policy.as_policy(policy) is policy


def test_anything_with_an_action_method_is_a_policy() -> None:
    class Foreign:
        def action(self, time_step: Any, policy_state: Any = ()) -> PolicyStep:
            return PolicyStep(1)

    foreign: Any = Foreign()

    assert py_policy.as_policy(foreign) is foreign


def test_function_becomes_a_policy_with_the_specs_of_the_environment() -> None:
    env = environments.Counting()

    policy = py_policy.as_policy(lambda time_step: time_step.observation + 1, env)

    assert policy.action(ts.restart(4), "s") == PolicyStep(5, "s", ())
    assert policy.action_spec == env.action_spec()
    assert policy.time_step_spec == env.time_step_spec()
    assert policy.get_initial_state(8) == ()


def test_function_may_answer_with_a_policy_step() -> None:
    policy = py_policy.as_policy(Remembering().action)

    assert policy.action(ts.restart(4)) == PolicyStep(4, (), None)


@pytest.mark.parametrize("wrong", [None, 3, random_py_policy.RandomPyPolicy], ids=repr)
def test_what_is_neither_policy_nor_function_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"policy: expected .* or a function"):
        py_policy.as_policy(wrong)


def of_nothing() -> int:
    return 0


def of_two(time_step: Any, policy_state: Any) -> int:
    return 0


@pytest.mark.parametrize(
    ("function", "named"),
    [(of_nothing, r"of_nothing\(\)"), (of_two, r"of_two\(time_step: .*, policy_state")],
)
def test_function_of_other_arguments_is_refused(function: Any, named: str) -> None:
    with pytest.raises(TypeError, match=f"of one argument, the time step, got {named}"):
        py_policy.as_policy(function)


def test_compiled_function_without_a_signature_is_taken() -> None:
    biggest: Any = max

    assert py_policy.as_policy(biggest).action(ts.restart(4)).action == 4


def test_initial_state_of_what_has_only_an_action_is_empty() -> None:
    class Foreign:
        def action(self, time_step: Any, policy_state: Any = ()) -> PolicyStep:
            return PolicyStep(1)

    foreign: Any = Foreign()

    assert py_policy.initial_state(foreign, 3) == ()
    assert py_policy.initial_state(Remembering(), 3)["h"].shape == (3, 2)
