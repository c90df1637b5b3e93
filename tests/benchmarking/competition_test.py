"""Contestants take turns."""

from __future__ import annotations

from parallel_envs.benchmarking import competition, contestants, workloads
from parallel_envs.benchmarking.competition import Plan
from parallel_envs.benchmarking.workloads import Workload
from parallel_envs.testing import environments

BY_NAME = {each.name: each for each in contestants.ALL}


def test_contestants_are_measured_in_turn_and_all_of_them_again() -> None:
    order: list[tuple[str, int]] = []

    (comparison,) = competition.run(
        plan_of(null()), lambda text, num_done: order.append((text, num_done))
    )

    names = ["serial/loop", "parallel_envs/here"] * 2
    assert order == [
        (f"null, 2 environments: {name}", number) for number, name in enumerate(names)
    ]
    assert [len(entry.measurements) for entry in comparison.entries] == [2, 2]
    assert all(entry.failure is None for entry in comparison.entries)


def test_what_has_failed_is_not_tried_again() -> None:
    hanging = Workload("hanging", constructor=environments.Hanging)

    (comparison,) = competition.run(plan_of(hanging), lambda text, num_done: None)

    assert comparison.limit is None
    assert [len(entry.measurements) for entry in comparison.entries] == [0, 0]
    assert {entry.failure for entry in comparison.entries} == {"was not done after 1 s"}


def plan_of(workload: Workload) -> Plan:
    return Plan(
        contestants=(BY_NAME["parallel_envs/here"],),
        pythons={},
        workloads=(workload,),
        num_envs=(2,),
        num_cores=2,
        runs=2,
        seconds=0.05,
        timeout=1 if workload.constructor else 60,
    )


def null() -> Workload:
    workload = workloads.find("null")
    assert workload is not None
    return workload
