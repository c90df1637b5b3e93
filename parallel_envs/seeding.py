"""One seed, spread over many environments."""

from __future__ import annotations

import operator

import numpy as np


def spread_seeds(base: int, n: int) -> list[int]:
    """Returns `n` distinct seeds below 2**32, always the same for the same `base`.

    More of them begin with the same ones, so an environment keeps its seed when others
    are added. Seeds of neighbouring bases have nothing to do with each other, unlike
    those of `base + i` (numpy.random.SeedSequence).

    >>> spread_seeds(0, 3) == spread_seeds(0, 5)[:3]
    True

    Args:
        base: Any integer of at least 0, of any size.
        n: How many, from 0 to 2**32.

    Raises:
        TypeError: If an argument is not an integer.
        ValueError: If one is out of its range.
    """
    base, n = _integer("base", base), _integer("n", n)
    if n > 2**32:
        raise ValueError(f"n: expected at most 2**32, got {n}.")
    sequence = np.random.SeedSequence(base)
    seeds: list[int] = []
    num_words = n
    while len(seeds) < n:
        seeds = list(dict.fromkeys(sequence.generate_state(num_words).tolist()))
        num_words += max(n - len(seeds), num_words // 8)
    return seeds[:n]


def derive_seed(seed: int, n: int) -> int:
    """Returns the seed below 2**32 of the `n`-th descendant of what `seed` was for.

    Always the same for the same arguments; descendants have nothing to do with each
    other, nor with what `spread_seeds(seed, ...)` gives (numpy.random.SeedSequence).

    Raises:
        TypeError: If an argument is not an integer.
        ValueError: If one is below 0.
    """
    seed, n = _integer("seed", seed), _integer("n", n)
    return int(np.random.SeedSequence(seed, spawn_key=(n,)).generate_state(1)[0])


def _integer(name: str, value: int) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: expected an integer, got {value!r}.")
    try:
        value = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an integer, got {value!r}.") from None
    if value < 0:
        raise ValueError(f"{name}: expected at least 0, got {value}.")
    return value
