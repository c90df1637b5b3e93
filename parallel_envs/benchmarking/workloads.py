"""What is stepped: environments that cost what their name says, or the user's own.

null            four floats, no work
image           a picture of 84x84x4 bytes, no work
dict            a picture of 64x64x3 bytes and two vectors, no work
compute-100us   17 floats, computes for 100 us; any number will do
sleep-2ms       17 floats, waits for 2 ms; any number will do

All of them write their whole observation anew at each step.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from parallel_envs import py_environment
from parallel_envs import time_step as ts
from parallel_envs.specs import array_spec, nest

ObservationSpec = array_spec.ArraySpec | dict[str, array_spec.ArraySpec]

NAMES = (
    "null",
    "image",
    "dict",
    "compute-10us",
    "compute-30us",
    "compute-100us",
    "compute-1000us",
    "sleep-2ms",
)
SWEEP = tuple(f"compute-{cost}us" for cost in (0, 10, 30, 100, 300, 1000))

ACTION_SPEC = array_spec.BoundedArraySpec((), np.int64, 0, 5)
"""Of all workloads but the user's own."""

_EPISODE_STEPS = 200
_COST = re.compile(r"compute-(?P<compute>\d+)us|sleep-(?P<sleep>\d+)ms")
_CALIBRATION_ITERATIONS = 20_000
_CALIBRATION_ROUNDS = 300

_OBSERVATIONS: dict[str, ObservationSpec] = {
    "null": array_spec.ArraySpec((4,), np.float32),
    "image": array_spec.ArraySpec((84, 84, 4), np.uint8),
    "dict": {
        "camera": array_spec.ArraySpec((64, 64, 3), np.uint8),
        "position": array_spec.ArraySpec((3,), np.float32),
        "velocity": array_spec.ArraySpec((3,), np.float32),
    },
}
_OF_WORK = array_spec.ArraySpec((17,), np.float32)


@dataclasses.dataclass(frozen=True)
class Workload:
    """What an environment is like. It pickles, and peers make their own form of it.

    Attributes:
        name: What it is called in tables.
        observation: Spec of an observation, or a dict of them.
        compute_us: Microseconds that a step computes.
        sleep_seconds: How long a step waits.
        iterations: Turns of an empty loop that take `compute_us`. Not a time to wait
            for: a process that has to stand back would get its work for free.
        constructor: What makes the user's own environment, for which nothing above but
            the name counts; None for those of this module.
    """

    name: str
    observation: ObservationSpec = _OF_WORK
    compute_us: int = 0
    sleep_seconds: float = 0.0
    iterations: int = 0
    constructor: Callable[[], py_environment.PyEnvironment] | None = None

    def parallelism(self, num_envs: int, num_cores: int, busy_share: float) -> float:
        """Returns how many environments can be at work at a time, if nothing else is.

        Args:
            num_envs: How many there are.
            num_cores: How many cores.
            busy_share: Part of the time in which a plain loop of the environment
                computes; of the user's own it tells what it does.
        """
        if self.sleep_seconds:
            return num_envs
        if self.constructor is None:
            return min(num_envs, num_cores)
        return min(num_envs, num_cores / max(busy_share, 1e-9))


def find(name: str) -> Workload | None:
    """Returns the workload of that name, not calibrated; None if there is none."""
    if name in _OBSERVATIONS:
        return Workload(name, _OBSERVATIONS[name])
    found = _COST.fullmatch(name)
    if found is None:
        return None
    if found["compute"] is not None:
        return Workload(name, _OF_WORK, compute_us=int(found["compute"]))
    return Workload(name, _OF_WORK, sleep_seconds=int(found["sleep"]) / 1000)


def iterations_per_us() -> float:
    """Returns how often an empty loop turns in a microsecond; takes some 0.1 s.

    The fastest of many rounds: what else the machine does can only slow them down.
    """
    seconds = min(_seconds_of_rounds() for _ in range(_CALIBRATION_ROUNDS))
    return _CALIBRATION_ITERATIONS / (seconds * 1e6)


def calibrated(workload: Workload, per_us: float) -> Workload:
    """Returns the workload with the iterations that its computing takes."""
    iterations = round(workload.compute_us * per_us)
    return dataclasses.replace(workload, iterations=iterations)


class Simulation:
    """A workload of this module at work, for peers to wrap in a form of theirs."""

    def __init__(self, workload: Workload) -> None:
        """Allocates the observation, which every step writes into."""
        spec = workload.observation
        # By hand, or workers would import the tree library for it.
        self.observation: Any = (
            {name: np.zeros(spec[name].shape, spec[name].dtype) for name in spec}
            if isinstance(spec, dict)
            else np.zeros(spec.shape, spec.dtype)
        )
        self._leaves: list[Any] = (
            list(self.observation.values())
            if isinstance(spec, dict)
            else [self.observation]
        )
        self._iterations = workload.iterations
        self._sleep_seconds = workload.sleep_seconds
        self._num_steps = 0

    def reset(self) -> Any:
        """Returns the observation."""
        self._num_steps = 0
        return self.observation

    def step(self, action: object) -> tuple[Any, float, bool]:
        """Returns observation, reward, and whether the episode is over."""
        self._num_steps += 1
        if self._sleep_seconds:
            time.sleep(self._sleep_seconds)
        work(self._iterations)
        for leaf in self._leaves:
            leaf.fill(self._num_steps)
        return self.observation, 1.0, self._num_steps >= _EPISODE_STEPS

    def close(self) -> None:
        """Does nothing; others have something to close."""


class SimulatedEnvironment(py_environment.PyEnvironment):
    """A workload of this module in our own form."""

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        self._simulation = Simulation(workload)
        self._observation_spec = workload.observation

    def observation_spec(self) -> nest.Nest:
        return self._observation_spec

    def action_spec(self) -> array_spec.BoundedArraySpec:
        return ACTION_SPEC

    def _reset(self) -> ts.TimeStep:
        return ts.restart(self._simulation.reset())

    def _step(self, action: nest.Nest) -> ts.TimeStep:
        observation, reward, is_over = self._simulation.step(action)
        make = ts.termination if is_over else ts.transition
        return make(observation, reward)


def make_py_environment(workload: Workload) -> py_environment.PyEnvironment:
    """Returns an environment of the workload."""
    if workload.constructor is None:
        return SimulatedEnvironment(workload)
    return workload.constructor()


def work(iterations: int) -> None:
    """Computes nothing, for as long as so many iterations take."""
    for _ in range(iterations):
        pass


def _seconds_of_rounds() -> float:
    start = time.perf_counter()
    work(_CALIBRATION_ITERATIONS)
    return time.perf_counter() - start
