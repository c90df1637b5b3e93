"""How much does a program for TF-Agents gain by the batch alone?

TF-Agents' own `PyDriver` collects from 8 CartPoles, once over TF-Agents' batch and once
over ours, with a policy that costs next to nothing. Then 8 workers are started that
build an environment without TensorFlow, and that are no forks of the program. Needs
TF-Agents; exits with 1 if ours is not clearly better.

    python tests/benchmarks/inside_tf_agents.py
"""

from __future__ import annotations

import collections
import contextlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Generator
from typing import Any

import guarding
import numpy as np

import parallel_envs as pe
from parallel_envs.adapters import tf_agents as adapter
from parallel_envs.adapters.tf_agents import library

NUM_ENVS = 8

_batches: Any = library.part("environments.parallel_py_environment")
_drivers: Any = library.part("drivers.py_driver")
_policies: Any = library.part("policies.py_policy")
_policy_step: Any = library.part("trajectories.policy_step")
_suite: Any = library.part("environments.suite_gym")
_system: Any = library.part("system.system_multiprocessing")

_START = """
import multiprocessing, statistics, time
from parallel_envs.benchmarking import memory
from parallel_envs.testing import environments
{imports}

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    start = time.perf_counter()
    env = {batch}([environments.Counting] * {num_envs})
    env.reset()
    seconds = time.perf_counter() - start
    pids = {pids}
    print(seconds, statistics.median(map(memory.own_bytes, pids)))
    env.close()
"""
_THEIRS = {
    "imports": "from tf_agents.environments import parallel_py_environment\n"
    "from tf_agents.system import system_multiprocessing\n"
    "system_multiprocessing.enable_interactive_mode()",
    "batch": "parallel_py_environment.ParallelPyEnvironment",
    "pids": "[env._process.pid for env in env.envs]",
}
_OURS = {
    "imports": "from parallel_envs.adapters import tf_agents",
    "batch": "tf_agents.ParallelPyEnvironment",
    "pids": "env.worker_pids",
}


def main() -> None:
    guard = guarding.Guard()
    _system.enable_interactive_mode()
    with (
        _collecting(_batches.ParallelPyEnvironment(_theirs())) as theirs,
        _collecting(adapter.ParallelPyEnvironment(_theirs())) as same,
        _collecting(adapter.ParallelPyEnvironment(_ours())) as ours,
        _collecting(adapter.ParallelPyEnvironment(_theirs(), num_workers=0)) as local,
        _collecting(adapter.ParallelPyEnvironment(_ours(), num_workers=0)) as here,
    ):
        found = guarding.medians(
            {
                "TF-Agents' batch, suite_gym": theirs,
                "ours, suite_gym": same,
                "ours, suite_gym, in this process": local,
                "ours, Gymnasium": ours,
                "ours, Gymnasium, in this process": here,
            }
        )
    slowest = found.pop("TF-Agents' batch, suite_gym")
    for name, microseconds in found.items():
        print(f"  {name}: {slowest / microseconds:.1f} times the steps")
    same_work = slowest / found["ours, suite_gym, in this process"]
    guard.check("steps/s of the same environments", same_work, least=4.0)
    without_gym = slowest / found["ours, Gymnasium"]
    guard.check("steps/s with Gymnasium's in processes", without_gym, least=3.0)
    theirs, ours = _starts(_THEIRS), _starts(_OURS)
    print(f"start: {theirs[0]:.2f} s and {ours[0]:.2f} s")
    print(f"memory of a worker: {theirs[1] / 1e6:.0f} MB and {ours[1] / 1e6:.0f} MB")
    guard.check("start, theirs / ours", theirs[0] / ours[0], least=5.0)
    guard.check("memory, theirs / ours", theirs[1] / ours[1], least=5.0)
    guard.exit()


class Constant(_policies.PyPolicy):
    """Pushes to the left and to the right, in halves of the batch."""

    def _action(self, time_step: Any, policy_state: Any, seed: Any = None) -> Any:
        return _ACTION


_ACTION = _policy_step.PolicyStep(np.arange(NUM_ENVS) % 2)


def _theirs() -> list[Callable[[], Any]]:
    return [lambda: _suite.load("CartPole-v1")] * NUM_ENVS


def _ours() -> list[Callable[[], Any]]:
    return [pe.suites.constructor("CartPole-v1")] * NUM_ENVS


@contextlib.contextmanager
def _collecting(env: Any) -> Generator[Callable[[], object], None, None]:
    """Gives a function that collects once from each row, by TF-Agents' driver."""
    policy = Constant(env.time_step_spec(), env.action_spec())
    seen: collections.deque[Any] = collections.deque(maxlen=1)
    driver = _drivers.PyDriver(env, policy, [seen.append], max_steps=50 * NUM_ENVS)
    with contextlib.closing(env):
        time_step = env.reset()
        yield lambda: driver.run(time_step)


def _starts(names: dict[str, str]) -> list[float]:
    """Returns seconds until all workers have reset, and the bytes of one alone."""
    program = _START.format(num_envs=NUM_ENVS, **names)
    runs = [_run(program) for _ in range(3)]
    return [statistics.median(values) for values in zip(*runs, strict=True)]


def _run(program: str) -> list[float]:
    ended = subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True
    )
    return [float(number) for number in ended.stdout.split()]


if __name__ == "__main__":
    main()
