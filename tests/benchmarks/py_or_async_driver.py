"""Where does AsyncDriver pay, against PyDriver?

Environments that wait or compute, all alike or not, under a policy that costs nothing,
or waits 0.1 ms for each row, as for an accelerator. Prints the machine, and steps a
second of both drivers, the median of several runs of each in turn; both tell a replay
buffer.

    python tests/benchmarks/py_or_async_driver.py
"""

from __future__ import annotations

import functools
import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import parallel_envs as pe

_ROUNDS = 5
_RUN_SECONDS = 0.4


class _Waiting(pe.PyEnvironment):
    """Waits in each step for one of a few times, drawn again and again."""

    def __init__(self, milliseconds: list[float], seed: int) -> None:
        super().__init__()
        self._milliseconds = milliseconds
        self._generator = np.random.default_rng(seed)

    def observation_spec(self) -> Any:
        return pe.ArraySpec((4,), np.float32)

    def action_spec(self) -> Any:
        return pe.ArraySpec((), np.int64)

    def _reset(self) -> pe.TimeStep:
        return pe.restart(np.zeros(4, np.float32))

    def _step(self, action: Any) -> pe.TimeStep:
        self._pass(self._generator.choice(self._milliseconds) / 1000)
        return pe.transition(np.ones(4, np.float32), 1.0)

    def _pass(self, seconds: float) -> None:
        if seconds:
            time.sleep(seconds)


class _Computing(_Waiting):
    """Computes as long: time of the processor, not of the clock on the wall."""

    def _pass(self, seconds: float) -> None:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass


def _free(time_step: pe.TimeStep) -> Any:
    return np.zeros(len(time_step.step_type), np.int64)


def _costly(time_step: pe.TimeStep) -> Any:
    time.sleep(0.1e-3 * len(time_step.step_type))
    return _free(time_step)


def _steps_a_second(driver: Any, max_steps: int) -> float:
    driver.run()  # Whatever comes once is over then.
    start = time.perf_counter()
    driver.run()
    return max_steps / (time.perf_counter() - start)


def _compare(
    makers: list[Callable[[], Any]], num_workers: int | None, policy: Any
) -> list[float]:
    num_rows = len(makers)
    with pe.ParallelPyEnvironment(makers, num_workers=num_workers) as env:
        speeds: dict[Any, list[float]] = {pe.PyDriver: [], pe.AsyncDriver: []}
        for _ in range(_ROUNDS):
            for kind, found in speeds.items():
                buffer = pe.ReplayBuffer(capacity=1000, num_streams=num_rows)
                latest = found[-1] if found else 100.0 * num_rows
                max_steps = int(latest * _RUN_SECONDS)
                driver = kind(env, policy, [buffer.add_batch], max_steps=max_steps)
                found.append(_steps_a_second(driver, max_steps))
    return [statistics.median(found) for found in speeds.values()]


def main() -> None:
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, NumPy {np.__version__}; "
        f"load before: {os.getloadavg()[0]:.1f}"
    )
    waiting: Any = functools.partial(functools.partial, _Waiting)
    computing: Any = functools.partial(functools.partial, _Computing)
    cases: dict[str, tuple[list[Any], int | None, Any]] = {
        "8, 2 ms wait, free policy": ([waiting([2], n) for n in range(8)], None, _free),
        "8, 2 ms wait": ([waiting([2], n) for n in range(8)], None, _costly),
        "8, 1 or 10 ms wait": ([waiting([1, 10], n) for n in range(8)], None, _costly),
        "8, 1 ms wait, one 20 ms": (
            [waiting([20 if n == 7 else 1], n) for n in range(8)],
            None,
            _costly,
        ),
        "32, 0.1 ms, 2 workers": ([computing([0.1], n) for n in range(32)], 2, _costly),
        "32, nothing, 2 workers": ([waiting([0], n) for n in range(32)], 2, _free),
    }
    print(f"{'':<28}{'PyDriver':>10}{'AsyncDriver':>13}{'ratio':>8}")
    for name, case in cases.items():
        py, asynchronous = _compare(*case)
        print(f"{name:<28}{py:10,.0f}{asynchronous:13,.0f}{asynchronous / py:8.2f}")


if __name__ == "__main__":
    main()
