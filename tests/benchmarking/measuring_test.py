"""One measurement in a process of its own, whatever becomes of it."""

from __future__ import annotations

import os
import pathlib
import sys
import time
from collections.abc import Callable

import pytest

from parallel_envs.benchmarking import contestants, workloads
from parallel_envs.benchmarking.contestants import SERIAL, Contestant
from parallel_envs.benchmarking.measuring import Failure, Job, Measurement, measure
from parallel_envs.benchmarking.workloads import Workload
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.testing import environments

BY_NAME = {each.name: each for each in contestants.ALL}
EACH = BY_NAME["parallel_envs/each"]


@pytest.mark.parametrize(
    ("name", "num_workers"),
    [
        ("parallel_envs/here-views", 0),
        ("parallel_envs/cores", 2),
        ("parallel_envs/each", 3),
        ("gymnasium/async", 3),
        ("gymnasium/sync", 0),
    ],
)
def test_measurement_has_speed_start_and_memory(name: str, num_workers: int) -> None:
    outcome = measure(job(BY_NAME[name], found("dict")))

    assert isinstance(outcome, Measurement), outcome
    assert outcome.num_workers == num_workers
    assert outcome.steps_per_second > 100
    assert 0 < outcome.startup_seconds < 20
    assert 0 < outcome.busy_share < 1.1
    if num_workers:
        assert outcome.worker_bytes is not None
        assert 5e5 < outcome.worker_bytes < 1e8
    else:
        assert outcome.worker_bytes is None


def test_plain_loop_that_waits_is_not_busy() -> None:
    outcome = measure(job(SERIAL, found("sleep-5ms")))

    assert isinstance(outcome, Measurement), outcome
    assert outcome.steps_per_second < 200
    assert outcome.busy_share < 0.5


@pytest.mark.parametrize(
    ("contestant", "constructor", "words"),
    [
        (SERIAL, environments.RaisingInConstructor, "RuntimeError: "),
        (SERIAL, environments.Dying, "was killed by SIGKILL"),
        (SERIAL, environments.Exiting, "ended with exit code 3"),
        (EACH, environments.Dying, "died during step"),
        (
            BY_NAME["gymnasium/sync"],
            environments.Counting,
            "the environment is not one of Gymnasium",
        ),
    ],
)
def test_what_fails_is_told_in_one_line(
    contestant: Contestant, constructor: Callable[[], PyEnvironment], words: str
) -> None:
    outcome = measure(job(contestant, Workload("faulty", constructor=constructor)))

    assert isinstance(outcome, Failure)
    assert words in outcome.reason
    assert "\n" not in outcome.reason


@pytest.mark.parametrize("contestant", [SERIAL, EACH], ids=lambda each: each.name)
def test_what_hangs_is_ended_with_all_its_processes(
    contestant: Contestant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARK_OF_A_TEST", f"{os.getpid()}-{contestant.name}")
    hanging = Workload("hanging", constructor=environments.Hanging)
    start = time.monotonic()

    outcome = measure(job(contestant, hanging, timeout=1.5))

    assert outcome == Failure("was not done after 1.5 s")
    assert time.monotonic() - start < 10
    deadline = time.monotonic() + 10  # A pool ends by itself when its owner is gone.
    while marked() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert marked() == []


def test_temporary_files_are_removed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    outcome = measure(job(SERIAL, Workload("littering", constructor=Littering)))

    assert isinstance(outcome, Measurement), outcome
    assert list(tmp_path.iterdir()) == []


class Littering(environments.Counting):
    """Leaves a temporary file behind."""

    def __init__(self) -> None:
        super().__init__()
        folder = os.environ["TMPDIR"]
        pathlib.Path(folder, f"litter-{time.monotonic_ns()}").touch()


def job(contestant: Contestant, workload: Workload, timeout: float = 60) -> Job:
    return Job(
        contestant,
        sys.executable,
        workload,
        3,
        num_cores=2,
        seconds=0.05,
        timeout=timeout,
    )


def found(name: str) -> Workload:
    workload = workloads.find(name)
    assert workload is not None
    return workload


def marked() -> list[int]:
    """Returns the processes, but for this one, that know the mark of the test."""
    mark = f"MARK_OF_A_TEST={os.environ['MARK_OF_A_TEST']}".encode()
    processes: list[int] = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    processes.append(int(entry.name))
            except OSError:  # It has ended, or is somebody else's.
                continue
    return processes
