"""Stacks of observations, of single environments and of batches."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import pytest

from parallel_envs.adapters import from_gymnasium
from parallel_envs.batched_py_environment import BatchedPyEnvironment
from parallel_envs.parallel_py_environment import ParallelPyEnvironment
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import array_spec, nest
from parallel_envs.testing import conformance, environments
from parallel_envs.wrappers import FrameStack

Counting = environments.Counting


class Scalar(Counting):
    """Observes t alone."""

    def observation_spec(self) -> Any:
        return array_spec.BoundedArraySpec((), np.int64, 0, 99, "t")

    def _observation(self) -> Any:
        return np.asarray(self.t, np.int64)


class TestConformance(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return FrameStack(environments.Drawing(length=5), 3)


class TestConformanceOfNests(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        return FrameStack(environments.Nested(length=4), 2, axis=0)


class TestConformanceOfBatches(conformance.EnvironmentConformance):
    def make_environment(self) -> PyEnvironment:
        rows = [environments.Drawing(length=length) for length in (2, 3)]
        return FrameStack(BatchedPyEnvironment(rows), 2)


def observations(env: PyEnvironment, num_steps: int) -> list[npt.NDArray[Any]]:
    action = np.zeros(env.batch_size or (), np.int64)
    steps = [env.reset()] + [env.step(action) for _ in range(num_steps)]
    return [step.observation for step in steps]


def test_the_newest_observation_is_last_and_the_first_fills_the_stack() -> None:
    seen = observations(FrameStack(Scalar(length=3), 3), 4)

    assert [each.tolist() for each in seen] == [
        [0, 0, 0],
        [0, 0, 1],
        [0, 1, 2],
        [1, 2, 3],
        [0, 0, 0],
    ]


def test_the_new_axis_is_the_last_or_the_first() -> None:
    *_, last = observations(FrameStack(Counting(index=7), 2), 2)
    *_, first = observations(FrameStack(Counting(index=7), 2, axis=0), 2)

    assert last.tolist() == [[7, 7], [0, 0], [1, 2]]
    assert first.tolist() == last.T.tolist()
    assert last.flags.c_contiguous
    assert first.flags.c_contiguous


@pytest.mark.parametrize("axis", [-1, 0])
def test_a_stack_of_one_adds_an_axis_of_size_1(axis: int) -> None:
    *_, seen = observations(FrameStack(Counting(), 1, axis), 2)

    assert np.squeeze(seen, axis).tolist() == [0, 0, 2]


def test_specs_have_the_new_axis_and_the_bounds_of_each_pixel() -> None:
    class Bounded(Counting):
        def observation_spec(self) -> Any:
            return array_spec.BoundedArraySpec((3,), np.int64, [0, 1, 2], 9)

    last, first = (
        FrameStack(Bounded(), 2, axis).observation_spec() for axis in (-1, 0)
    )

    minimum = [[0, 0], [1, 1], [2, 2]]
    assert last == array_spec.BoundedArraySpec((3, 2), np.int64, minimum, 9)
    assert first == array_spec.BoundedArraySpec((2, 3), np.int64, [0, 1, 2], 9)


def test_each_leaf_of_a_nest_is_stacked() -> None:
    plain = observations(environments.Nested(), 2)

    *_, stacked = observations(FrameStack(environments.Nested(), 2), 2)

    nest.assert_same_structure(plain[0], stacked, "observation")
    pairs = zip(nest.flatten(plain[1]), nest.flatten(plain[2]), strict=True)
    for leaf, pair in zip(nest.flatten(stacked), pairs, strict=True):
        np.testing.assert_array_equal(leaf, np.stack(pair, -1))


def test_rows_of_a_batch_start_their_stacks_one_by_one() -> None:
    rows = [Scalar(length=2), Scalar(length=3)]

    seen = observations(FrameStack(BatchedPyEnvironment(rows), 3), 4)

    assert [each.tolist() for each in seen] == [
        [[0, 0, 0], [0, 0, 0]],
        [[0, 0, 1], [0, 0, 1]],
        [[0, 1, 2], [0, 1, 2]],
        [[0, 0, 0], [1, 2, 3]],
        [[0, 0, 1], [0, 0, 0]],
    ]


@pytest.mark.parametrize("axis", [-1, 0])
def test_around_a_batch_is_the_same_as_within_it(axis: int) -> None:
    def make(length: int) -> PyEnvironment:
        return environments.Drawing(index=length, length=length)

    within = BatchedPyEnvironment([FrameStack(make(each), 2, axis) for each in (2, 5)])
    with ParallelPyEnvironment(
        [lambda: make(2), lambda: make(5)], copy=False, num_workers=1
    ) as batch:
        around = FrameStack(batch, 2, axis)
        found = observations(around, 12)

    assert around.observation_spec() == within.observation_spec()
    np.testing.assert_array_equal(found, observations(within, 12))


@pytest.mark.parametrize("axis", [-1, 0])
def test_what_was_returned_is_never_written_to_again(axis: int) -> None:
    env = FrameStack(Counting(length=4), 3, axis)
    kept = [env.reset().observation]
    copies = [kept[0].copy()]

    for _ in range(10):
        kept.append(env.step(0).observation)
        copies.append(kept[-1].copy())

    np.testing.assert_array_equal(kept, copies)


def test_a_caller_who_writes_into_an_observation_disturbs_nothing() -> None:
    env, undisturbed = FrameStack(Counting(), 3), FrameStack(Counting(), 3)
    env.reset().observation[:] = 99
    env.step(0).observation[:] = 99
    undisturbed.reset()
    undisturbed.step(0)

    found = env.step(0).observation

    assert found.tolist() == undisturbed.step(0).observation.tolist()


def test_an_environment_that_resets_itself_begins_a_stack_with_its_first_step() -> None:
    env = FrameStack(Scalar(length=1), 2, handle_auto_reset=False)

    seen = observations(env, 3)

    assert [each.tolist() for each in seen] == [[0, 0], [0, 1], [0, 0], [0, 1]]


def test_a_state_holds_the_stack_and_travels() -> None:
    env, other = FrameStack(Scalar(length=9), 3), FrameStack(Scalar(length=9), 3)
    observations(env, 4)
    state = pickle.loads(pickle.dumps(env.get_state()))
    expected = [env.step(0).observation.tolist() for _ in range(3)]
    observations(other, 7)

    other.set_state(state)

    assert other.current_time_step().observation.tolist() == [2, 3, 4]
    assert [other.step(0).observation.tolist() for _ in range(3)] == expected


def test_an_observation_that_does_not_fit_its_spec_is_named() -> None:
    class Wrong(Counting):
        def _observation(self) -> Any:
            return np.zeros((1,), np.int64)

    with pytest.raises(
        ValueError, match=r"observation does not fit .* \(3,\), got .* shape \(1,\)"
    ):
        FrameStack(Wrong(), 2).reset()


def test_a_leaf_of_varying_size_is_refused_with_its_path() -> None:
    with pytest.raises(ValueError, match=r"^observation.*: expected a shape without N"):
        FrameStack(environments.VariableSize(), 2)


@pytest.mark.parametrize("num_frames", [0, -1])
def test_less_than_one_frame_is_refused(num_frames: int) -> None:
    with pytest.raises(ValueError, match="num_frames: expected at least 1 frame, got"):
        FrameStack(Counting(), num_frames)


def test_a_number_of_frames_that_is_no_integer_is_refused() -> None:
    with pytest.raises(TypeError, match=r"num_frames: expected a number of .* 2\.0"):
        FrameStack(Counting(), 2.0)  # type: ignore[arg-type]


def test_an_axis_in_the_middle_is_refused() -> None:
    with pytest.raises(ValueError, match="axis: expected 0 or -1, got 1"):
        FrameStack(Counting(), 2, axis=1)


def test_the_first_axis_is_as_gymnasium_stacks() -> None:
    wrappers: Any = gymnasium.wrappers  # `FrameStack` until 0.29.
    stack = getattr(wrappers, "FrameStackObservation", None) or wrappers.FrameStack
    theirs = stack(gymnasium.make("CartPole-v1"), 4)
    ours = FrameStack(from_gymnasium(gymnasium.make("CartPole-v1")), 4, axis=0)
    ours.seed(3)
    expected, _ = theirs.reset(seed=3)

    found = [ours.reset().observation]
    assert found[0].shape == theirs.observation_space.shape
    np.testing.assert_array_equal(found[0], expected)
    for _ in range(6):
        expected, *_ = theirs.step(1)
        np.testing.assert_array_equal(ours.step(1).observation, expected)
