"""What does the adapter add to a step of an environment of Gymnasium?

Prints the machine, the versions, and for each environment the microseconds of a step
without and with the adapter: the least of several rounds that alternate between both.

    python tests/benchmarks/gymnasium_adapter.py
"""

from __future__ import annotations

import functools
import timeit
from collections.abc import Callable
from typing import Any

import guarding
import gymnasium
import numpy as np
import simulated

from parallel_envs.adapters import from_gymnasium
from parallel_envs.benchmarking.peers import gymnasium_form

_STEPS = 5_000
_ROUNDS = 11


def _endless_cart_pole() -> Any:
    env: Any = gymnasium.make("CartPole-v1", max_episode_steps=10**9)
    env.unwrapped.theta_threshold_radians = env.unwrapped.x_threshold = np.inf
    return env


def _microseconds(step: Callable[[Any], Any]) -> float:
    left, right = np.int64(0), np.int64(1)

    def run() -> None:
        for _ in range(_STEPS // 2):
            step(left)
            step(right)

    return timeit.timeit(run, number=1) / _STEPS * 1e6


def main() -> None:
    guarding.print_machine("gymnasium")
    null = functools.partial(gymnasium_form.make, simulated.workload("null"))
    makers = {"nothing": null, "CartPole-v1": _endless_cart_pole}
    for name, make in makers.items():
        bare, adapted = make(), from_gymnasium(make())
        bare_times: list[float] = []
        adapted_times: list[float] = []
        for _ in range(_ROUNDS):
            bare.reset(seed=0)
            adapted.seed(0)
            adapted.reset()
            bare_times.append(_microseconds(bare.step))
            adapted_times.append(_microseconds(adapted.step))
        without, with_adapter = min(bare_times), min(adapted_times)
        print(
            f"{name:<12} bare {without:5.2f} us, adapted {with_adapter:5.2f} us, "
            f"added {with_adapter - without:5.2f} us"
        )


if __name__ == "__main__":
    main()
