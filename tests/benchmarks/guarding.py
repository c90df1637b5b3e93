"""What the scripts have in common that guard ratios: all sides in one run, in turn."""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import NoReturn

from parallel_envs.benchmarking import machine

ROUNDS = 5
_SECONDS = 0.2
_WARM_UP_SECONDS = 0.1


class Guard:
    """Prints ratios, and remembers whether all were within their margins.

    The margins are wide: they tell that something is wrong, not that it is slower.
    """

    def __init__(self) -> None:
        """Prints the machine and the versions."""
        print_machine()
        self._has_failed = False

    def check(
        self, what: str, ratio: float, *, least: float = 0.0, most: float = math.inf
    ) -> None:
        """Prints a ratio and whether it is in `[least, most]`."""
        is_good = least <= ratio <= most
        self._has_failed |= not is_good
        verdict = "ok" if is_good else "OUT OF ITS MARGINS"
        print(f"{what}: {ratio:.2f}, expected {least:g} to {most:g}: {verdict}")

    def exit(self) -> NoReturn:
        """Ends the program, with code 1 if a ratio was not within its margins."""
        sys.exit(1 if self._has_failed else 0)


def print_machine(*packages: str) -> None:
    """Prints what the machine is like, and the versions of NumPy and `packages`."""
    for name, value in machine.description().items():
        print(f"{name}: {value}")
    for name in ("numpy", *packages):
        print(f"{name}: {metadata.version(name)}")


def medians(
    steps: Mapping[str, Callable[[], object]], seconds: float = _SECONDS
) -> dict[str, float]:
    """Returns the microseconds of each of `steps`, medians of rounds taken in turn."""
    counts = {name: _count(step, seconds) for name, step in steps.items()}
    rounds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            rounds[name].append(_seconds(step, counts[name]) / counts[name] * 1e6)
    found = {name: statistics.median(times) for name, times in rounds.items()}
    for name, time_taken in found.items():
        print(f"  {name:<40}{time_taken:10.1f} us")
    return found


def _count(step: Callable[[], object], seconds: float) -> int:
    """Returns how often `step` runs in so many seconds, after it has warmed up."""
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < _WARM_UP_SECONDS or count < 3:
        step()
        count += 1
    return max(3, int(count / (time.perf_counter() - start) * seconds))


def _seconds(step: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        step()
    return time.perf_counter() - start
