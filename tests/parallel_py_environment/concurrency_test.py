"""How many environments step at a time."""

from __future__ import annotations

import functools
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs import time_step as ts
from parallel_envs.process import facilities
from parallel_envs.testing import environments

ROWS = 6
WAYS: dict[str, dict[str, Any]] = {
    "shared memory": {},
    "sockets": {"shared_memory": False},
    "two rows a worker": {"num_workers": 3},
    "portable": {},
    "restarts": {"max_restarts": 1},
}


class Busy(environments.Counting):
    """Notes when it begins and ends what takes a while."""

    def __init__(self, log: pathlib.Path, index: int) -> None:
        super().__init__(index, length=9)
        self._log = log

    def _note(self, sign: str) -> None:
        descriptor = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, sign.encode())
        os.close(descriptor)

    def _while_busy(self, what: Callable[[], ts.TimeStep]) -> ts.TimeStep:
        self._note("+")
        time.sleep(0.02)
        result = what()
        self._note("-")
        return result

    def _reset(self) -> ts.TimeStep:
        return self._while_busy(super()._reset)

    def _step(self, action: Any) -> ts.TimeStep:
        return self._while_busy(functools.partial(super()._step, action))


def most_at_a_time(log: pathlib.Path) -> int:
    signs = np.array([1 if sign == "+" else -1 for sign in log.read_text()])
    return int(signs.cumsum().max())


@pytest.fixture(params=WAYS)
def options(request: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if request.param == "portable":
        monkeypatch.setenv(facilities.VARIABLE, "1")
    return WAYS[request.param]


@pytest.mark.parametrize("limit", [1, 2])
def test_no_more_environments_are_at_it_than_are_allowed(
    options: dict[str, Any], limit: int, tmp_path: pathlib.Path
) -> None:
    log = tmp_path / "log"
    makers = [functools.partial(Busy, log, index) for index in range(ROWS)]
    with pe.ParallelPyEnvironment(makers, max_concurrency=limit, **options) as env:
        steps = [env.reset(), *(env.step(np.zeros(ROWS, np.int64)) for _ in range(3))]

    assert most_at_a_time(log) == limit
    for number, step in enumerate(steps):
        assert step.observation[:, 0].tolist() == list(range(ROWS))
        assert step.observation[:, 2].tolist() == [number] * ROWS


def test_without_a_limit_all_are_at_it(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    makers = [functools.partial(Busy, log, index) for index in range(ROWS)]
    with pe.ParallelPyEnvironment(makers) as env:
        env.reset()
        while most_at_a_time(log) < ROWS:  # A busy machine may take a few.
            env.step(np.zeros(ROWS, np.int64))


def test_the_next_begins_when_one_is_done_and_not_when_all_are(
    tmp_path: pathlib.Path,
) -> None:
    released = tmp_path / "released"
    os.mkfifo(released)

    class Held(environments.Counting):
        """The first waits until the last has stepped."""

        def _step(self, action: Any) -> ts.TimeStep:
            if self.index == 0:
                released.read_text()
            if self.index == 4:
                released.write_text("x")
            return super()._step(action)

    makers = [functools.partial(Held, index, 9) for index in range(5)]
    with pe.ParallelPyEnvironment(makers, max_concurrency=2) as env:
        env.reset()

        assert env.step(np.zeros(5, np.int64)).step_type.tolist() == [1] * 5


def test_a_row_has_its_time_from_when_its_turn_comes() -> None:
    class Slow(environments.Counting):
        def _step(self, action: Any) -> ts.TimeStep:
            time.sleep(0.3)
            return super()._step(action)

    with pe.ParallelPyEnvironment(
        [Slow] * 4, max_concurrency=1, step_timeout=0.9
    ) as env:
        env.reset()

        assert env.step(np.zeros(4, np.int64)).step_type.tolist() == [1] * 4


def test_an_error_says_who_and_the_next_reset_goes_on() -> None:
    makers = [
        functools.partial(environments.Counting, 0, 9),
        functools.partial(environments.RaisingInStep, 1, 9, 1),
        functools.partial(environments.Dying, 2, 9, 1),
        functools.partial(environments.Counting, 3, 9),
    ]
    with pe.ParallelPyEnvironment(makers, max_concurrency=2) as env:
        env.reset()
        with pytest.raises(pe.WorkerError, match="environment 1 raised") as info:
            env.step(np.zeros(4, np.int64))

        assert set(info.value.indices) <= {1, 2}
        assert env.reset().step_type.tolist() == [0] * 4


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (0, ValueError, "max_concurrency: expected None or at least 1, got 0"),
        (-1, ValueError, "max_concurrency: expected at least 0, got -1"),
        (1.5, TypeError, "max_concurrency: expected None or an int of at least 0"),
        (True, TypeError, "max_concurrency: expected None or an int of at least 0"),
    ],
)
def test_a_limit_is_a_number_of_environments(
    value: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        pe.ParallelPyEnvironment([environments.Counting], max_concurrency=value)


def test_in_this_process_there_is_never_more_than_one() -> None:
    with pe.ParallelPyEnvironment(
        [environments.Counting] * 2, num_workers=0, max_concurrency=2
    ) as env:
        assert env.reset().step_type.tolist() == [0, 0]
