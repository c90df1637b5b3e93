from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parallel_envs import time_step as ts
from parallel_envs import trajectory
from parallel_envs.specs import array_spec, nest
from parallel_envs.trajectory import PolicyStep, Trajectory

FIRST, MID, LAST = 0, 1, 2


def make(
    step_types: list[list[int]],
    rewards: list[list[float]],
    discounts: list[list[float]],
) -> Trajectory:
    """Returns `[B, T]` rows whose observations are 10 * row + t."""
    step_type = np.array(step_types, np.int32)
    num_rows, num_steps = step_type.shape
    following = np.roll(step_type, -1, axis=1)
    following[:, -1] = MID
    numbers = [[10 * row + t for t in range(num_steps)] for row in range(num_rows)]
    return Trajectory(
        step_type=step_type,
        observation={"x": np.array(numbers, np.float32)},
        action=np.array(numbers, np.int64) + 100,
        policy_info=(),
        next_step_type=following,
        reward=np.array(rewards, np.float32),
        discount=np.array(discounts, np.float32),
    )


def test_policy_step_needs_an_action_only() -> None:
    step = PolicyStep(3)

    assert step == (3, (), ())
    assert step.replace(state=1) == PolicyStep(3, 1, ())


def test_from_transition_keeps_the_arrays() -> None:
    first = ts.restart(np.zeros(2))
    following = ts.termination(np.ones(2), 3.0)
    action = np.array(1)

    made = trajectory.from_transition(first, PolicyStep(action, "s", "i"), following)

    assert made.observation is first.observation
    assert made.action is action
    assert made.policy_info == "i"
    assert made.reward is following.reward
    assert made.discount is following.discount
    assert (made.step_type, made.next_step_type) == (FIRST, LAST)


@pytest.mark.parametrize(
    ("function", "step_types", "answers"),
    [
        (trajectory.first, (FIRST, MID), (True, False, False, False)),
        (trajectory.mid, (MID, MID), (False, True, False, False)),
        (trajectory.last, (MID, LAST), (False, False, True, False)),
        (trajectory.single_step, (FIRST, LAST), (True, False, True, False)),
        (trajectory.boundary, (LAST, FIRST), (False, False, False, True)),
    ],
)
@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_steps_of_one_kind_have_the_shape_of_their_discount(
    function: Any,
    step_types: tuple[int, int],
    answers: tuple[bool, ...],
    shape: tuple[int, ...],
) -> None:
    made: Trajectory = function([0], 1, (), 2.0, np.ones(shape, np.float32))

    for array, value in zip(
        (made.step_type, made.next_step_type), step_types, strict=True
    ):
        assert array.shape == shape
        assert array.dtype == np.int32
        assert (array == value).all()
    found = (made.is_first(), made.is_mid(), made.is_last(), made.is_boundary())
    for array, answer in zip(found, answers, strict=True):
        assert array.shape == shape
        assert (np.asarray(array) == answer).all()


def test_from_episode_marks_its_ends() -> None:
    made = trajectory.from_episode(
        observation={"x": np.zeros((3, 2))},
        action=np.zeros(3),
        policy_info=(),
        reward=np.array([1.0, 2.0, 3.0], np.float32),
    )

    assert made.step_type.tolist() == [FIRST, MID, MID]
    assert made.next_step_type.tolist() == [MID, MID, LAST]
    assert made.discount.tolist() == [1.0, 1.0, 1.0]
    assert made.step_type.dtype == made.next_step_type.dtype == np.int32


def test_an_episode_of_one_step_is_first_and_last() -> None:
    one = np.ones(1)

    made = trajectory.from_episode(one, one, (), one, discount=[0.0])

    assert (made.step_type.tolist(), made.next_step_type.tolist()) == ([0], [2])
    assert made.discount.tolist() == [0.0]


def test_from_episode_refuses_leaves_of_another_length() -> None:
    with pytest.raises(ValueError, match=r"action: expected .* \(3, \.\.\.\).* \(2,\)"):
        trajectory.from_episode(np.zeros(3), np.zeros(2), (), np.zeros(3))
    with pytest.raises(ValueError, match="at least 1 step"):
        trajectory.from_episode(np.zeros(0), np.zeros(0), (), np.zeros(0))
    with pytest.raises(ValueError, match="at least 1 step"):
        trajectory.from_episode(np.zeros(1), np.zeros(1), (), np.float32(0))


