"""What a run of `collect` is told to do."""

from __future__ import annotations

import dataclasses
from typing import Any

DEFAULT_NUM_STEPS = 20_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """One field for each flag of `collect`, of the same name; see `flags`."""

    env: str | None
    num_envs: int
    num_workers: int | None
    num_steps: int | None
    num_episodes: int | None
    policy: str
    seed: int | None
    logdir: str | None
    resume: bool
    replay_capacity: int | None
    context: str | None
    preload: tuple[str, ...] | None
    start_timeout: float | None
    step_timeout: float | None
    max_restarts: int
    summary_interval: int
    save_every: float

    def to_json(self) -> dict[str, Any]:
        """Returns what describes the run, and not where it is or how it was begun."""
        fields = dataclasses.asdict(self)
        return {name: fields[name] for name in fields if name not in _OF_THE_CALL}

    def filled_up(self, given: frozenset[str], stored: dict[str, Any]) -> Settings:
        """Returns the settings with those that were not given as they are stored.

        Args:
            given: Names of the flags that were given.
            stored: What `to_json` returned when the run was begun.
        """
        kept = {name: stored[name] for name in self.to_json() if name in stored}
        if given & _LIMITS:  # One limit replaces the other one too.
            kept = {name: kept[name] for name in kept if name not in _LIMITS}
        if "num_workers" in given and self.num_workers == 0:
            kept = {name: kept[name] for name in kept if name not in _OF_PROCESSES}
        if kept.get("preload") is not None:
            kept["preload"] = tuple(kept["preload"])
        return dataclasses.replace(
            self, **{name: kept[name] for name in kept if name not in given}
        )

    def is_reached(self, num_steps: int, num_episodes: int) -> bool:
        """Returns whether so many steps or episodes are all that was asked for."""
        return self.fraction(num_steps, num_episodes) >= 1

    def fraction(self, num_steps: int, num_episodes: int) -> float:
        """Returns how much of what was asked for is done, from 0 to 1."""
        done = [
            count / limit
            for count, limit in (
                (num_steps, self.num_steps),
                (num_episodes, self.num_episodes),
            )
            if limit is not None
        ]
        return min(1.0, max(done))


_OF_THE_CALL = ("logdir", "resume")
_LIMITS = {"num_steps", "num_episodes"}
_OF_PROCESSES = {"context", "preload", "start_timeout", "step_timeout"}
