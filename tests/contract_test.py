from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallel_envs import contract
from parallel_envs import time_step as ts
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import array_spec
from parallel_envs.testing import RandomPyEnvironment, environments

SCALAR = array_spec.ArraySpec((), np.float32)


def changed(**methods: Any) -> PyEnvironment:
    """Returns a `Counting` environment with some methods replaced by values."""

    def returning(value: Any) -> Any:
        def method(*_: object) -> Any:
            return value

        return method

    members = {name: returning(value) for name, value in methods.items()}
    return type("Changed", (environments.Counting,), members)()


def batch_of(num_rows: int, observation_spec: Any = SCALAR) -> PyEnvironment:
    env = RandomPyEnvironment(observation_spec, batch_size=num_rows, seed=0)
    env.reset()
    return env


def check(env: PyEnvironment, time_step: Any, previous: Any = None) -> None:
    env._current_time_step = time_step  # pyright: ignore[reportPrivateUsage]
    contract.TimeStepCheck(env)(time_step, previous, "reset()")


@pytest.mark.parametrize(
    ("methods", "text"),
    [
        (
            {"action_spec": {"a": 3}},
            r"action_spec\['a'\]: expected an ArraySpec, got 3",
        ),
        ({"observation_spec": np.zeros(3)}, "observation_spec: expected an ArraySpec"),
        (
            {"time_step_spec": (1, 2)},
            r"time_step_spec\(\): expected a TimeStep .* \(1, 2",
        ),
        (
            {"time_step_spec": ts.time_step_spec(SCALAR)},
            r"time_step_spec\(\).observation: expected int64 of shape \(3,\), got",
        ),
        (
            {"reward_spec": SCALAR, "time_step_spec": ts.TimeStep(*[SCALAR] * 4)},
            r"observation_spec\(\) says so",
        ),
    ],
)
def test_specs_that_are_none_or_disagree_are_refused(
    methods: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        contract.check_specs(changed(**methods))


def test_batch_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"batch_size: expected at least 1, .* got 0"):
        contract.check_specs(RandomPyEnvironment(SCALAR, batch_size=0))


@pytest.mark.parametrize("wrong", [None, (0, 0, 1, 0), np.zeros(3)], ids=repr)
def test_what_is_no_time_step_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"reset\(\) of Counting: expected a TimeStep"):
        check(environments.Counting(), wrong)


def test_rows_are_looked_at_one_by_one() -> None:
    env = batch_of(3)
    observation = np.zeros(3, np.float32)
    first = ts.restart(observation, 3)
    ended = ts.TimeStep(
        np.array([1, 2, 1], np.int32), first.reward, first.discount, observation
    )

    check(env, first)
    check(env, ended, first)
    check(env, ended._replace(step_type=np.array([2, 0, 1], np.int32)), ended)
    with pytest.raises(ValueError, match="FIRST, as after each LAST in row 1, got MID"):
        check(env, ended._replace(step_type=np.array([1, 1, 1], np.int32)), ended)
    with pytest.raises(
        ValueError, match=r"expected MID or LAST, .* in row 2, got FIRST"
    ):
        check(env, ended._replace(step_type=np.array([1, 0, 0], np.int32)), ended)
    with pytest.raises(
        ValueError, match="FIRST, as after each reset in row 0, got MID"
    ):
        check(env, ended)


def test_batch_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"step_type .* \(3,\), got .* \(2,\)"):
        check(batch_of(3), ts.restart(np.zeros(2, np.float32), 2))


def test_step_type_that_is_none_is_refused() -> None:
    env = environments.Counting()
    time_step = env.reset()._replace(step_type=np.int32(3))

    with pytest.raises(ValueError, match=r"step_type: expected 0 \(FIRST\), .* got 3"):
        check(env, time_step)


def test_discount_beyond_one_is_refused_also_where_its_spec_has_no_bounds() -> None:
    env = changed(discount_spec=SCALAR)
    time_step = env.reset()._replace(discount=np.float32(1.5))

    with pytest.raises(ValueError, match=r"discount: expected values in \[0, 1\], got"):
        check(env, time_step)


def test_current_time_step_has_to_be_what_was_returned() -> None:
    env = environments.Counting()
    time_step = env.reset()
    env.step(np.int64(0))

    with pytest.raises(ValueError, match="current_time_step"):
        contract.TimeStepCheck(env)(time_step, None, "reset()")


def test_equal_copy_of_the_current_time_step_will_do() -> None:
    env = environments.Counting()
    time_step = env.reset()
    env._current_time_step = ts.TimeStep(*map(np.copy, time_step))  # pyright: ignore[reportPrivateUsage]

    contract.TimeStepCheck(env)(time_step, None, "reset()")


def test_variable_leaf_of_a_batch_is_a_list_of_arrays() -> None:
    env = batch_of(2, array_spec.ArraySpec((None,), np.int32))
    right = ts.restart([np.zeros(1, np.int32), np.zeros(5, np.int32)], 2)

    check(env, right)
    with pytest.raises(ValueError, match=r"observation\[1\] does not fit .* \(5, 1\)"):
        check(
            env,
            right._replace(
                observation=[np.zeros(1, np.int32), np.zeros((5, 1), np.int32)]
            ),
        )
    with pytest.raises(
        ValueError, match=r"observation: expected a list .* of length 2"
    ):
        check(env, right._replace(observation=[np.zeros(1, np.int32)]))


def test_arrays_are_the_same_to_the_last_bit() -> None:
    assert contract.is_same(np.array([np.nan]), np.array([np.nan]))
    assert contract.is_same(3, np.int64(3))
    assert not contract.is_same(0.0, -0.0)
    assert not contract.is_same(np.int32(3), np.int64(3))
    assert not contract.is_same(np.zeros(2), np.zeros((2, 1)))
