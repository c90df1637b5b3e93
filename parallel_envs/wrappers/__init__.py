"""Environments around environments, with TF-Agents' names."""

from parallel_envs.wrappers.base import (
    PyEnvironmentBaseWrapper as PyEnvironmentBaseWrapper,
)
from parallel_envs.wrappers.time_limit import TimeLimit as TimeLimit
