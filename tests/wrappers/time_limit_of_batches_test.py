"""Limits on the episodes of the rows of a batch, inside of it and around it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallel_envs import time_step as ts
from parallel_envs.batched_py_environment import BatchedPyEnvironment
from parallel_envs.parallel_py_environment import ParallelPyEnvironment
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.testing import environments
from parallel_envs.wrappers import PyEnvironmentBaseWrapper, TimeLimit

Counting = environments.Counting


def run(env: PyEnvironment, num_steps: int) -> list[ts.TimeStep]:
    return [env.reset()] + [env.step(0) for _ in range(num_steps)]


def kinds(steps: list[ts.TimeStep]) -> list[Any]:
    return [step.step_type.tolist() for step in steps]


def test_limits_within_a_parallel_batch_are_truncations() -> None:
    with ParallelPyEnvironment(
        [
            lambda: Counting(length=2),
            lambda: TimeLimit(Counting(length=99), 2),
            lambda: TimeLimit(Counting(length=2), 2),
            lambda: Counting(length=2, end="truncation"),
        ]
    ) as env:
        steps = [env.reset()] + [env.step(np.zeros(4, np.int64)) for _ in range(5)]

    assert kinds(steps) == [[kind] * 4 for kind in [0, 1, 2, 0, 1, 2]]
    assert steps[2].discount.tolist() == [0.0, 1.0, 0.0, 1.0]
    assert steps[2].reward.tolist() == [2.0] * 4
    assert steps[3].discount.tolist() == [1.0] * 4


def test_attributes_calls_and_infos_pass_the_limit_in_a_parallel_batch() -> None:
    class Levels(Counting):
        level = 0

        def double(self, value: int) -> int:
            return 2 * value + self.level

        def get_info(self) -> dict[str, int]:
            return {"odd": self.t} if self.t % 2 else {}

    def constructor(index: int) -> Any:
        return lambda: TimeLimit(Levels(index, length=9), 8)

    with ParallelPyEnvironment([constructor(index) for index in range(3)]) as env:
        env.reset()
        env.set_attr("level", [5, 6, 7])
        infos: list[Any] = []
        for _ in range(3):
            env.step(np.zeros(3, np.int64))
            infos.append(env.get_info())

        assert list(env.get_attr("level")) == [5, 6, 7]
        assert list(env.call("double", 4)) == [13, 14, 15]
        assert infos == [[{"odd": 1}] * 3, [{}] * 3, [{"odd": 3}] * 3]


def serial(makers: Any) -> PyEnvironment:
    return BatchedPyEnvironment([make() for make in makers])


def in_processes(makers: Any) -> PyEnvironment:
    return ParallelPyEnvironment(makers)


def in_this_process(makers: Any) -> PyEnvironment:
    return ParallelPyEnvironment(makers, num_workers=0)


@pytest.fixture(params=[serial, in_processes, in_this_process])
def batch(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_each_row_of_a_batch_has_its_own_count(batch: Any) -> None:
    lengths = [2, 5, 4, 3]
    makers = [lambda n=length: Counting(length=n) for length in lengths]

    with TimeLimit(batch(makers), 4) as limited:
        steps = [limited.reset()]
        steps += [limited.step(np.zeros(4, np.int64)) for _ in range(12)]

    expected = [run(TimeLimit(Counting(length=length), 4), 12) for length in lengths]
    for row in range(4):
        assert [kind[row] for kind in kinds(steps)] == kinds(expected[row])
        for step, single in zip(steps, expected[row], strict=True):
            assert step.reward[row] == single.reward
            assert step.discount[row] == single.discount
            assert step.observation[row].tolist() == single.observation.tolist()


def test_a_batch_whose_rows_all_reach_the_limit_is_reset_as_a_whole(batch: Any) -> None:
    with TimeLimit(batch([lambda: Counting(length=99)] * 2), 2) as limited:
        steps = [limited.reset()]
        steps += [limited.step(np.zeros(2, np.int64)) for _ in range(6)]

    assert kinds(steps) == [[kind] * 2 for kind in [0, 1, 2, 0, 1, 2, 0]]
    assert [step.observation[0, 1] for step in steps] == [0, 0, 0, 1, 1, 1, 2]


def test_steps_of_a_batch_are_not_changed_afterwards(batch: Any) -> None:
    makers = [lambda: Counting(length=2), lambda: Counting(length=99)]

    with TimeLimit(batch(makers), 3) as limited:
        steps = [limited.reset()]
        copies = [np.copy(steps[0].observation)]
        for _ in range(9):
            steps.append(limited.step(np.zeros(2, np.int64)))
            copies.append(np.copy(steps[-1].observation))

    for step, copy in zip(steps, copies, strict=True):
        np.testing.assert_equal(step.observation, copy)


def test_what_the_batch_itself_keeps_is_not_written_to(batch: Any) -> None:
    inner = batch([lambda: Counting(length=2), lambda: Counting(length=99)])

    with TimeLimit(inner, 3) as limited:
        limited.reset()
        steps = [limited.step(np.zeros(2, np.int64)) for _ in range(4)]

        assert steps[-1].step_type.tolist() == [1, 0]
        assert inner.current_time_step().step_type.tolist() == [1, 1]


def test_rows_with_leaves_of_varying_size_are_limited_too(batch: Any) -> None:
    makers = [lambda n=n: environments.VariableSize(length=n) for n in (2, 99)]

    with TimeLimit(batch(makers), 3) as limited:
        steps = [limited.reset()]
        steps += [limited.step(np.zeros(2, np.int64)) for _ in range(5)]

    assert [kind[1] for kind in kinds(steps)] == [0, 1, 1, 2, 0, 1]
    assert isinstance(steps[4].observation, list)


class WholeBatch(Counting):
    """Two rows that only start together."""

    @property
    def batched(self) -> bool:
        return True

    @property
    def batch_size(self) -> int:
        return 2


def test_a_batch_whose_rows_cannot_be_reset_is_refused() -> None:
    with pytest.raises(ValueError, match=r"an environment for each of its 2 rows"):
        TimeLimit(WholeBatch(), 3)


def test_a_batch_in_another_wrapper_is_refused() -> None:
    batch = serial([Counting, Counting])

    with pytest.raises(ValueError, match=r"expected a batch, itself and not wrapped"):
        TimeLimit(PyEnvironmentBaseWrapper(batch), 3)
