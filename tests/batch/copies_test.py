"""Whose the arrays are that a batch returns: `copy` and `out`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs import time_step as ts
from parallel_envs.process import facilities
from parallel_envs.testing import environments

RING = 4
WAYS: dict[str, dict[str, Any]] = {
    "a worker each": {},
    "two workers": {"num_workers": 2},
    "no workers": {"num_workers": 0},
    "sockets": {"shared_memory": False},
    "blocking": {"blocking": True},
    "blocking sockets": {"blocking": True, "shared_memory": False},
    "portable": {},
    "restarts": {"max_restarts": 1},
}
MAKERS = [functools.partial(environments.Counting, index, 5) for index in range(3)]


@pytest.fixture(params=WAYS)
def options(request: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if request.param == "portable":
        monkeypatch.setenv(facilities.VARIABLE, "1")
    return WAYS[request.param]


def leaves_of(time_step: ts.TimeStep) -> list[list[Any]]:
    return [leaf.tolist() for leaf in time_step]


def rollout(env: Any, num_steps: int) -> list[ts.TimeStep]:
    action = np.zeros(env.batch_size, np.int64)
    return [env.reset(), *(env.step(action) for _ in range(num_steps))]


def test_views_say_the_same_as_copies(options: dict[str, Any]) -> None:
    action = np.zeros(3, np.int64)
    with (
        pe.ParallelPyEnvironment(MAKERS, **options) as copying,
        pe.ParallelPyEnvironment(MAKERS, copy=False, **options) as viewing,
    ):
        for number in range(20):
            expected = copying.step(action) if number % 8 else copying.reset()
            found = viewing.step(action) if number % 8 else viewing.reset()

            assert leaves_of(found) == leaves_of(expected)
            assert [leaf.dtype for leaf in found] == [leaf.dtype for leaf in expected]


def test_a_view_holds_until_the_fourth_call_after_and_no_longer(
    options: dict[str, Any],
) -> None:
    action = np.zeros(3, np.int64)
    with pe.ParallelPyEnvironment(MAKERS, copy=False, **options) as env:
        env.reset()
        for _ in range(9):
            view = env.step(action)
            said = leaves_of(view)
            for _ in range(RING - 1):
                env.step(action)
                assert leaves_of(view) == said

            again = env.step(action)

            assert np.shares_memory(view.observation, again.observation)
            assert leaves_of(view) == leaves_of(again) != said


def test_views_outlive_the_batch(options: dict[str, Any]) -> None:
    with pe.ParallelPyEnvironment(MAKERS, copy=False, **options) as env:
        steps = rollout(env, RING - 1)

    assert [step.observation[:, 2].tolist() for step in steps] == [
        [n] * 3 for n in range(RING)
    ]


def test_copies_are_the_callers_own(options: dict[str, Any]) -> None:
    with pe.ParallelPyEnvironment(MAKERS, **options) as env:
        steps = rollout(env, 9)

    pairs = [
        (first.observation, second.observation)
        for position, first in enumerate(steps)
        for second in steps[:position]
    ]
    assert not any(np.shares_memory(*pair) for pair in pairs)


@pytest.mark.parametrize("num_workers", [None, 2, 0])
def test_a_repaired_row_says_its_last_view_once_more(num_workers: int | None) -> None:
    makers = [*MAKERS, functools.partial(environments.RaisingInStep, 3, 9, 3)]
    with (
        pe.ParallelPyEnvironment(makers, max_restarts=9) as copying,
        pe.ParallelPyEnvironment(
            makers, max_restarts=9, copy=False, num_workers=num_workers
        ) as viewing,
    ):
        action = np.zeros(4, np.int64)
        assert leaves_of(viewing.reset()) == leaves_of(copying.reset())
        for _ in range(9):
            assert leaves_of(viewing.step(action)) == leaves_of(copying.step(action))

        assert len(viewing.failures) == len(copying.failures) > 1


@pytest.mark.parametrize("copy", [True, False])
def test_a_step_can_be_written_into_the_callers_arrays(
    options: dict[str, Any], copy: bool
) -> None:
    action = np.zeros(3, np.int64)
    with pe.ParallelPyEnvironment(MAKERS, copy=copy, **options) as env:
        out = ts.TimeStep(*(leaf.copy() for leaf in env.reset()))
        observation = out.observation

        for number in range(1, 4):
            found = env.step(action, out=out)

            assert found is out
            assert out.observation is observation
            assert observation[:, 2].tolist() == [number] * 3
            assert out.step_type.tolist() == [1] * 3
        assert env.step(action).observation[:, 2].tolist() == [4] * 3


def test_a_failed_row_is_written_into_the_callers_arrays_too() -> None:
    makers = [*MAKERS, functools.partial(environments.RaisingInStep, 3, 9, 2)]
    action = np.zeros(4, np.int64)
    with pe.ParallelPyEnvironment(makers, max_restarts=9) as env:
        first = env.reset()
        out = ts.TimeStep(*(leaf.copy() for leaf in first))
        env.step(action, out=out)

        env.step(action, out=out)

        assert out.step_type.tolist() == [1, 1, 1, 2]
        assert out.reward.tolist() == [2.0, 2.0, 2.0, 0.0]
        assert out.observation[:, 2].tolist() == [2, 2, 2, 1]


@pytest.mark.parametrize(
    ("leaf", "found"),
    [
        (np.zeros((3, 2), np.int64), "int64 of shape (3, 2)"),
        (np.zeros((3, 3), np.int32), "int32 of shape (3, 3)"),
        (np.broadcast_to(np.int64(0), (3, 3)), "read-only int64 of shape (3, 3)"),
        (None, "None"),
    ],
)
def test_what_cannot_be_written_into_is_refused_and_nothing_moves(
    leaf: Any, found: str
) -> None:
    action = np.zeros(3, np.int64)
    with pe.ParallelPyEnvironment(MAKERS) as env:
        out = env.reset()._replace(observation=leaf)
        with pytest.raises(ValueError, match=r"^out: observation: expected") as info:
            env.step(action, out=out)

        assert str(info.value) == (
            "out: observation: expected a writable array, int64 of shape (3, 3), got "
            f"{found}."
        )
        assert env.step(action).observation[:, 2].tolist() == [1] * 3


def test_what_is_written_into_a_view_does_not_come_back(
    options: dict[str, Any],
) -> None:
    action = np.zeros(3, np.int64)
    with (
        pe.ParallelPyEnvironment(MAKERS, **options) as copying,
        pe.ParallelPyEnvironment(MAKERS, copy=False, **options) as viewing,
    ):
        copying.reset()
        viewing.reset()
        for _ in range(3 * RING):
            view = viewing.step(action)

            assert leaves_of(view) == leaves_of(copying.step(action))
            for leaf in view:
                leaf[...] = 7


def test_rows_that_are_sent_one_by_one_leave_views_alone(
    options: dict[str, Any],
) -> None:
    action = np.zeros(3, np.int64)
    with pe.ParallelPyEnvironment(MAKERS, copy=False, **options) as env:
        steps = rollout(env, RING - 1)
        said = [leaves_of(step) for step in steps]

        for _ in range(3):
            env.send(action)
            env.recv()

        assert [leaves_of(step) for step in steps] == said


@pytest.mark.parametrize("num_workers", [None, 2, 0])
def test_the_last_step_of_a_repair_does_not_come_back(num_workers: int | None) -> None:
    makers = [*MAKERS[:1], functools.partial(environments.RaisingInStep, 3, 99, 6)]
    with pe.ParallelPyEnvironment(
        makers, max_restarts=1, copy=False, num_workers=num_workers
    ) as env:
        steps = rollout(env, 11)

    told = [int(step.step_type[1]) for step in steps[-RING:]]
    assert len(env.failures) == 1
    assert told == [1] * RING


@pytest.mark.parametrize("out", [{}, np.zeros(3), (1, 2, 3, 4)])
def test_what_is_no_time_step_is_refused_as_such(out: Any) -> None:
    with pe.ParallelPyEnvironment(MAKERS, num_workers=0) as env:
        env.reset()

        with pytest.raises(ValueError, match="out: expected a TimeStep of arrays, as"):
            env.step(np.zeros(3, np.int64), out=out)


def test_one_array_for_two_leaves_is_refused() -> None:
    with pe.ParallelPyEnvironment(MAKERS, num_workers=0) as env:
        out = env.reset()

        with pytest.raises(ValueError, match="an array for each leaf, got one twice"):
            env.step(np.zeros(3, np.int64), out=out._replace(reward=out.discount))
