from __future__ import annotations

import itertools
import json
import math

import numpy as np

from parallel_envs import trajectory
from parallel_envs.cli.tally import NUM_LATEST, Statistics, Tally


def test_statistics_are_those_of_all_values_and_of_the_latest() -> None:
    statistics = Statistics()

    statistics.add([1000.0, -3.0])
    statistics.add([5.0] * NUM_LATEST)

    assert statistics.count == NUM_LATEST + 2
    assert statistics.mean == (997 + 5 * NUM_LATEST) / (NUM_LATEST + 2)
    assert (statistics.minimum, statistics.maximum) == (-3, 1000)
    assert statistics.latest_mean == 5


def test_statistics_of_nothing_are_nan_and_none() -> None:
    statistics = Statistics()

    assert math.isnan(statistics.mean)
    assert math.isnan(statistics.latest_mean)
    assert set(statistics.summary().values()) == {None}


def test_statistics_of_vectors_are_vectors() -> None:
    statistics = Statistics()

    statistics.add(np.array([[1.0, 4.0], [3.0, 2.0]]))

    assert statistics.summary() == {
        "mean": [2, 3],
        "min": [1, 2],
        "max": [3, 4],
        f"last_{NUM_LATEST}_mean": [2, 3],
    }


def test_restored_tally_goes_on_as_the_stored_one() -> None:
    tally = Tally(2)
    for step in episode(length=3):
        tally(step)
    restored = Tally(2)

    restored.restore(json.loads(json.dumps(tally.to_json())))
    for step in episode(length=4):
        tally(step)
        restored(step)

    assert restored.to_json() == tally.to_json()
    assert (restored.num_steps, restored.num_episodes) == (14, 4)
    assert restored.lengths.summary()["max"] == 4
    assert restored.returns.summary()["mean"] == 7.0


def test_tally_of_an_older_version_has_no_failures() -> None:
    stored = Tally(2).to_json()
    del stored["failures"]
    restored = Tally(2)

    restored.restore(stored)

    assert restored.failures.total == 0


def episode(length: int) -> list[trajectory.Trajectory]:
    """Returns steps of two rows, with reward 2 each, up to the boundary."""
    step_types = [0] + [1] * (length - 1) + [2, 0]
    return [
        trajectory.Trajectory(
            step_type=np.full(2, step_type, np.int32),
            observation=np.zeros(2),
            action=np.zeros(2),
            policy_info=(),
            next_step_type=np.full(2, next_step_type, np.int32),
            reward=np.full(2, 0 if step_type == 2 else 2, np.float32),
            discount=np.ones(2, np.float32),
        )
        for step_type, next_step_type in itertools.pairwise(step_types)
    ]
