"""On which cores workers run."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs.process import facilities
from parallel_envs.testing import environments
from tests import waiting

USABLE = sorted(os.sched_getaffinity(0))
FIRST, LAST = USABLE[0], USABLE[-1]


class Placed(environments.Counting):
    """Knows where it was made and where it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.made_on = os.sched_getaffinity(0)

    def cores(self) -> set[int]:
        assert os.sched_getaffinity(0) == self.made_on
        return self.made_on


@pytest.fixture(params=["spawn", "fork", "portable"])
def options(request: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if request.param == "portable":
        monkeypatch.setenv(facilities.VARIABLE, "1")
        return {}
    return {"context": request.param}


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        (None, [set(USABLE)] * 3),
        ("auto", [{USABLE[n % len(USABLE)]} for n in range(3)]),
        ([LAST], [{LAST}] * 3),
        ([LAST, FIRST], [{LAST}, {FIRST}, {LAST}]),
        ([[FIRST, LAST], (LAST,)], [{FIRST, LAST}, {LAST}, {FIRST, LAST}]),
        (np.array([LAST, FIRST]), [{LAST}, {FIRST}, {LAST}]),
    ],
    ids=repr,
)
def test_workers_run_where_they_are_told(
    affinity: Any, expected: list[set[int]]
) -> None:
    with pe.ParallelPyEnvironment([Placed] * 3, affinity=affinity) as env:
        assert env.call("cores") == expected
    assert os.sched_getaffinity(0) == set(USABLE)


def test_they_do_so_however_they_start(options: dict[str, Any]) -> None:
    with pe.ParallelPyEnvironment([Placed] * 2, affinity=[LAST], **options) as env:
        assert env.call("cores") == [{LAST}] * 2


def test_the_environments_of_a_worker_share_its_cores() -> None:
    with pe.ParallelPyEnvironment(
        [Placed] * 4, num_workers=2, affinity=[LAST, FIRST]
    ) as env:
        assert env.call("cores") == [{LAST}, {LAST}, {FIRST}, {FIRST}]


def test_a_replacement_runs_where_the_lost_one_did() -> None:
    with pe.ParallelPyEnvironment([Placed] * 2, affinity=[LAST, FIRST]) as env:
        env.reset()
        os.kill(env.worker_pids[0], signal.SIGKILL)
        waiting.wait_for_end(env.worker_pids[:1])
        env.reset()

        assert env.call("cores") == [{LAST}, {FIRST}]


@pytest.mark.parametrize(
    ("affinity", "kind", "message"),
    [
        ([10**6], ValueError, "affinity: expected cores that this process may use"),
        ([-1], ValueError, "affinity: expected at least 0, got -1"),
        ([()], ValueError, "affinity: expected cores that this process may use"),
        ([0.5], TypeError, "affinity: expected cores, each an int of at least 0"),
        ([], TypeError, "affinity: expected None, .auto. or a list of cores, got"),
        ("all", TypeError, "affinity: expected None, .auto. or a list of cores, got"),
        (0, TypeError, "affinity: expected None, .auto. or a list of cores, got 0"),
    ],
)
def test_what_is_no_list_of_cores_is_refused(
    affinity: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        pe.ParallelPyEnvironment([Placed], affinity=affinity)


def test_there_is_nobody_to_place_without_workers() -> None:
    with pytest.raises(
        ValueError, match="affinity: expected None, since num_workers=0"
    ):
        pe.ParallelPyEnvironment([Placed], num_workers=0, affinity="auto")
