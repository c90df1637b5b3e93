"""Reinforcement learning environments, many at once, in processes of their own.

    >>> import parallel_envs as pe
    >>> from parallel_envs.testing import environments
    >>> with pe.ParallelPyEnvironment([environments.Counting] * 8) as env:
    ...     time_step = env.reset()
    >>> time_step.observation.shape
    (8, 3)

The parts that are not needed to step environments are modules that are loaded when
they are first touched: `adapters`, `drivers`, `metrics`, `replay`, `suites`, `testing`
and `wrappers`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from parallel_envs import specs as specs
from parallel_envs import time_step as time_step
from parallel_envs import trajectory as trajectory
from parallel_envs.batched_py_environment import (
    BatchedPyEnvironment as BatchedPyEnvironment,
)
from parallel_envs.errors import ClosedError as ClosedError
from parallel_envs.errors import WorkerDiedError as WorkerDiedError
from parallel_envs.errors import WorkerError as WorkerError
from parallel_envs.errors import WorkerTimeoutError as WorkerTimeoutError
from parallel_envs.parallel_py_environment import (
    ParallelPyEnvironment as ParallelPyEnvironment,
)
from parallel_envs.py_environment import PyEnvironment as PyEnvironment
from parallel_envs.seeding import spread_seeds as spread_seeds
from parallel_envs.specs import ArraySpec as ArraySpec
from parallel_envs.specs import BoundedArraySpec as BoundedArraySpec
from parallel_envs.specs import sample_spec_nest as sample_spec_nest
from parallel_envs.time_step import StepType as StepType
from parallel_envs.time_step import TimeStep as TimeStep
from parallel_envs.time_step import restart as restart
from parallel_envs.time_step import termination as termination
from parallel_envs.time_step import time_step_spec as time_step_spec
from parallel_envs.time_step import transition as transition
from parallel_envs.time_step import truncation as truncation
from parallel_envs.trajectory import PolicyStep as PolicyStep
from parallel_envs.trajectory import Trajectory as Trajectory
from parallel_envs.trajectory import from_transition as from_transition

if TYPE_CHECKING:
    from parallel_envs import adapters as adapters
    from parallel_envs import drivers as drivers
    from parallel_envs import errors as errors
    from parallel_envs import metrics as metrics
    from parallel_envs import replay as replay
    from parallel_envs import suites as suites
    from parallel_envs import testing as testing
    from parallel_envs import wrappers as wrappers
    from parallel_envs.autotuning.autotune import autotune as autotune
    from parallel_envs.drivers import Actor as Actor
    from parallel_envs.drivers import AsyncDriver as AsyncDriver
    from parallel_envs.drivers import PyDriver as PyDriver
    from parallel_envs.py_policy import PyPolicy as PyPolicy
    from parallel_envs.random_py_policy import RandomPyPolicy as RandomPyPolicy
    from parallel_envs.replay import ReplayBuffer as ReplayBuffer
    from parallel_envs.scripted_py_policy import ScriptedPyPolicy as ScriptedPyPolicy
    from parallel_envs.validation import (
        validate_py_environment as validate_py_environment,
    )

__version__ = "0.1.0"

_NOT_OURS = {"annotations", "importlib", "Any", "TYPE_CHECKING"}

_MODULES = ("adapters", "drivers", "metrics", "replay", "suites", "testing", "wrappers")
# Names of what a worker does not need, which would make it start later.
_HOMES = {
    "Actor": "drivers",
    "AsyncDriver": "drivers",
    "PyDriver": "drivers",
    "PyPolicy": "py_policy",
    "RandomPyPolicy": "random_py_policy",
    "ReplayBuffer": "replay",
    "ScriptedPyPolicy": "scripted_py_policy",
    "autotune": "autotuning.autotune",
    "validate_py_environment": "validation",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    loaded = {name for name in globals() if not name.startswith("_")}
    return sorted({*loaded, *_MODULES, *_HOMES} - _NOT_OURS)
