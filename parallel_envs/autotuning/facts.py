"""What was measured of one environment, alone in a process."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """How an environment behaves, all times in seconds of the clock on the wall.

    From a step's time is taken what it has waited for a core while other programs had
    it, where the system tells.

    Attributes:
        num_rows: Rows of one environment: 1, unless it is a batch itself.
        num_steps: How many steps were timed; resets are none, and the first step is
            left out, as it may compile or load things.
        num_episodes: How many episodes were seen to end.
        step_seconds: The mean of a step.
        step_seconds_p95: What 95 % of the steps took at most.
        step_seconds_max: The longest step.
        cpu_share: Time of processors in the time of steps, and of resets between them,
            that of programs that the environment has started included: about 1 where
            they compute, about 0 where they wait, more than 1 where they have threads.
        construct_seconds: The constructor, with all that it imports.
        warm_up_seconds: The first reset and the first step.
        further_start_seconds: Constructor, first reset and first step of another one in
            that process.
        reset_seconds: The mean of a reset; the first one is left out if there are more.
        observation_bytes: One row's observation.
        memory_bytes: Memory of its own of a process with one environment, programs
            that it has started included; None where the system does not tell.
        further_memory_bytes: What another one in that process adds; None likewise.
        sharing_error: Why there can be no second one in a process; "" where there can.
    """

    num_rows: int
    num_steps: int
    num_episodes: int
    step_seconds: float
    step_seconds_p95: float
    step_seconds_max: float
    cpu_share: float
    construct_seconds: float
    warm_up_seconds: float
    further_start_seconds: float = 0.0
    reset_seconds: float
    observation_bytes: int
    memory_bytes: int | None
    further_memory_bytes: int | None = None
    sharing_error: str = ""

    @property
    def computes(self) -> bool:
        """Whether the environment keeps a core busy for most of its time."""
        return self.cpu_share >= 0.5

    @property
    def has_short_episodes(self) -> bool:
        """Whether episodes end so often that resets are a part of what is measured."""
        return self.num_episodes >= 2

    @property
    def mean_seconds(self) -> float:
        """The mean of a step with its share of the resets."""
        if not self.has_short_episodes:
            return self.step_seconds
        return self.step_seconds + self.reset_seconds / (self.episode_steps or 1.0)

    @property
    def episode_steps(self) -> float | None:
        """The mean length of an episode; None if none has ended."""
        if not self.num_episodes:
            return None
        return self.num_steps * self.num_rows / self.num_episodes
