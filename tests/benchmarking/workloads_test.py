"""Environments that cost what their name says."""

from __future__ import annotations

import time

import numpy as np
import pytest

from parallel_envs.benchmarking import workloads
from parallel_envs.benchmarking.workloads import Simulation, Workload


def test_every_name_is_that_of_a_workload() -> None:
    names = (*workloads.NAMES, *workloads.SWEEP)

    assert [found(name).name for name in names] == list(names)


def test_name_says_what_a_step_costs() -> None:
    assert found("compute-70us").compute_us == 70
    assert found("sleep-5ms").sleep_seconds == 0.005


@pytest.mark.parametrize("name", ["", "nul", "compute-us", "sleep-2us", "null,image"])
def test_other_names_are_none(name: str) -> None:
    assert workloads.find(name) is None


def test_every_step_writes_the_whole_observation() -> None:
    simulation = Simulation(found("dict"))
    simulation.reset()

    for number in range(1, 4):
        observation, reward, is_over = simulation.step(0)

        assert {name: leaf.dtype for name, leaf in observation.items()} == {
            "camera": np.uint8,
            "position": np.float32,
            "velocity": np.float32,
        }
        assert all((leaf == number).all() for leaf in observation.values())
        assert (reward, is_over) == (1.0, False)


def test_episode_ends_after_200_steps_and_a_reset_begins_the_next() -> None:
    simulation = Simulation(found("null"))

    for _ in range(2):
        simulation.reset()
        ends = [simulation.step(0)[2] for _ in range(200)]

        assert ends == [False] * 199 + [True]


def test_cost_is_a_number_of_iterations_in_proportion() -> None:
    per_us = workloads.iterations_per_us()

    cheap, dear = (
        workloads.calibrated(found(name), per_us).iterations
        for name in ("compute-10us", "compute-1000us")
    )

    assert cheap > 0
    assert dear == pytest.approx(100 * cheap, rel=0.1)  # pyright: ignore[reportUnknownMemberType]
    assert workloads.calibrated(found("null"), per_us).iterations == 0


def test_waiting_takes_as_long_as_it_says() -> None:
    simulation = Simulation(found("sleep-20ms"))
    start = time.perf_counter()

    simulation.step(0)

    assert time.perf_counter() - start >= 0.02


def test_environment_of_ours_is_as_its_specs_say() -> None:
    env = workloads.make_py_environment(found("dict"))
    time_steps = [env.reset(), *(env.step(np.int64(0)) for _ in range(201))]

    assert [int(each.step_type) for each in time_steps] == [0] + [1] * 199 + [2, 0]
    assert time_steps[-1].observation.keys() == env.observation_spec().keys()  # pyright: ignore


@pytest.mark.parametrize(
    ("name", "expected"), [("null", 2), ("compute-30us", 2), ("sleep-2ms", 8)]
)
def test_cores_limit_what_computes_and_rows_what_waits(
    name: str, expected: int
) -> None:
    assert found(name).parallelism(num_envs=8, num_cores=2, busy_share=0.5) == expected


@pytest.mark.parametrize(("busy_share", "expected"), [(1, 2), (0.5, 4), (0.01, 8)])
def test_limit_of_an_unknown_environment_follows_from_how_busy_it_is(
    busy_share: float, expected: float
) -> None:
    workload = Workload(
        "mine", constructor=lambda: workloads.SimulatedEnvironment(found("null"))
    )

    assert workload.parallelism(8, 2, busy_share) == expected


def found(name: str) -> Workload:
    workload = workloads.find(name)
    assert workload is not None
    return workload
