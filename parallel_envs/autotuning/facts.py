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
        num_steps: How many steps were timed; resets are none.
        num_episodes: How many episodes were seen to end.
        step_seconds: The mean of a step.
        step_seconds_p95: What 95 % of the steps took at most.
        step_seconds_max: The longest step.
        cpu_share: Time of processors in a step's time, that of programs that the
            environment has started included: about 1 where a step computes, about 0
            where it waits, more than 1 where it has threads.
        construct_seconds: The constructor, with all that it imports.
        further_construct_seconds: The same for another one in that process.
        reset_seconds: The mean of a reset.
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
    further_construct_seconds: float = 0.0
    reset_seconds: float
    observation_bytes: int
    memory_bytes: int | None
    further_memory_bytes: int | None = None
    sharing_error: str = ""

    @property
    def computes(self) -> bool:
        """Whether a step keeps a core busy for most of its time."""
        return self.cpu_share >= 0.5

    @property
    def episode_steps(self) -> float | None:
        """The mean length of an episode; None if none has ended."""
        if not self.num_episodes:
            return None
        return self.num_steps * self.num_rows / self.num_episodes
