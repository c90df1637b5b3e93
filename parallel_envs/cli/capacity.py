"""How many rows the replay keeps, and how much memory they take."""

from __future__ import annotations

import math

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
    step = trajectory.PolicyStep(env.action_spec(), (), policy.info_spec)
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
    if settings.num_steps is None:
        return fitting
    # There are at most as many boundaries as steps.
    return min(fitting, 2 * math.ceil(settings.num_steps / settings.num_envs) + 1)


def described(settings: Settings, bytes_per_row: int, capacity: int) -> str:
    """Returns what the replay will keep and take, in words."""
    rows = capacity * settings.num_envs
    if settings.num_steps is not None and rows >= settings.num_steps:
        memory = num_bytes(settings.num_steps * bytes_per_row)
        return f"all steps, about {memory} in memory"
    memory = num_bytes(rows * bytes_per_row)
    return (
        f"the latest {rows:,} rows, up to {memory} in memory; --replay_capacity "
        "decides how many"
    )
