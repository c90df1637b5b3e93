"""What is tried, what is refused for memory, and what has no place in the time."""

from __future__ import annotations

import dataclasses

import pytest

from parallel_envs.autotuning.facts import Facts
from parallel_envs.autotuning.plan import Plan

MIB = 2**20
FACTS = Facts(
    num_rows=1,
    num_steps=100,
    num_episodes=0,
    step_seconds=0.001,
    step_seconds_p95=0.001,
    step_seconds_max=0.002,
    cpu_share=1.0,
    construct_seconds=0.4,
    warm_up_seconds=0.1,
    further_start_seconds=0.1,
    reset_seconds=0.01,
    observation_bytes=16,
    memory_bytes=100 * MIB,
    further_memory_bytes=10 * MIB,
)


def plan(num_envs: int = 8, num_cores: int = 4, memory: int | None = None) -> Plan:
    return Plan(
        facts=FACTS, num_envs=num_envs, num_cores=num_cores, memory_bytes=memory
    )


@pytest.mark.parametrize(
    ("num_envs", "num_cores", "counts"),
    [
        (1, 4, [0, 1]),
        (4, 4, [0, 4]),
        (8, 1, [0, 1, 2, 8]),
        (8, 4, [0, 4, 8]),
        (128, 16, [0, 16, 32, 128]),
    ],
)
def test_numbers_of_processes_are_tried_once_and_none_is_more_than_environments(
    num_envs: int, num_cores: int, counts: list[int]
) -> None:
    assert plan(num_envs, num_cores).worker_counts() == counts


def test_memory_counts_the_first_environment_of_a_process_and_the_others() -> None:
    assert plan().needed_bytes(8) == 800 * MIB
    assert plan().needed_bytes(2) == (200 + 60) * MIB
    assert plan().needed_bytes(0) == (100 + 70) * MIB


def test_what_does_not_fit_into_memory_is_refused() -> None:
    machine = plan(num_envs=128, memory=4096 * MIB)

    assert machine.impossible(128) == (
        "refused: needs about 12.5 GiB, and 4.0 GiB are free"
    )
    assert machine.impossible(4) == ""


def test_nothing_is_refused_where_memory_is_unknown() -> None:
    unknown = dataclasses.replace(FACTS, memory_bytes=None)
    machine = dataclasses.replace(plan(memory=1), facts=unknown)

    assert machine.needed_bytes(8) is None
    assert machine.impossible(8) == ""
    assert plan(memory=None).impossible(8) == ""


def test_environments_that_cannot_share_are_not_tried_together() -> None:
    alone = dataclasses.replace(FACTS, sharing_error="a second one raised.")
    machine = dataclasses.replace(plan(), facts=alone)

    assert machine.impossible(0) == "failed: a second one raised."
    assert machine.impossible(4) == "failed: a second one raised."
    assert machine.impossible(8) == ""
    assert dataclasses.replace(machine, num_envs=1).impossible(0) == ""


def test_batch_is_reckoned_from_what_computes_and_what_waits() -> None:
    waiting = dataclasses.replace(plan(), facts=dataclasses.replace(FACTS, cpu_share=0))

    assert plan().batch_seconds(0) == pytest.approx(8 * 0.001)
    assert plan().batch_seconds(8) == pytest.approx(2 * 0.001, abs=0.0002)
    assert waiting.batch_seconds(8) == pytest.approx(0.001, abs=0.0002)


def test_trial_that_takes_longer_than_there_is_time_is_told() -> None:
    # 0.5 s for the first environment, 0.1 s for each other, and the process itself.
    assert plan().too_long(0, seconds=10) == ""
    assert plan().too_long(0, seconds=1) == (
        "not tried: takes about 1.4 s, and 1.0 s were left"
    )


def test_further_arguments_are_tried_where_they_may_help() -> None:
    cheap = dataclasses.replace(FACTS, cpu_share=0.1)
    large = dataclasses.replace(FACTS, cpu_share=0.1, observation_bytes=28_224)

    assert {"max_concurrency": 4} in plan().refinements(8)
    assert {"max_concurrency": 4} not in plan().refinements(4)
    assert plan().refinements(0) == []
    assert dataclasses.replace(plan(), facts=cheap).refinements(8) == []
    assert dataclasses.replace(plan(), facts=large).refinements(0) == [{"copy": False}]
