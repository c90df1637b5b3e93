"""Environments around environments, with TF-Agents' names."""

from parallel_envs.wrappers.atari_preprocessing import (
    AtariPreprocessing as AtariPreprocessing,
)
from parallel_envs.wrappers.atari_time_limit import AtariTimeLimit as AtariTimeLimit
from parallel_envs.wrappers.base import (
    PyEnvironmentBaseWrapper as PyEnvironmentBaseWrapper,
)
from parallel_envs.wrappers.fire_on_reset import FireOnReset as FireOnReset
from parallel_envs.wrappers.frame_stack import FrameStack as FrameStack
from parallel_envs.wrappers.time_limit import TimeLimit as TimeLimit
