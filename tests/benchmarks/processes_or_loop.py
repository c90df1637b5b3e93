"""From which cost of a step on do processes pay, against a plain loop?

Eight environments of Gymnasium are stepped as a batch: by a loop that steps one after
another, resets those that ended, and stacks what they return; and by
`ParallelPyEnvironment` with `num_workers` None (a process each), 2 and 0 (this
process). They do nothing; are CartPole; compute for 100 us; wait for 2 ms. Prints the
machine, the versions, and the microseconds of a batch of steps, the median of several
rounds.

    python tests/benchmarks/processes_or_loop.py
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import gymnasium
import numpy as np

import parallel_envs as pe

_NUM_ENVS = 8
_ROUNDS = 5
_ROUND_SECONDS = 0.2


class _Null(gymnasium.Env[Any, Any]):
    """Returns the same step again and again."""

    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.observation = np.zeros(4, np.float32)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.observation, {}

    def step(self, action: Any) -> Any:
        return self.observation, 1.0, False, False, {}


class _Computing(_Null):
    """Computes for 100 us: time of the processor, not of the clock on the wall."""

    def step(self, action: Any) -> Any:
        end = time.thread_time_ns() + 100_000
        while time.thread_time_ns() < end:
            pass
        return super().step(action)


class _Waiting(_Null):
    """Waits for 2 ms, as for a simulator or a network."""

    def step(self, action: Any) -> Any:
        time.sleep(0.002)
        return super().step(action)


def _cart_pole() -> Any:
    return gymnasium.make("CartPole-v1")


def _loop(make: Callable[[], Any]) -> float:
    envs = [make() for _ in range(_NUM_ENVS)]
    for env in envs:
        env.reset(seed=0)

    def step(actions: Any) -> Any:
        observations: list[Any] = []
        rewards: list[Any] = []
        for env, action in zip(envs, actions, strict=True):
            observation, reward, is_terminated, is_truncated, _ = env.step(action)
            if is_terminated or is_truncated:
                observation, _ = env.reset()
            observations.append(observation)
            rewards.append(reward)
        return np.stack(observations), np.array(rewards, np.float32)

    return _microseconds(step)


def _batch(make: Callable[[], Any], num_workers: int | None) -> float:
    constructors = [make] * _NUM_ENVS
    with pe.ParallelPyEnvironment(constructors, num_workers=num_workers) as env:
        env.reset()
        return _microseconds(env.step)


def _microseconds(step: Callable[[Any], Any]) -> float:
    actions = np.random.default_rng(0).integers(0, 2, (64, _NUM_ENVS))

    def seconds(num_steps: int) -> float:
        start = time.perf_counter()
        for number in range(num_steps):
            step(actions[number % 64])
        return time.perf_counter() - start

    num_steps = max(20, int(50 * _ROUND_SECONDS / seconds(50)))
    rounds = [seconds(num_steps) / num_steps for _ in range(_ROUNDS)]
    return statistics.median(rounds) * 1e6


def main() -> None:
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.platform()}")
    versions = [f"{name} {metadata.version(name)}" for name in ("numpy", "gymnasium")]
    print(f"Python {platform.python_version()}, {', '.join(versions)}")
    load = os.getloadavg()[0]
    print(f"load before: {load:.1f}; us a batch of {_NUM_ENVS}, median of {_ROUNDS}")
    print(f"{'':<12}{'loop':>9}{'8 workers':>12}{'2 workers':>12}{'0 workers':>12}")
    makers: dict[str, Callable[[], Any]] = {
        "nothing": _Null,
        "CartPole-v1": _cart_pole,
        "100 us": _Computing,
        "2 ms wait": _Waiting,
    }
    for name, make in makers.items():
        batches = [_batch(make, num_workers) for num_workers in (None, 2, 0)]
        cells = "".join(f"{batch:12.0f}" for batch in batches)
        print(f"{name:<12}{_loop(make):9.0f}{cells}")


if __name__ == "__main__":
    main()