def test_to_transition_pairs_each_step_with_the_next() -> None:
    steps = make([[FIRST, MID, LAST]], [[1, 2, 0]], [[1, 0, 1]])

    made = trajectory.to_transition(steps)

    assert made.time_step.step_type.tolist() == [[FIRST, MID]]
    assert made.time_step.observation["x"].tolist() == [[0, 1]]
    assert made.time_step.reward.tolist() == [[0, 0]]
    assert made.time_step.discount.tolist() == [[0, 0]]
    assert made.action_step == PolicyStep(made.action_step.action, (), ())
    assert made.action_step.action.tolist() == [[100, 101]]
    assert made.next_time_step.step_type.tolist() == [[MID, LAST]]
    assert made.next_time_step.reward.tolist() == [[1, 2]]
    assert made.next_time_step.discount.tolist() == [[1, 0]]
    assert made.next_time_step.observation["x"].tolist() == [[1, 2]]


def test_to_transition_takes_the_next_step_from_a_second_trajectory() -> None:
    one = trajectory.first(np.zeros(2), np.zeros(2), (), np.ones(2), np.ones(2))
    two = trajectory.mid(np.ones(2), np.zeros(2), (), np.zeros(2), np.ones(2))

    made = trajectory.to_transition(one, two)

    assert made.time_step.observation.tolist() == [0, 0]
    assert made.next_time_step.observation.tolist() == [1, 1]
    assert made.next_time_step.reward.tolist() == [1, 1]


def test_to_transition_needs_time_in_its_leaves() -> None:
    steps = trajectory.first(np.zeros(2), np.zeros(2), (), np.ones(2), np.ones(2))

    text = r"\[B, T, \.\.\.\].* shape \(2,\)"
    with pytest.raises(ValueError, match=text):
        trajectory.to_transition(steps)
    with pytest.raises(ValueError, match=text):
        trajectory.to_n_step_transition(steps, 0.9)


def test_experience_of_two_steps_is_a_transition_without_time() -> None:
    steps = make([[FIRST, MID]], [[1, 2]], [[1, 1]])

    made = trajectory.experience_to_transitions(steps, squeeze_time_dim=True)
    kept = trajectory.experience_to_transitions(steps, squeeze_time_dim=False)

    assert made.next_time_step.observation["x"].tolist() == [1]
    assert kept.next_time_step.observation["x"].tolist() == [[1]]


def test_experience_of_three_steps_keeps_its_time() -> None:
    steps = make([[FIRST, MID, MID]], [[1, 2, 3]], [[1, 1, 1]])

    with pytest.raises(ValueError, match=r"expected 2 steps .* shape \(1, 3\)"):
        trajectory.experience_to_transitions(steps, squeeze_time_dim=True)


def test_n_step_return_within_an_episode() -> None:
    steps = make([[FIRST, MID, MID, MID]], [[1, 2, 4, 99]], [[1, 0.5, 1, 77]])

    made = trajectory.to_n_step_transition(steps, gamma=0.5)

    assert made.next_time_step.reward.tolist() == [1 + 0.5 * 2 + 0.25 * 0.5 * 4]
    assert made.next_time_step.discount.tolist() == [0.25 * 0.5]
    assert made.next_time_step.step_type.tolist() == [MID]
    assert made.next_time_step.observation["x"].tolist() == [3]
    assert made.time_step.observation["x"].tolist() == [0]
    assert made.action_step.action.tolist() == [100]
    assert np.isnan(made.time_step.reward).all()
    assert np.isnan(made.time_step.discount).all()
    assert made.next_time_step.reward.dtype == np.float32
    assert made.next_time_step.discount.dtype == np.float32


@pytest.mark.parametrize("last_discount", [0.0, 1.0])
def test_n_step_return_ends_with_the_episode(last_discount: float) -> None:
    steps = make(
        [[MID, MID, LAST, FIRST, MID]],
        [[1, 2, 50, 60, 70]],
        [[1, last_discount, 1, 1, 1]],
    )

    made = trajectory.to_n_step_transition(steps, gamma=0.5)

    assert made.next_time_step.reward.tolist() == [1 + 0.5 * 2]
    assert made.next_time_step.discount.tolist() == [0.5 * last_discount]
    assert made.next_time_step.step_type.tolist() == [LAST]
    assert made.next_time_step.observation["x"].tolist() == [2]


def test_n_step_return_that_ends_with_the_window_bootstraps_from_its_last_step() -> (
    None
):
    steps = make([[MID, MID, LAST]], [[1, 2, 9]], [[1, 1, 1]])

    made = trajectory.to_n_step_transition(steps, gamma=1.0)

    assert made.next_time_step.reward.tolist() == [3]
    assert made.next_time_step.observation["x"].tolist() == [2]
    assert made.next_time_step.step_type.tolist() == [LAST]


def test_n_step_return_is_not_touched_by_nan_beyond_the_end() -> None:
    steps = make([[MID, LAST, FIRST]], [[1, np.nan, 5]], [[0, 1, 1]])

    made = trajectory.to_n_step_transition(steps, gamma=0.9)

    assert made.next_time_step.reward.tolist() == [1]


