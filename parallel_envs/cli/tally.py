"""What a run has seen so far, in numbers that can be stored and gone on with."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any

import numpy as np

from parallel_envs import metrics, trajectory
from parallel_envs.cli.failure_counts import FailureCounts

NUM_LATEST = 100
"""Episodes that count as the latest ones."""


class Statistics:
    """Mean and extremes of numbers, or of vectors, that come one after another.

    Attributes:
        count: How many there were.
        mean: NaN before the first, as the others.
        minimum: Elementwise for vectors.
        maximum: Elementwise for vectors.
    """

    def __init__(self) -> None:
        self.count = 0
        self._total: Any = 0.0
        self.minimum: Any = float("nan")
        self.maximum: Any = float("nan")
        self._latest = collections.deque[Any](maxlen=NUM_LATEST)

    @property
    def mean(self) -> Any:
        return self._total / self.count if self.count else float("nan")

    @property
    def latest_mean(self) -> Any:
        """The mean of the latest `NUM_LATEST`."""
        return np.mean(self._latest, axis=0) if self._latest else float("nan")

    def add(self, values: Iterable[Any]) -> None:
        """Takes in more."""
        for value in values:
            self.count += 1
            self._total = self._total + value
            self.minimum = np.fmin(self.minimum, value)
            self.maximum = np.fmax(self.maximum, value)
            self._latest.append(value)

    def to_json(self) -> dict[str, Any]:
        """Returns all of it."""
        return {
            "count": self.count,
            "total": _plain(self._total),
            "minimum": _plain(self.minimum) if self.count else None,
            "maximum": _plain(self.maximum) if self.count else None,
            "latest": [_plain(value) for value in self._latest],
        }

    def restore(self, stored: dict[str, Any]) -> None:
        """Goes on from what `to_json` returned."""
        if not stored["count"]:
            return
        self.count = stored["count"]
        self._total = _array(stored["total"])
        self.minimum = _array(stored["minimum"])
        self.maximum = _array(stored["maximum"])
        self._latest.extend(_array(value) for value in stored["latest"])

    def summary(self) -> dict[str, Any]:
        """Returns the results for people; None where there are none."""
        if not self.count:
            return dict.fromkeys(("mean", "min", "max", f"last_{NUM_LATEST}_mean"))
        return {
            "mean": _plain(self.mean),
            "min": _plain(self.minimum),
            "max": _plain(self.maximum),
            f"last_{NUM_LATEST}_mean": _plain(self.latest_mean),
        }


class Tally:
    """Counts steps and episodes; an observer of drivers.

    Attributes:
        returns: Statistics of the undiscounted returns of episodes.
        lengths: Statistics of their lengths.
        failures: Counts of what went wrong with environments; told from outside.
    """

    def __init__(self, batch_size: int) -> None:
        self.returns = Statistics()
        self.lengths = Statistics()
        self.failures = FailureCounts()
        self._steps = metrics.EnvironmentSteps()
        self._observers = (
            self._steps,
            _Returns(self.returns, batch_size),
            _Lengths(self.lengths, batch_size),
        )

    @property
    def num_steps(self) -> int:
        """Steps of all environments; what only begins an episode is none."""
        return int(self._steps.result())

    @property
    def num_episodes(self) -> int:
        """Episodes that have ended."""
        return self.lengths.count

    def __call__(self, step: trajectory.Trajectory) -> None:
        """Takes in a step of the batch."""
        for observer in self._observers:
            observer(step)

    def to_json(self) -> dict[str, Any]:
        """Returns all of it, but for episodes that have only begun."""
        return {
            "steps": self.num_steps,
            "returns": self.returns.to_json(),
            "lengths": self.lengths.to_json(),
            "failures": self.failures.to_json(),
        }

    def restore(self, stored: dict[str, Any]) -> None:
        """Goes on from what `to_json` returned."""
        self._steps.reset(stored["steps"])
        self.returns.restore(stored["returns"])
        self.lengths.restore(stored["lengths"])
        if "failures" in stored:  # Not where the run is of an older version.
            self.failures.restore(stored["failures"])


class _Returns(metrics.AverageReturn):
    """Passes the returns of episodes on."""

    def __init__(self, statistics: Statistics, batch_size: int) -> None:
        super().__init__(batch_size=batch_size)
        self._statistics = statistics

    def add_to_buffer(self, values: Iterable[Any]) -> None:
        self._statistics.add(values)


class _Lengths(metrics.AverageEpisodeLength):
    """Passes the lengths of episodes on."""

    def __init__(self, statistics: Statistics, batch_size: int) -> None:
        super().__init__(batch_size=batch_size)
        self._statistics = statistics

    def add_to_buffer(self, values: Iterable[Any]) -> None:
        self._statistics.add(values)


def _plain(value: Any) -> Any:
    return np.asarray(value).tolist()


def _array(value: Any) -> Any:
    array = np.asarray(value)
    return array if array.ndim else value
