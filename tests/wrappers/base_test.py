"""A wrapper that changes nothing."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from parallel_envs import time_step as ts
from parallel_envs.parallel_py_environment import ParallelPyEnvironment
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import array_spec
from parallel_envs.testing import conformance, environments
from parallel_envs.wrappers import PyEnvironmentBaseWrapper, TimeLimit


class Rich(environments.Drawing):
    """Overrides every member that an environment may override."""

    level = 3

    def __init__(self) -> None:
        super().__init__()
        self.closed = 0

    def reward_spec(self) -> Any:
        return array_spec.ArraySpec((2,), np.float64, "reward")

    def discount_spec(self) -> Any:
        return array_spec.BoundedArraySpec((), np.float64, 0.0, 0.5, "discount")

    def render(self, mode: str = "rgb_array") -> Any:
        return np.full((2, 2, 3), len(mode), np.uint8)

    def close(self) -> None:
        self.closed += 1

    def double(self, value: int) -> int:
        return 2 * value + self.level


class TestConformance(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return PyEnvironmentBaseWrapper(environments.Nested())


def test_specs_are_those_of_the_wrapped_environment() -> None:
    env = Rich()

    wrapped = PyEnvironmentBaseWrapper(env)

    assert wrapped.observation_spec() == env.observation_spec()
    assert wrapped.action_spec() == env.action_spec()
    assert wrapped.reward_spec() == env.reward_spec()
    assert wrapped.discount_spec() == env.discount_spec()
    assert wrapped.time_step_spec() == env.time_step_spec()


def test_calls_reach_the_wrapped_environment() -> None:
    env = Rich()
    wrapped = PyEnvironmentBaseWrapper(env)

    assert wrapped.seed(5) == 5
    wrapped.reset()
    state = wrapped.get_state()
    wrapped.step(0)

    assert wrapped.get_info() == {"episode": 0, "t": 1}
    assert env.get_info() == {"episode": 0, "t": 1}
    wrapped.set_state(state)
    assert env.get_info() == {"episode": 0, "t": 0}
    np.testing.assert_equal(wrapped.render(), env.render())
    np.testing.assert_equal(wrapped.render("human"), env.render("human"))
    wrapped.close()
    assert env.closed == 1


def test_a_with_statement_closes_the_wrapped_environment() -> None:
    env = Rich()

    with PyEnvironmentBaseWrapper(env):
        pass

    assert env.closed == 1


def test_attributes_are_found_through_wrappers() -> None:
    env = Rich()

    outer = PyEnvironmentBaseWrapper(PyEnvironmentBaseWrapper(env))

    assert outer.level == 3
    assert outer.double(4) == 11
    assert outer.wrapped_env().wrapped_env() is env  # type: ignore[attr-defined]


def test_an_attribute_that_is_nowhere_is_an_attribute_error() -> None:
    wrapped = PyEnvironmentBaseWrapper(environments.Counting())

    with pytest.raises(AttributeError, match="'Counting' object has no attribute 'x'"):
        _ = wrapped.x


def test_private_attributes_stay_inside() -> None:
    class Secretive(environments.Counting):
        _secret = 1

    wrapped = PyEnvironmentBaseWrapper(Secretive())

    with pytest.raises(AttributeError, match="has no attribute '_secret'"):
        _ = wrapped._secret


def test_what_is_not_implemented_says_which_environment_lacks_it() -> None:
    wrapped = PyEnvironmentBaseWrapper(environments.Counting())

    with pytest.raises(NotImplementedError, match="Counting does not implement render"):
        wrapped.render()


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_wrapper_can_be_copied(duplicate: Any) -> None:
    wrapped = PyEnvironmentBaseWrapper(environments.Counting(index=7))

    twin = duplicate(wrapped)

    assert twin.reset().observation[0] == 7


def test_a_wrapper_can_be_pickled() -> None:
    wrapped = PyEnvironmentBaseWrapper(environments.Counting(index=7))

    twin = pickle.loads(pickle.dumps(wrapped))

    assert twin.reset().observation[0] == 7


def test_steps_are_those_of_the_wrapped_environment() -> None:
    env = environments.Counting(length=2)
    twin = PyEnvironmentBaseWrapper(environments.Counting(length=2))

    for _ in range(8):
        np.testing.assert_equal(twin.step(1), env.step(1))


class CountingResets(PyEnvironmentBaseWrapper):
    num_resets = 0

    def _reset(self) -> ts.TimeStep:
        self.num_resets += 1
        return super()._reset()


def test_its_own_reset_runs_at_the_start_of_each_episode() -> None:
    env = CountingResets(environments.Counting(length=2))

    kinds = [int(env.step(0).step_type) for _ in range(7)]

    assert kinds == [0, 1, 2, 0, 1, 2, 0]
    assert env.num_resets == 3


class ResettingItself(environments.Counting):
    """Gives FIRST from `_step` after LAST."""

    def __init__(self) -> None:
        super().__init__(length=2)
        self._handle_auto_reset = False

    def _step(self, action: Any) -> ts.TimeStep:
        return self._reset() if self.t == self.length else super()._step(action)


def test_an_environment_that_resets_itself_goes_on_doing_so() -> None:
    env = CountingResets(ResettingItself())

    kinds = [int(env.step(0).step_type) for _ in range(7)]

    assert kinds == [0, 1, 2, 0, 1, 2, 0]
    assert env.num_resets == 1


def test_the_choice_of_the_environment_can_be_overruled() -> None:
    env = CountingResets(ResettingItself(), handle_auto_reset=True)

    kinds = [int(env.step(0).step_type) for _ in range(7)]

    assert kinds == [0, 1, 2, 0, 1, 2, 0]
    assert env.num_resets == 3


def test_what_is_no_environment_is_refused() -> None:
    with pytest.raises(TypeError, match=r"env: expected a PyEnvironment, got 3\."):
        PyEnvironmentBaseWrapper(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["send", "recv"])
def test_steps_past_a_wrapper_are_refused(name: str) -> None:
    with ParallelPyEnvironment([environments.Counting], num_workers=0) as batch:
        wrapped = TimeLimit(batch, 2)

        with pytest.raises(AttributeError, match="TimeLimit would not see the steps"):
            getattr(wrapped, name)
