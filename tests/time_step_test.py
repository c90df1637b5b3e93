from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parallel_envs import time_step as ts
from parallel_envs.specs import array_spec
from parallel_envs.time_step import StepType

OBSERVATION = np.zeros(4, np.float32)


def assert_array(found: Any, expected: Any, dtype: Any) -> None:
    assert type(found) is np.ndarray
    assert found.dtype == dtype
    assert found.tolist() == expected


def test_time_step_has_the_name_and_fields_that_tf_nest_compares() -> None:
    assert ts.TimeStep.__name__ == "TimeStep"
    assert ts.TimeStep._fields == ("step_type", "reward", "discount", "observation")


@pytest.mark.parametrize("value", [0, 1, 2])
def test_step_type_of_a_value_is_the_constant(value: int) -> None:
    constant = (StepType.FIRST, StepType.MID, StepType.LAST)[value]

    assert StepType(value) is constant
    assert StepType(np.int64(value)) is constant
    assert_array(constant, value, np.int32)
    assert constant.shape == ()


def test_step_type_of_another_value_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected 0 \(FIRST\), .* got 3"):
        StepType(3)


def test_constants_cannot_be_written_into() -> None:
    step = ts.restart(OBSERVATION)

    for constant in (step.step_type, step.reward, step.discount, StepType.LAST):
        with pytest.raises(ValueError, match="read-only"):
            constant[...] = 2
        with pytest.raises(ValueError, match="WRITEABLE"):
            constant.setflags(write=True)
    assert ts.restart(OBSERVATION).step_type == 0


def test_restart_of_one_environment() -> None:
    step = ts.restart(OBSERVATION)

    assert_array(step.step_type, 0, np.int32)
    assert_array(step.reward, 0.0, np.float32)
    assert_array(step.discount, 1.0, np.float32)
    assert step.observation is OBSERVATION


def test_restart_of_a_batch_makes_arrays_of_its_own() -> None:
    step = ts.restart(OBSERVATION, batch_size=2)

    assert_array(step.step_type, [0, 0], np.int32)
    assert_array(step.reward, [0.0, 0.0], np.float32)
    assert_array(step.discount, [1.0, 1.0], np.float32)
    step.step_type[0] = 2
    step.reward[0] = 5
    step.discount[0] = 0
    assert ts.restart(OBSERVATION, batch_size=2).step_type.tolist() == [0, 0]


@pytest.mark.parametrize(("batch_size", "outer"), [(None, ()), (3, (3,)), (0, (0,))])
def test_restart_makes_its_reward_from_the_spec(
    batch_size: int | None, outer: tuple[int, ...]
) -> None:
    reward_spec = {
        "cost": array_spec.ArraySpec((2,), np.float64),
        "gain": array_spec.ArraySpec((), np.int32),
    }

    step = ts.restart(OBSERVATION, batch_size, reward_spec)

    assert step.reward["cost"].shape == (*outer, 2)
    assert step.reward["cost"].dtype == np.float64
    assert step.reward["gain"].shape == outer
    assert step.reward["gain"].dtype == np.int32
    assert step.step_type.shape == outer
    assert step.discount.shape == outer


@pytest.mark.parametrize(
    "reward",
    [2, 2.0, True + 1, np.float32(2), np.float64(2), np.int8(2), np.array(2.0)],
    ids=repr,
)
def test_scalar_rewards_become_float32(reward: Any) -> None:
    for step, step_type, discount in (
        (ts.transition(OBSERVATION, reward), 1, 1.0),
        (ts.termination(OBSERVATION, reward), 2, 0.0),
        (ts.truncation(OBSERVATION, reward), 2, 1.0),
    ):
        assert_array(step.step_type, step_type, np.int32)
        assert_array(step.reward, 2.0, np.float32)
        assert_array(step.discount, discount, np.float32)
        assert step.observation is OBSERVATION


@pytest.mark.parametrize("reward", [[1, 2], np.array([1.0, 2.0])], ids=repr)
def test_the_shape_of_the_reward_is_that_of_the_batch(reward: Any) -> None:
    for step, step_type, discount in (
        (ts.transition(OBSERVATION, reward, 0.5), 1, 0.5),
        (ts.termination(OBSERVATION, reward), 2, 0.0),
        (ts.truncation(OBSERVATION, reward), 2, 1.0),
    ):
        assert_array(step.step_type, [step_type] * 2, np.int32)
        assert_array(step.reward, [1.0, 2.0], np.float32)
        assert_array(step.discount, [discount] * 2, np.float32)
        assert step.discount.flags.writeable


@given(
    rows=st.integers(0, 4),
    columns=st.integers(0, 3),
    discount=st.floats(0, 1, width=32),
    by_row=st.booleans(),
)
def test_a_discount_is_broadcast_to_the_batch(
    rows: int, columns: int, discount: float, by_row: bool
) -> None:
    reward = np.zeros((rows, columns), np.float32)
    given_discount = np.full((rows, 1), discount) if by_row else discount

    step = ts.transition(OBSERVATION, reward, given_discount)

    assert step.discount.shape == (rows, columns)
    assert step.discount.dtype == np.float32
    assert (step.discount == np.float32(discount)).all()


