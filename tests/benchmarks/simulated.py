"""Batches of known cost for the scripts of this folder."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import parallel_envs as pe
from parallel_envs.benchmarking import workloads


def workload(name: str) -> workloads.Workload:
    """Returns the workload of this name; see `parallel_envs.benchmarking.workloads`."""
    found = workloads.find(name)
    assert found is not None
    return workloads.calibrated(found, workloads.iterations_per_us())


def start(name: str, num_envs: int, **options: Any) -> pe.ParallelPyEnvironment:
    """Returns a batch of environments of a workload, reset."""
    constructor = functools.partial(workloads.make_py_environment, workload(name))
    env = pe.ParallelPyEnvironment(
        [constructor] * num_envs, start_serially=False, **options
    )
    env.reset()
    return env


def stepping(env: pe.ParallelPyEnvironment) -> Callable[[], object]:
    """Returns what steps it once."""
    assert env.batch_size is not None
    batches = actions(env.batch_size)
    return lambda: env.step(next(batches))


def actions(num_envs: int) -> Iterator[npt.NDArray[np.int64]]:
    """Returns batches of actions, 0 or 1, without an end."""
    rng = np.random.default_rng(0)
    return itertools.cycle([rng.integers(0, 2, num_envs) for _ in range(64)])
