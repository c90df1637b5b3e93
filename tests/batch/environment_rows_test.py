from __future__ import annotations

import functools
import pickle
import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import parallel_envs as pe
from parallel_envs import time_step as ts
from parallel_envs.batch import environment_rows
from parallel_envs.batch.environment_rows import (
    Birth,
    Command,
    EnvironmentRows,
    Failure,
)
from parallel_envs.process.worker import Report
from parallel_envs.testing import environments
from parallel_envs.testing.random_py_environment import RandomPyEnvironment


class Closing(environments.Counting):
    """Says when it is closed, and whether it should raise then."""

    def __init__(self, said: list[int], index: int, raises: bool = False) -> None:
        super().__init__(index)
        self._said, self._raises = said, raises

    def close(self) -> None:
        self._said.append(self.index)
        if self._raises:
            raise OSError(f"cannot close {self.index}")


def serve(*envs: pe.PyEnvironment) -> tuple[EnvironmentRows, list[npt.NDArray[Any]]]:
    """Returns rows of counting environments, and their arrays: the action first."""
    rows = EnvironmentRows.holding(envs)
    return rows, attached(rows, len(envs))


def attached(rows: EnvironmentRows, count: int) -> list[npt.NDArray[Any]]:
    outputs = [np.zeros(count, kind) for kind in (np.int32, np.float32, np.float32)]
    arrays = [np.zeros(count, np.int64), *outputs, np.zeros((count, 3), np.int64)]
    rows.attach(arrays[:1], arrays[1:])
    return arrays


def test_rounds_write_into_the_arrays_and_tell_nothing_where_all_is_well() -> None:
    rows, arrays = serve(environments.Counting(0), environments.Counting(1))

    told = [rows.round(Command.RESET), rows.round(Command.STEP)]

    assert told == [None, None]
    assert arrays[1].tolist() == [1, 1]
    assert arrays[-1].tolist() == [[0, 0, 1], [1, 0, 1]]


def test_a_failure_concerns_only_its_own_row() -> None:
    rows, arrays = serve(environments.RaisingInReset(0), environments.Counting(1))

    report = rows.round(Command.RESET)

    assert report is not None
    assert [(each.rows, each.doing) for each in report.failures] == [((0,), "reset")]
    assert arrays[-1].tolist() == [[0, 0, 0], [1, 0, 0]]


def test_a_failure_travels_with_its_exception() -> None:
    failure = Failure(range(2, 4), "step", ValueError("bad"))

    arrived = pickle.loads(pickle.dumps(failure))

    assert (arrived.rows, arrived.doing) == ((2, 3), "step")
    assert repr(arrived.exception) == "ValueError('bad')"
    assert arrived.told == failure.told
    assert not arrived.is_misfit


def test_environments_are_made_up_to_one_that_cannot_be_made() -> None:
    said: list[int] = []
    broken = [True]

    def make_or_raise() -> pe.PyEnvironment:
        if broken.pop():
            raise RuntimeError("no display")
        return Closing(said, 5)

    makers = [functools.partial(Closing, said, 4), make_or_raise, make_or_raise]
    births = [Birth()] * 3
    rows = EnvironmentRows(makers, validate=True, first=6)

    told = rows.renew(births)
    missing = rows.missing
    broken += [False, False]
    renewed = rows.renew(births)

    assert isinstance(told, Report)
    assert [(each.rows, each.doing) for each in told.failures] == [
        ((7,), "construction")
    ]
    assert missing == [1, 2]
    assert isinstance(renewed, list)
    assert rows.missing == []
    assert said == []


def test_a_discarded_environment_is_closed_and_its_successor_starts_anew() -> None:
    said: list[int] = []
    makers = [functools.partial(Closing, said, index) for index in range(2)]
    rows = EnvironmentRows(makers, validate=True)
    rows.renew([Birth()] * 2)
    arrays = attached(rows, 2)
    for command in (Command.RESET, Command.STEP):
        rows.round(command)

    rows.discard([1])
    rows.renew([Birth()] * 2)
    rows.round(Command.STEP)

    assert said == [1]
    assert arrays[1].tolist() == [1, 0]
    assert arrays[-1].tolist() == [[0, 0, 2], [1, 0, 0]]


