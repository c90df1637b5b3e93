"""What seeds environments get, in their first life and in those after a failure."""

from __future__ import annotations

from typing import Any

import numpy as np

from parallel_envs import seeding
from parallel_envs.batch.environment_rows import Birth


class Lineage:
    """Counts the lives of each constructor's environment, and decides their seeds.

    The n-th replacement of an environment gets seeds derived from those of its rows
    and from n, so that a run can be repeated, and no life repeats an earlier one.
    """

    def __init__(
        self, base_seed: int | None, num_constructors: int, *, seeds_globals: bool
    ) -> None:
        """Starts with first lives.

        Args:
            base_seed: What the seeds of all rows come from; None for none.
            num_constructors: How many environments there are.
            seeds_globals: Whether global generators are seeded as well.
        """
        self._lives = [0] * num_constructors
        self._seeds: list[Any] = [None] * num_constructors  # What `seed` was given.
        self._global_seeds: list[int] | None = None
        if base_seed is not None and seeds_globals:
            self._global_seeds = seeding.spread_seeds(base_seed, num_constructors)

    def births(self) -> list[Birth]:
        """Returns what is decided for the environment that each constructor makes."""
        return [self._birth(index, life) for index, life in enumerate(self._lives)]

    def end_life(self, index: int) -> None:
        """Notes that an environment has to be made anew."""
        self._lives[index] += 1

    def note_seed(self, index: int, seed: Any) -> None:
        """Notes what an environment's `seed` was given: a seed, or one for each row."""
        self._seeds[index] = seed

    def _birth(self, index: int, life: int) -> Birth:
        own = _derived(self._seeds[index], life) if life else None
        seed = None if self._global_seeds is None else self._global_seeds[index]
        if seed is not None and life:
            seed = seeding.derive_seed(seed, life)
        return Birth(seed, () if own is None else (own,))


def _derived(seed: Any, life: int) -> Any:
    """Returns seeds for a later life; None where what was given is no seed."""
    if isinstance(seed, list):
        rows = [_derived(row, life) for row in seed]  # pyright: ignore[reportUnknownVariableType]
        return None if None in rows else rows
    is_seed = isinstance(seed, (int, np.integer)) and seed >= 0
    return seeding.derive_seed(int(seed), life) if is_seed else None  # pyright: ignore[reportUnknownArgumentType]
