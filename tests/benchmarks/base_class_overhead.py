"""What do making a time step and a step through the base class cost?

Prints the machine, the versions, and the least microseconds of several rounds for each
function that makes a time step, for unbatched NumPy observations, and for what
`PyEnvironment.step` adds to the `_step` that the user wrote.

    python tests/benchmarks/base_class_overhead.py
"""

from __future__ import annotations

import timeit
from collections.abc import Callable

import guarding
import numpy as np

from parallel_envs import py_environment
from parallel_envs import time_step as ts
from parallel_envs.specs import array_spec

_CALLS = 100_000
_ROUNDS = 7


class _Null(py_environment.PyEnvironment):
    """Returns the same step again and again."""

    def __init__(self) -> None:
        super().__init__()
        self._first = ts.restart(np.zeros(4, np.float32))
        self._mid = ts.transition(np.zeros(4, np.float32), 1.0)

    def observation_spec(self) -> array_spec.ArraySpec:
        return array_spec.ArraySpec((4,), np.float32)

    def action_spec(self) -> array_spec.ArraySpec:
        return array_spec.ArraySpec((), np.int32)

    def _reset(self) -> ts.TimeStep:
        return self._first

    def _step(self, action: object) -> ts.TimeStep:
        return self._mid


def _microseconds(function: Callable[[], object]) -> float:
    return min(timeit.repeat(function, number=_CALLS, repeat=_ROUNDS)) / _CALLS * 1e6


def main() -> None:
    observation = np.zeros(4, np.float32)
    reward = np.float32(1)
    env = _Null()
    env.reset()
    user_step = env._step  # pyright: ignore[reportPrivateUsage]
    nothing = _microseconds(lambda: None)
    functions: dict[str, Callable[[], object]] = {
        "restart": lambda: ts.restart(observation),
        "transition": lambda: ts.transition(observation, reward),
        "transition, discount 0.99": lambda: ts.transition(observation, reward, 0.99),
        "termination": lambda: ts.termination(observation, reward),
        "truncation": lambda: ts.truncation(observation, reward),
    }
    guarding.print_machine()
    for name, function in functions.items():
        print(f"{name:<28}{_microseconds(function) - nothing:6.3f} us")
    step = _microseconds(lambda: env.step(None))
    inner = _microseconds(lambda: user_step(None))
    print(f"{'step of the base class adds':<28}{step - inner:6.3f} us")


if __name__ == "__main__":
    main()