def test_an_environment_that_raises_in_close_does_not_hide_why_it_is_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    makers = [functools.partial(Closing, [], 4, raises=True)]
    rows = EnvironmentRows(makers, validate=True)
    rows.renew([Birth()])

    rows.discard([0])
    introduction = rows.renew([Birth()])

    assert isinstance(introduction, list)
    assert "cannot close 4" in caplog.text


@pytest.mark.parametrize("twice", [False, True])
def test_new_environments_can_start_before_the_others_step(twice: bool) -> None:
    makers = [functools.partial(environments.Counting, index) for index in range(2)]
    rows = EnvironmentRows(makers, validate=True)
    rows.renew([Birth()] * 2)
    arrays = attached(rows, 2)
    for command in (Command.RESET, Command.STEP):
        rows.round(command)

    rows.discard([1])
    rows.renew([Birth()] * 2)
    rows.round(Command.START, [(1, twice)])
    started = arrays[-1].tolist()
    rows.round(Command.STEP)

    assert started == [[0, 0, 1], [1, 0, 0]]
    assert arrays[-1].tolist() == [[0, 0, 2], [1, 1, 0] if twice else [1, 0, 1]]


def test_seeds_come_before_the_first_step_and_the_globals_before_the_constructor() -> (
    None
):
    drawn: list[float] = []

    def make() -> pe.PyEnvironment:
        drawn.append(random.random() + np.random.random())
        return environments.Drawing()

    rows = EnvironmentRows([make], validate=True)

    for births in ([Birth(3, (8,))], [Birth(3, (9,))], [Birth(4)]):
        rows.discard([0])
        rows.renew(births)

    assert drawn[0] == drawn[1] != drawn[2]
    (env,) = rows.environments
    assert isinstance(env, environments.Drawing)
    assert env.generator.random() == np.random.default_rng(0).random()


def test_all_are_closed_once_and_what_they_raise_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said: list[int] = []
    envs = [Closing(said, index, raises=index > 0) for index in range(3)]
    rows = EnvironmentRows.holding(envs)

    rows.close()
    rows.close()

    assert said == [0, 1, 2]
    assert "cannot close 1" in caplog.text
    assert "cannot close 2" in caplog.text


def test_a_description_tells_the_rows_of_a_batched_environment() -> None:
    batched = RandomPyEnvironment(pe.ArraySpec((), "f4"), batch_size=3, seed=0)

    found = [environment_rows.Description.of(e) for e in (Closing([], 0), batched)]

    assert [(each.batch_size, each.num_rows) for each in found] == [(None, 1), (3, 3)]


def test_actions_are_scalars_and_copies_that_stay() -> None:
    env = environments.Counting(length=9)
    rows, arrays = serve(env)
    rows.round(Command.RESET)

    arrays[0][:] = 4
    rows.round(Command.STEP)
    kept = env.last_action
    arrays[0][:] = 5

    assert (type(kept), kept) == (np.int64, 4)


def test_setting_walks_inwards_to_where_the_attribute_is() -> None:
    inner = environments.Counting()
    outer = pe.wrappers.TimeLimit(pe.wrappers.TimeLimit(inner, 9), 8)
    rows = EnvironmentRows.holding([outer])

    rows.request("set_attr", 0, "index", 5)
    rows.request("set_attr", 0, "new", 6)

    assert inner.index == 5
    assert vars(outer)["new"] == 6
    assert "new" not in vars(inner)


def test_looking_up_tells_methods_from_values() -> None:
    rows = EnvironmentRows.holding([environments.Counting(3)])

    assert rows.request("look_up", 0, "index") == (False, 3)
    assert rows.request("look_up", 0, "get_info") == (True, None)


def test_a_time_step_that_is_none_is_a_misfit() -> None:
    class Silent(environments.Counting):
        def _reset(self) -> Any:
            return None

    rows, _ = serve(Silent())

    report = rows.round(Command.RESET)

    assert report is not None
    assert "expected a TimeStep" in str(report.failures[0].exception)


def test_time_steps_are_made_by_the_environments_alone() -> None:
    env = environments.Counting()
    rows, arrays = serve(env)

    rows.round(Command.RESET)
    arrays[-1][:] = 9

    assert ts.TimeStep(*env.current_time_step()).observation.tolist() == [0, 0, 0]
