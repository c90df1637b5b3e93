"""How many rows the replay keeps, and how much memory they take."""

from __future__ import annotations

import math
import sys

from parallel_envs import py_policy, trajectory
from parallel_envs.cli.numbers import num_bytes
from parallel_envs.cli.settings import Settings
from parallel_envs.py_environment import PyEnvironment
from parallel_envs.specs import nest

_MAX_BYTES = 4 * 2**30  # Of a replay whose capacity was not said.
_INDEX_BYTES = 13  # What the replay notes about each row.


def row_bytes(env: PyEnvironment, policy: py_policy.PyPolicy) -> int:
    """Returns the bytes of one row; leaves of variable size are not counted."""
    spec = env.time_step_spec()
    info_spec = getattr(policy, "info_spec", ())  # Not each policy is a PyPolicy.
    step = trajectory.PolicyStep(env.action_spec(), (), info_spec)
    leaves = nest.flatten(trajectory.from_transition(spec, step, spec))
    return _INDEX_BYTES + sum(
        math.prod(leaf.shape) * leaf.dtype.itemsize
        for leaf in leaves
        if None not in leaf.shape
    )


def steps_per_stream(settings: Settings, bytes_per_row: int) -> int:
    """Returns the capacity of each stream."""
    if settings.replay_capacity is not None:
        return math.ceil(settings.replay_capacity / settings.num_envs)
    fitting = max(1, _MAX_BYTES // (bytes_per_row * settings.num_envs))
    return min(fitting, _enough(settings))


def described(settings: Settings, bytes_per_row: int, capacity: int) -> str:
    """Returns what the replay will keep and take, in words."""
    rows = capacity * settings.num_envs
    memory = num_bytes(rows * bytes_per_row)
    if capacity >= _enough(settings):
        return f"all steps, at most {memory} of memory"
    return (
        f"the latest {rows:,} rows, at most {memory} of memory; --replay_capacity "
        "says how many"
    )


def _enough(settings: Settings) -> int:
    """Returns a capacity of each stream with which no row is overwritten."""
    if settings.num_steps is None:
        return sys.maxsize
    # There are at most as many boundaries as steps.
    return 2 * math.ceil(settings.num_steps / settings.num_envs) + 1