def test_a_discount_that_does_not_fit_the_batch_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"batch's shape \(2,\), got an array of shape \(3,\)"
    ):
        ts.transition(OBSERVATION, [1.0, 2.0], np.ones(3))
    with pytest.raises(ValueError, match=r"shape \(\), got an array of shape \(2,\)"):
        ts.truncation(OBSERVATION, 1.0, [1.0, 1.0])


@pytest.mark.parametrize(
    "reward",
    [float("nan"), None, np.float32("nan"), np.array(np.nan), [1.0, np.nan]],
    ids=repr,
)
def test_a_reward_of_nan_is_refused(reward: Any) -> None:
    for make in (ts.transition, ts.termination, ts.truncation):
        with pytest.raises(
            ValueError, match=r"reward: expected numbers, got .* (nan|None)\."
        ):
            make(OBSERVATION, reward)


@pytest.mark.parametrize("discount", [float("nan"), None, [1.0, np.nan]], ids=repr)
def test_a_discount_of_nan_is_refused(discount: Any) -> None:
    with pytest.raises(
        ValueError, match=r"discount: expected numbers, got .* (nan|None)\."
    ):
        ts.transition(OBSERVATION, [0.0, 0.0], discount)
    with pytest.raises(
        ValueError, match=r"discount: expected numbers, got .* (nan|None)\."
    ):
        ts.truncation(OBSERVATION, 0.0, discount)


def test_infinite_rewards_are_not_nan() -> None:
    step = ts.transition(OBSERVATION, [np.inf, -np.inf])

    assert step.reward.tolist() == [np.inf, -np.inf]


def test_with_outer_dims_the_reward_is_taken_as_it_is() -> None:
    reward = np.array([1.0, 2.0], np.float64)

    single = ts.transition(OBSERVATION, reward, outer_dims=())
    batch = ts.termination(OBSERVATION, reward, outer_dims=[3])

    assert single.reward is reward
    assert_array(single.step_type, 1, np.int32)
    assert_array(single.discount, 1.0, np.float32)
    assert batch.reward is reward
    assert_array(batch.step_type, [2, 2, 2], np.int32)
    assert_array(batch.discount, [0.0, 0.0, 0.0], np.float32)
    assert ts.truncation(OBSERVATION, reward, outer_dims=2).discount.shape == (2,)


def test_rewards_may_be_a_dict_or_a_tuple() -> None:
    reward = {"b": [1, 2], "a": np.zeros((2, 3))}

    step = ts.transition(OBSERVATION, reward, outer_dims=(2,))
    cast = ts.transition(OBSERVATION, {"cost": 1, "gain": 2.0})
    pair = ts.transition(OBSERVATION, (np.ones(2), np.zeros(2)))

    assert step.reward is reward
    assert_array(cast.reward["cost"], 1.0, np.float32)
    assert cast.step_type is StepType.MID
    assert_array(pair.reward[0], [1.0, 1.0], np.float32)
    assert_array(pair.step_type, [1, 1], np.int32)


def test_questions_are_answered_for_each_row() -> None:
    step = ts.TimeStep(np.array([0, 1, 2], np.int32), 0, 0, OBSERVATION)

    assert step.is_first().tolist() == [True, False, False]
    assert step.is_mid().tolist() == [False, True, False]
    assert step.is_last().tolist() == [False, False, True]


@pytest.mark.parametrize("kind", [int, np.int32, np.array])
def test_questions_about_a_single_step_are_answered_by_one_bool(kind: Any) -> None:
    step = ts.TimeStep(kind(2), 0, 0, OBSERVATION)

    for answer, expected in (
        (step.is_first(), False),
        (step.is_mid(), False),
        (step.is_last(), True),
    ):
        assert type(answer) is np.bool_
        assert answer == expected
        assert ~answer == (not expected)


def test_steps_pickle_and_copy() -> None:
    step = ts.transition({"a": np.ones(2)}, 1.0)

    for again in (pickle.loads(pickle.dumps(step)), copy.deepcopy(step)):
        assert type(again) is ts.TimeStep
        assert again.step_type == StepType.MID
        assert again.observation["a"].tolist() == [1.0, 1.0]


def test_time_step_spec_has_the_standard_reward_and_discount() -> None:
    observation_spec = {"a": array_spec.ArraySpec((2,), np.uint8)}

    spec = ts.time_step_spec(observation_spec)

    assert spec == ts.TimeStep(
        step_type=array_spec.ArraySpec((), np.int32),
        reward=array_spec.ArraySpec((), np.float32),
        discount=array_spec.BoundedArraySpec((), np.float32, 0, 1),
        observation=observation_spec,
    )
    assert (spec.step_type.name, spec.reward.name) == ("step_type", "reward")


def test_time_step_spec_takes_another_reward_or_nothing_at_all() -> None:
    reward_spec = array_spec.ArraySpec((2,), np.float64)

    spec = ts.time_step_spec(array_spec.ArraySpec((), np.int32), reward_spec)

    assert spec.reward is reward_spec
    assert ts.time_step_spec() == ts.TimeStep((), (), (), ())
