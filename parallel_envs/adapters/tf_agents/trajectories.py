"""Trajectories of TF-Agents, made of ours and the other way round."""

from __future__ import annotations

from typing import Any

from parallel_envs import trajectory
from parallel_envs.adapters.tf_agents import library
from parallel_envs.specs import nest

_trajectory: Any = library.part("trajectories.trajectory")

Nest = nest.Nest


def to_tf_agents_trajectory(items: Nest) -> Nest:
    """Returns TF-Agents' `Trajectory` of the same leaves; another nest as it is."""
    return _new(_trajectory.Trajectory, items) if _is_trajectory(items) else items


def from_tf_agents_trajectory(items: Nest) -> Nest:
    """Returns our `Trajectory` of the same leaves; another nest as it is."""
    return _new(trajectory.Trajectory, items) if _is_trajectory(items) else items


_new: Any = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _is_trajectory(items: Nest) -> bool:
    return getattr(items, "_fields", None) == trajectory.Trajectory._fields
