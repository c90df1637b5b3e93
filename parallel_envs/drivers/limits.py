"""When a run ends: after so many steps, or so many episodes."""

from __future__ import annotations

import math
import operator


class Limits:
    """How many steps and episodes a run makes."""

    def __init__(
        self,
        max_steps: int | None,
        max_episodes: int | None,
        *,
        end_episode_on_boundary: bool,
    ) -> None:
        """Checks the limits; `PyDriver` says what they are.

        Raises:
            TypeError: If a limit is not an integer.
            ValueError: If there is no limit, or a negative one.
        """
        self.max_steps = _checked_limit("max_steps", max_steps)
        self.max_episodes = _checked_limit("max_episodes", max_episodes)
        if self.max_steps == self.max_episodes == math.inf:
            raise ValueError(
                "max_steps and max_episodes: expected at least one of them to be 1 or "
                f"more, got {max_steps!r} and {max_episodes!r}."
            )
        self.end_episode_on_boundary = end_episode_on_boundary


class Tally:
    """What a run has seen so far."""

    def __init__(self, limits: Limits) -> None:
        """Starts at nothing."""
        self._limits = limits
        self._num_steps = self._num_episodes = 0

    @property
    def is_full(self) -> bool:
        """Whether a limit is reached."""
        return (
            self._num_steps >= self._limits.max_steps
            or self._num_episodes >= self._limits.max_episodes
        )

    def add(self, num_rows: int, num_boundary: int, num_last: int) -> None:
        """Counts the steps of some rows.

        Args:
            num_rows: How many rows were stepped.
            num_boundary: Those of them that were LAST before.
            num_last: Those that are LAST now.
        """
        self._num_steps += num_rows - num_boundary
        at_boundary = self._limits.end_episode_on_boundary
        self._num_episodes += num_boundary if at_boundary else num_last


def _checked_limit(name: str, limit: int | None) -> float:
    """Returns the limit, infinity for none."""
    if limit is None:
        return math.inf
    try:
        number = operator.index(limit)
    except TypeError:
        raise TypeError(f"{name}: expected an int or None, got {limit!r}.") from None
    if number < 0:
        raise ValueError(f"{name}: expected 1 or more, or None, got {number}.")
    return number or math.inf
