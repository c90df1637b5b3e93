"""How long does it take until workers are there, and how much memory does each take?

Each start is the first in its process, and is put beside what `python -c "import
numpy"` takes in the same run. The memory is that which would be free if the worker
ended, beyond what a fork of a process takes that has imported the same environment.
Exits with 1 if either is far from what it should be.

    python tests/benchmarks/start_up.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import guarding

_OURS = """
import statistics, time
import numpy as np
import parallel_envs as pe
from parallel_envs.benchmarking import memory
from parallel_envs.testing import environments

start = time.perf_counter()
envs = [environments.Counting] * {num_envs}
with pe.ParallelPyEnvironment(envs, start_serially=False) as env:
    env.reset()
    seconds = time.perf_counter() - start
    for _ in range(20):
        env.step(np.zeros({num_envs}, np.int64))
    print(seconds, statistics.median(map(memory.own_bytes, env.worker_pids)))
"""
_FORK = """
import os
import numpy as np
from parallel_envs.benchmarking import memory
from parallel_envs.testing import environments

ready, done = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    env = environments.Counting()
    env.reset()
    for _ in range(20):
        env.step(np.int64(0))
    os.write(ready[1], b".")
    os.read(done[0], 1)
    os._exit(0)
os.read(ready[0], 1)
print(memory.own_bytes(pid))
os.write(done[1], b".")
"""


def main() -> None:
    guard = guarding.Guard()
    bare_bytes = _medians([_FORK])[0][0]
    for num_envs, most in ((8, 6.0), (32, 10.0)):
        program = _OURS.format(num_envs=num_envs)
        (own, imported) = _medians([program, "import numpy"])
        start_seconds, own_bytes, _ = own
        import_seconds = imported[-1]
        print(
            f"{num_envs} workers: {start_seconds:.3f} s, numpy {import_seconds:.3f} s"
        )
        guard.check("start / import", start_seconds / import_seconds, most=most)
        added = (own_bytes - bare_bytes) / 1e6
        guard.check("MB of each worker beyond a fork", added, most=15.0)
    guard.exit()


def _medians(programs: list[str]) -> list[list[float]]:
    """Returns the numbers that each prints, and the seconds it takes, run in turn."""
    rounds = [[_run(program) for program in programs] for _ in range(guarding.ROUNDS)]
    return [
        [statistics.median(values) for values in zip(*runs, strict=True)]
        for runs in zip(*rounds, strict=True)
    ]


def _run(program: str) -> list[float]:
    start = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True
    )
    seconds = time.perf_counter() - start
    return [*map(float, ended.stdout.split()), seconds]


if __name__ == "__main__":
    main()
