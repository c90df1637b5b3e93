"""What runs in the process of one measurement."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import itertools
import json
import math
import os
import pathlib
import pickle
import signal
import sys
import time
from typing import Any

import numpy as np

from parallel_envs import specs
from parallel_envs.benchmarking import memory
from parallel_envs.benchmarking.measuring import Job, Measurement
from parallel_envs.benchmarking.vector import Vector
from parallel_envs.benchmarking.workloads import ACTION_SPEC, Workload

_NUM_ACTIONS = 16  # Batches of them, taken in turn.
_WARM_UP = 0.25  # Of the seconds that are measured.
_LEAST_WARM_UP_STEPS = 5
_CHUNKS = 20  # Looks at the clock in the time that is measured.
_GRACE_SECONDS = 10
_SCHEDULED = pathlib.Path("/proc/thread-self/schedstat")


def main(result: str) -> None:
    """Reads a job from stdin, does it, and writes what came of it to a file.

    Args:
        result: Path of the file, which appears whole or not at all.
    """
    job: Job = pickle.load(sys.stdin.buffer)
    # Should the parent be killed, nobody else ends this.
    _limit_time(job.timeout + _GRACE_SECONDS)
    try:
        _measure(job, result)
    except Exception as error:
        if not pathlib.Path(result).exists():  # Else it is only the end that failed.
            _write(result, {"reason": _one_line(error)})
        raise


def _measure(job: Job, result: str) -> None:
    peers = "parallel_envs.benchmarking.peers"
    library = importlib.import_module(f"{peers}.{job.contestant.library.package}")
    start = time.perf_counter()
    vector: Vector = library.make(
        job.contestant.way, job.workload, job.num_envs, job.num_cores
    )
    with contextlib.closing(vector):
        vector.reset()
        startup_seconds = time.perf_counter() - start
        actions = [
            vector.as_actions(each) for each in _actions(job.workload, job.num_envs)
        ]
        batches_per_second, busy_share = _rate(vector, actions, job.seconds)
        measurement = Measurement(
            steps_per_second=batches_per_second * job.num_envs,
            startup_seconds=startup_seconds,
            num_workers=vector.num_workers,
            worker_bytes=_worker_bytes(vector.num_workers),
            busy_share=busy_share,
        )
        # Before the end, which may not come at all.
        _write(result, dataclasses.asdict(measurement))
        _limit_time(_GRACE_SECONDS)


def _limit_time(seconds: float) -> None:
    """Has the system end this process after so many seconds from now."""
    if hasattr(signal, "alarm"):
        signal.alarm(math.ceil(seconds))


def _actions(workload: Workload, num_envs: int) -> list[Any]:
    spec: Any = ACTION_SPEC
    if workload.constructor is not None:
        with workload.constructor() as env:
            spec = env.action_spec()
    rng = np.random.default_rng(0)
    return [
        specs.sample(spec, rng, outer_dims=(num_envs,)) for _ in range(_NUM_ACTIONS)
    ]


def _rate(vector: Vector, actions: list[Any], seconds: float) -> tuple[float, float]:
    """Returns batches a second, and the share of the time that this process is busy.

    The clock is not read at each step, which would cost the quick ones more.
    """
    step, following = vector.step, itertools.cycle(actions)
    count, start = 0, time.perf_counter()
    while count < _LEAST_WARM_UP_STEPS or _since(start) < seconds * _WARM_UP:
        step(next(following))
        count += 1
    chunk = max(1, int(count / _since(start) * seconds / _CHUNKS))
    count, start, busy_start = 0, time.perf_counter(), _busy_seconds()
    while _since(start) < seconds:
        for _ in range(chunk):
            step(next(following))
        count += chunk
    elapsed = _since(start)
    return count / elapsed, (_busy_seconds() - busy_start) / elapsed


def _busy_seconds() -> float:
    """Returns the time that this thread has computed, or waited for a core to do so."""
    if not _SCHEDULED.exists():
        return time.process_time()
    computed, waited, _ = map(int, _SCHEDULED.read_text().split())
    return (computed + waited) / 1e9


def _since(start: float) -> float:
    return time.perf_counter() - start


def _worker_bytes(num_workers: int) -> float | None:
    own_bytes = memory.own_bytes_of_descendants(os.getpid()) if num_workers else None
    return None if own_bytes is None else own_bytes / num_workers


def _write(result: str, found: dict[str, Any]) -> None:
    aside = pathlib.Path(f"{result}.new")
    aside.write_text(json.dumps(found), "utf-8")
    aside.replace(result)


def _one_line(error: Exception) -> str:
    """Returns the message, with the class of the error where it is not ours."""
    text = " ".join(str(error).split())[:300]
    is_ours = type(error).__module__.startswith("parallel_envs.")
    return text if is_ours else f"{type(error).__name__}: {text}"
