"""What does being an environment of TF-Agents add to a step of a batch?

Prints the machine, the versions, and for nests of one, ten and a hundred leaves the
microseconds that a step of our batch takes, and those that it takes more as TF-Agents'
`PyEnvironment`, and through `to_tf_agents`: less than one, whatever the nest. Both
sides of a difference are the same batch, since two of them differ by more than that;
time steps of the class are made of our `TimeStep` for the one side, and of TF-Agents'
for the other. Rows are in this process, where a step takes the least.

    python tests/benchmarks/tf_agents_adapter.py
"""

from __future__ import annotations

import functools
import math
import time
import timeit
from collections.abc import Callable
from typing import Any

import guarding
import numpy as np

import parallel_envs as pe
from parallel_envs import time_step as ts
from parallel_envs.adapters import tf_agents as adapter
from parallel_envs.specs import nest

_NUM_LEAVES = (1, 10, 100)
_STEPS = 50
_ROUNDS = 300


class _Null(pe.PyEnvironment):
    """Returns the same step again and again, of a dict of leaves."""

    def __init__(self, num_leaves: int) -> None:
        super().__init__()
        self._spec = {
            f"leaf_{number}": pe.ArraySpec((2,), np.float32)
            for number in range(num_leaves)
        }
        leaves = {name: np.zeros(2, np.float32) for name in self._spec}
        self._first, self._mid = ts.restart(leaves), ts.transition(leaves, 1.0)

    def observation_spec(self) -> nest.Nest:
        return self._spec

    def action_spec(self) -> nest.Nest:
        return pe.BoundedArraySpec((), np.int32, 0, 1)

    def _reset(self) -> ts.TimeStep:
        return self._first

    def _step(self, action: nest.Nest) -> ts.TimeStep:
        return self._mid


def _microseconds(*steps: Callable[[], object]) -> list[float]:
    """Returns the least of many short rounds, taken in turn, for each of `steps`."""
    rounds = [
        [timeit.timeit(step, timer=time.thread_time, number=_STEPS) for step in steps]
        for _ in range(_ROUNDS)
    ]
    return [min(times) / _STEPS * 1e6 for times in zip(*rounds, strict=True)]


def main() -> None:
    guard = guarding.Guard()
    action = np.zeros(1, np.int32)
    for num_leaves in _NUM_LEAVES:
        constructors = [functools.partial(_Null, num_leaves)]
        ours: Any = pe.ParallelPyEnvironment(constructors, num_workers=0)
        theirs: Any = adapter.ParallelPyEnvironment(constructors, num_workers=0)
        adapted = adapter.to_tf_agents(ours)
        ours.reset()
        theirs.reset()
        their_type: Any = theirs.time_step_spec().__class__

        def step_of(kind: Any, batch: Any = theirs) -> Callable[[], object]:
            def step() -> object:
                batch._time_step_type = kind
                return batch.step(action)

            return step

        without, within, plain, through = _microseconds(
            step_of(ts.TimeStep),
            step_of(their_type),
            lambda batch=ours: batch.step(action),
            lambda batch=adapted: batch.step(action),
        )
        print(f"{num_leaves} leaves: a step of our batch takes {plain:.1f} us")
        for name, added in (
            ("the class", within - without),
            ("to_tf_agents", through - plain),
        ):
            guard.check(f"  us that {name} adds", added, least=-math.inf, most=1)
        ours.close()
        theirs.close()
    guard.exit()


if __name__ == "__main__":
    main()
