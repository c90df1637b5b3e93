"""Replay: what environments did, kept by stream, to be drawn again for learning."""

from parallel_envs.replay.replay_buffer import ReplayBuffer as ReplayBuffer
from parallel_envs.replay.replay_buffer import SampleInfo as SampleInfo
