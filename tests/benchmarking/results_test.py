"""Medians and ratios of what was measured."""

from __future__ import annotations

import json

import pytest

from parallel_envs.benchmarking import columns, contestants, workloads
from parallel_envs.benchmarking.contestants import SERIAL, Contestant
from parallel_envs.benchmarking.measuring import Failure, Measurement
from parallel_envs.benchmarking.results import Comparison, Entry

BY_NAME = {each.name: each for each in contestants.ALL}


def test_median_of_the_runs_counts() -> None:
    entry = measured(SERIAL, 10, 900, 20)

    assert entry.steps_per_second == 20


def test_contestant_that_failed_once_has_no_numbers() -> None:
    entry = measured(SERIAL, 10, 10)

    entry.add(Failure("was not done after 2 s"))

    assert entry.steps_per_second is None
    assert entry.failure == "was not done after 2 s"


def test_line_compares_with_peer_serial_and_limit() -> None:
    comparison = compared("compute-100us")

    line = comparison.lines[1]

    assert comparison.limit == 200
    assert line.name == "parallel_envs/cores"
    assert (line.of_peer, line.of_serial, line.of_limit) == (2.0, 1.5, 0.75)
    assert line.us_per_batch == pytest.approx(8e6 / 150)  # pyright: ignore[reportUnknownMemberType]
    assert line.worker_megabytes == 2.0


def test_limit_of_what_waits_is_each_row_at_its_own_speed() -> None:
    assert compared("sleep-2ms").limit == 800


def test_first_peer_is_one_that_has_not_failed() -> None:
    comparison = compared("null")
    (index,) = (
        index
        for index, entry in enumerate(comparison.entries)
        if entry.contestant.name == "gymnasium/async"
    )

    comparison.entries[index].add(Failure("was killed by SIGKILL"))

    assert comparison.first_peer is not None
    assert comparison.first_peer.contestant.name == "moolib/cores"


def test_without_a_serial_run_nothing_is_compared_with_it() -> None:
    comparison = compared("null")

    comparison.entries[0].add(Failure("RuntimeError: no licence"))

    assert comparison.limit is None
    assert comparison.lines[1].of_serial is None
    assert columns.cells(comparison.lines[1])[4:6] == ["-", "-"]
    assert columns.legend(comparison) == "The peer is gymnasium/async."


def test_json_has_the_medians_and_every_run() -> None:
    stored = json.loads(json.dumps(compared("null").to_json()))

    ours = stored["contestants"][1]
    assert ours["steps_per_second"] == 150
    assert [run["steps_per_second"] for run in ours["runs"]] == [150, 149, 151]
    assert stored["first_peer"] == "gymnasium/async"


def compared(name: str) -> Comparison:
    workload = workloads.find(name)
    assert workload is not None
    entries = [
        measured(SERIAL, 100),
        measured(BY_NAME["parallel_envs/cores"], 150, 149, 151),
        measured(BY_NAME["gymnasium/async"], 75),
        measured(BY_NAME["moolib/cores"], 300),
    ]
    return Comparison(workload, 8, num_cores=2, entries=entries)


def measured(contestant: Contestant, *rates: float) -> Entry:
    entry = Entry(contestant)
    for rate in rates:
        entry.add(Measurement(rate, 0.1, 2, 2e6, 1.0))
    return entry
