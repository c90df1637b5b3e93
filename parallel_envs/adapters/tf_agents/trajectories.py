"""Trajectories of TF-Agents, made of ours and the other way round."""

from __future__ import annotations

from typing import Any

from parallel_envs import trajectory
from parallel_envs.adapters.tf_agents import library, values
from parallel_envs.specs import nest

_trajectory: Any = library.part("trajectories.trajectory")

Nest = nest.Nest


def to_tf_agents_trajectory(items: Nest) -> Nest:
    """Returns TF-Agents' `Trajectory` of the same leaves; another nest as it is."""
    return (
        values.relabelled(_trajectory.Trajectory, items)
        if _is_trajectory(items)
        else items
    )


def from_tf_agents_trajectory(items: Nest) -> Nest:
    """Returns our `Trajectory` of the same leaves; another nest as it is."""
    return (
        values.relabelled(trajectory.Trajectory, items)
        if _is_trajectory(items)
        else items
    )


def _is_trajectory(items: Nest) -> bool:
    return getattr(items, "_fields", None) == trajectory.Trajectory._fields