def test_row_that_starts_between_episodes_is_marked_and_takes_nothing_further() -> None:
    steps = make([[LAST, FIRST, MID]], [[0, 5, 6]], [[1, 1, 1]])

    made = trajectory.to_n_step_transition(steps, gamma=0.9)

    assert made.time_step.is_last().tolist() == [True]
    assert made.next_time_step.reward.tolist() == [0]
    assert made.next_time_step.observation["x"].tolist() == [1]


def test_cut_episode_without_its_final_observation_is_refused() -> None:
    steps = make([[MID, MID, FIRST, MID]], [[1, 2, 3, 4]], [[1, 1, 1, 1]])
    steps.next_step_type[0, 1] = LAST

    with pytest.raises(ValueError, match="row 0 has an episode cut at step 1"):
        trajectory.to_n_step_transition(steps, gamma=0.9)

    steps.discount[0, 1] = 0  # Nothing is bootstrapped after a termination.
    assert trajectory.to_n_step_transition(steps, 0.9).next_time_step.discount == 0


def test_n_step_transition_needs_two_steps() -> None:
    with pytest.raises(ValueError, match=r"at least 2 steps.* shape \(1, 1\)"):
        trajectory.to_n_step_transition(make([[FIRST]], [[1]], [[1]]), 0.9)


def test_batch_without_rows_has_no_transitions() -> None:
    steps = make([[FIRST, MID, MID]], [[1, 2, 3]], [[1, 1, 1]])
    none = Trajectory(
        *(nest.map_structure(operator.itemgetter(np.s_[:0]), field) for field in steps)
    )

    made = trajectory.to_n_step_transition(none, gamma=0.5)

    assert made.next_time_step.reward.shape == (0,)
    assert made.next_time_step.observation["x"].shape == (0,)


def test_rewards_may_be_vectors_and_nests() -> None:
    steps = make([[FIRST, MID, MID]], [[1, 2, 3]], [[1, 1, 1]])
    steps = steps.replace(reward={"v": np.stack([steps.reward, -steps.reward], -1)})

    made = trajectory.to_n_step_transition(steps, gamma=0.5)

    assert made.next_time_step.reward["v"].tolist() == [[2, -2]]
    assert made.time_step.reward["v"].shape == (1, 2)


@st.composite
def streams(draw: st.DrawFn) -> Trajectory:
    """Rows of consecutive steps of episodes of random lengths, cut or terminated."""
    num_rows, num_steps = draw(st.integers(1, 3)), draw(st.integers(2, 7))
    types = np.zeros((num_rows, num_steps), np.int32)
    for row in range(num_rows):
        stream: list[int] = []
        while len(stream) < num_steps + 8:
            stream += [FIRST] + [MID] * draw(st.integers(0, 4)) + [LAST]
        start = draw(st.integers(0, 7))
        types[row] = stream[start : start + num_steps]

    def numbers(low: float, high: float) -> list[list[float]]:
        values = st.floats(low, high, width=16)
        row = st.lists(values, min_size=num_steps, max_size=num_steps)
        return draw(st.lists(row, min_size=num_rows, max_size=num_rows))

    return make(types.tolist(), numbers(-4, 4), numbers(0, 1))


def n_steps_by_hand(
    steps: Trajectory, row: int, gamma: float
) -> tuple[float, float, float]:
    """Walks along one row: returns reward, discount and next observation."""
    total, weight = 0.0, 1.0
    num_steps = steps.step_type.shape[1]
    for t in range(num_steps - 1):
        total += weight * steps.reward[row, t]
        weight *= steps.discount[row, t]
        is_end = LAST in (steps.step_type[row, t], steps.next_step_type[row, t])
        if is_end or t == num_steps - 2:
            return total, weight, steps.observation["x"][row, t + 1]
        weight *= gamma
    raise AssertionError


@given(streams(), st.sampled_from([0.0, 0.5, 1.0]))
def test_n_step_transition_is_what_a_walk_along_each_row_gives(
    steps: Trajectory, gamma: float
) -> None:
    made = trajectory.to_n_step_transition(steps, gamma).next_time_step

    found: npt.NDArray[Any] = np.stack(
        [made.reward, made.discount, made.observation["x"]], axis=1
    )
    expected = [n_steps_by_hand(steps, row, gamma) for row in range(len(found))]
    np.testing.assert_allclose(found, np.array(expected), rtol=1e-5, atol=1e-6)


def test_to_transition_spec_takes_the_specs_apart() -> None:
    observation = array_spec.ArraySpec((2,), np.float32)
    action = array_spec.BoundedArraySpec((), np.int64, 0, 3)
    time_step_spec = ts.time_step_spec(observation)
    spec = trajectory.from_transition(
        time_step_spec, PolicyStep(action), time_step_spec
    )

    made = trajectory.to_transition_spec(spec)

    assert made == (time_step_spec, PolicyStep(action), time_step_spec)
    assert made.replace(action_step=()).action_step == ()
