"""Numbers about what a driver sees: returns, lengths, counts and speed.

A metric is an observer: it is called with each `Trajectory`, of a single environment
(step types of shape `()`), of a batch (`[B]`), or of some of its rows (`[n]`), whose
numbers `AsyncDriver` gives as `env_ids`. Names, defaults and results are those of
TF-Agents' `metrics/py_metrics.py`, with two differences in what an episode is:

- An episode whose start was not seen, because the metric was attached or reset within
  it, has no return and no length here. TF-Agents takes what it saw for the whole.
- Steps from LAST to LAST, with which `FixedLength` pads an episode, end no other one.

An episode starts at a FIRST step, or after a boundary (a step from LAST).
"""

from __future__ import annotations

import abc
import collections
import logging
import math
import operator
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs import time_step as ts
from parallel_envs import trajectory as tr

_logger = logging.getLogger(__name__)

EnvIds = npt.NDArray[np.integer[Any]]
"""The row of each step, `[n]`, each of them once."""


class PyMetric(abc.ABC):
    """A number that is brought up to date by calling the metric.

    A subclass writes `call`, `result` and `reset`.
    """

    def __init__(self, name: str, prefix: str = "Metrics") -> None:
        """Names the metric `prefix/name` in logs."""
        self._name = name
        self._prefix = prefix

    @property
    def name(self) -> str:
        """The name in summaries and logs."""
        return self._name

    @property
    def prefix(self) -> str:
        """What stands before the name in logs."""
        return self._prefix

    @abc.abstractmethod
    def reset(self) -> None:
        """Starts again, as if nothing had been seen."""

    @abc.abstractmethod
    def result(self) -> Any:
        """Returns the number as it is now."""

    @abc.abstractmethod
    def call(self, *args: Any, **kwargs: Any) -> None:
        """Takes in what the metric is called with."""

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Takes in what the metric is called with; a subclass overrides `call`."""
        self.call(*args, **kwargs)

    def log(self) -> None:
        """Logs the result, at level INFO of this module's logger."""
        tag = "/".join(part for part in (self.prefix, self.name) if part)
        _logger.info("%s = %s", tag, self.result())

    @staticmethod
    def aggregate(metrics: Sequence[PyMetric]) -> Any:
        """Returns the mean of the results of several metrics of one class."""
        return np.mean([metric.result() for metric in metrics])


class PyStepMetric(PyMetric):
    """A metric that is called with trajectories."""

    @abc.abstractmethod
    def call(self, trajectory: tr.Trajectory, env_ids: EnvIds | None = None) -> None:
        """Takes in one step of an environment, of a batch, or of the rows `env_ids`."""


class StreamingMetric(PyStepMetric):
    """The mean of the latest values, 0.0 before there is any.

    A subclass writes `call`, which calls `add_to_buffer`.
    """

    def __init__(
        self,
        name: str = "StreamingMetric",
        buffer_size: float = 10,
        batch_size: int | None = None,
    ) -> None:
        """Makes a metric that has seen nothing.

        Args:
            name: The name in summaries and logs.
            buffer_size: How many of the latest values count; `math.inf` for all.
            batch_size: Number of rows, B; None takes it from the first trajectory.

        Raises:
            ValueError: If a size is less than 1.
        """
        super().__init__(name)
        self._values = collections.deque[Any](maxlen=_checked_buffer_size(buffer_size))
        self._totals = _EpisodeTotals(batch_size)

    @property
    def data(self) -> npt.NDArray[np.float64]:
        """The latest values, oldest first: a copy, `[n]`, n up to the buffer size."""
        return np.array(self._values, np.float64)

    def add_to_buffer(self, values: Iterable[Any]) -> None:
        """Adds values; the oldest leave when the buffer is full."""
        self._values.extend(values)

    def result(self) -> Any:
        """Returns a float32; of the shape of a reward where those are vectors."""
        if not self._values:
            return np.float32(0.0)
        return np.mean(self.data, axis=0).astype(np.float32)

    def reset(self) -> None:
        """Forgets the values, and episodes that have begun."""
        self._values.clear()
        self._totals.reset()


class AverageReturn(StreamingMetric):
    """The mean undiscounted return of the latest episodes."""

    def __init__(
        self,
        name: str = "AverageReturn",
        buffer_size: float = 10,
        batch_size: int | None = None,
    ) -> None:
        """See `StreamingMetric`; `buffer_size` counts episodes."""
        super().__init__(name, buffer_size, batch_size)

    def call(self, trajectory: tr.Trajectory, env_ids: EnvIds | None = None) -> None:
        """Adds the rewards, and takes the returns of episodes that ended."""
        _, returns = self._totals.add(trajectory, trajectory.reward, env_ids)
        self.add_to_buffer(returns)


class AverageEpisodeLength(StreamingMetric):
    """The mean number of actions in the latest episodes."""

    def __init__(
        self,
        name: str = "AverageEpisodeLength",
        buffer_size: float = 10,
        batch_size: int | None = None,
    ) -> None:
        """See `StreamingMetric`; `buffer_size` counts episodes."""
        super().__init__(name, buffer_size, batch_size)

    def call(self, trajectory: tr.Trajectory, env_ids: EnvIds | None = None) -> None:
        """Counts a step in each row, and takes the lengths of episodes that ended."""
        ones = np.ones_like(trajectory.step_type)
        _, lengths = self._totals.add(trajectory, ones, env_ids)
        self.add_to_buffer(lengths)


AverageReturnMetric = AverageReturn
AverageEpisodeLengthMetric = AverageEpisodeLength


class EnvironmentSteps(PyStepMetric):
    """How many steps were taken, summed over the rows; boundaries are none."""

    def __init__(self, name: str = "EnvironmentSteps") -> None:
        """Starts at 0."""
        super().__init__(name)
        self._count = 0

    def reset(self, environment_steps: int = 0) -> None:
        """Starts again, at a number from an earlier run if one is given."""
        self._count = int(environment_steps)

    def result(self) -> np.int64:
        """Returns the number of steps."""
        return np.int64(self._count)

    def call(self, trajectory: tr.Trajectory, env_ids: EnvIds | None = None) -> None:
        """Counts the rows that took a step."""
        self._count += _count_steps(trajectory)


class NumberOfEpisodes(PyStepMetric):
    """How many episodes ended, whether their start was seen or not."""

    def __init__(self, name: str = "NumberOfEpisodes") -> None:
        """Starts at 0."""
        super().__init__(name)
        self._count = 0

    def reset(self) -> None:
        """Starts again at 0."""
        self._count = 0

    def result(self) -> np.int64:
        """Returns the number of episodes."""
        return np.int64(self._count)

    def call(self, trajectory: tr.Trajectory, env_ids: EnvIds | None = None) -> None:
        """Counts the rows whose episode ended with this step."""
        ends = np.equal(trajectory.next_step_type, _LAST)
        if np.count_nonzero(ends):
            ends = ends & np.not_equal(trajectory.step_type, _LAST)
            self._count += int(np.count_nonzero(ends))


class StepsPerSecond(PyStepMetric):
    """How fast steps were taken, summed over the rows, from the first call to the last.

    What comes before the first call (starting workers) and after the last one does not
    count; pauses between calls do.
    """

    def __init__(
        self,
        name: str = "StepsPerSecond",
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Makes a metric that has seen nothing; `clock` returns seconds."""
        super().__init__(name)
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Starts again; the clock starts with the next call."""
        self._start: float | None = None
        self._end = 0.0
        self._count = 0

    def result(self) -> np.float64:
        """Returns steps per second; 0.0 before two calls."""
        if self._start is None or self._end <= self._start:
            return np.float64(0.0)
        return np.float64(self._count / (self._end - self._start))

    def call(self, trajectory: tr.Trajectory, env_ids: EnvIds | None = None) -> None:
        """Counts the rows that took a step, and looks at the clock."""
        self._end = self._clock()
        if self._start is None:
            self._start = self._end  # Its steps were taken before the clock started.
        else:
            self._count += _count_steps(trajectory)


class CounterMetric(PyMetric):
    """How often it was called, without arguments: a count of training steps, say."""

    def __init__(self, name: str = "Counter") -> None:
        """Starts at 0."""
        super().__init__(name)
        self._count = 0

    def reset(self) -> None:
        """Starts again at 0."""
        self._count = 0

    def result(self) -> np.int64:
        """Returns the count."""
        return np.int64(self._count)

    def call(self) -> None:
        """Adds 1."""
        self._count += 1


class EpisodeReturns:
    """The undiscounted return of every episode; an observer, but not one number."""

    def __init__(self, batch_size: int) -> None:
        """Makes one that has seen nothing.

        Args:
            batch_size: Number of rows, B; 1 for a single environment.

        Raises:
            ValueError: If it is less than 1.
        """
        self._totals = _EpisodeTotals(batch_size)
        self._finished: list[tuple[int, Any]] = []

    def __call__(
        self, trajectory: tr.Trajectory, env_ids: EnvIds | None = None
    ) -> None:
        """Adds the rewards of one step of the environment, the batch or some rows."""
        rows, returns = self._totals.add(trajectory, trajectory.reward, env_ids)
        self._finished.extend(zip(rows.tolist(), returns.tolist(), strict=True))

    def finished(self) -> list[tuple[int, Any]]:
        """Returns `(row, return)` of all episodes since the start or the last `reset`.

        They are in the order in which they ended; where several ended at once, by row,
        or in the order of the `env_ids`. A return is a float, or a list of floats where
        rewards are vectors.
        """
        return list(self._finished)

    def reset(self) -> None:
        """Forgets the episodes, those that have begun as well."""
        self._finished.clear()
        self._totals.reset()


def collect_metrics(buffer_size: float = 10) -> list[PyStepMetric]:
    """Returns the metrics that one wants while collecting: counts and averages.

    Args:
        buffer_size: How many of the latest episodes the averages are of.
    """
    return [NumberOfEpisodes(), EnvironmentSteps(), *eval_metrics(buffer_size)]


def eval_metrics(buffer_size: float = 10) -> list[PyStepMetric]:
    """Returns the metrics that one wants of an evaluation: return and length.

    Args:
        buffer_size: How many of the latest episodes they are averaged over.
    """
    return [
        AverageReturn(buffer_size=buffer_size),
        AverageEpisodeLength(buffer_size=buffer_size),
    ]


# As globals, because metrics run at each step.
_MID, _LAST = ts.StepType.MID, ts.StepType.LAST


class _EpisodeTotals:
    """Sums something over the current episode of each row."""

    def __init__(self, batch_size: int | None) -> None:
        if batch_size is not None and operator.index(batch_size) < 1:
            raise ValueError(f"batch_size: expected 1 or more, got {batch_size}.")
        self._batch_size = batch_size
        self.reset()

    def reset(self) -> None:
        """Forgets the episodes that have begun, and the number of rows."""
        self._has_begun = False
        self._has_started = np.zeros((), np.bool_)
        self._totals = np.zeros((), np.float64)

    def add(
        self,
        trajectory: tr.Trajectory,
        values: npt.ArrayLike,
        env_ids: EnvIds | None = None,
    ) -> tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.float64]]:
        """Adds values `[B, ...]`, or `[...]` of a single environment.

        Args:
            trajectory: Of all rows, or of those in `env_ids`.
            values: What is summed.
            env_ids: The rows `[n]`; None for all.

        Returns:
            The rows `[n]` whose episode ended, rising or in the order of `env_ids`, and
            their totals `[n, ...]`.

        Raises:
            ValueError: If shapes are not those of before, or not those of a batch.
        """
        step_type = np.asarray(trajectory.step_type)
        values = np.asarray(values)
        if env_ids is None:
            self._check_all(step_type.shape, values)
        else:
            env_ids = np.asarray(env_ids)
            self._check_some(step_type.shape, values, env_ids)
        place: Any = ... if env_ids is None else env_ids
        totals, has_started = self._totals[place], self._has_started[place]
        starts = np.not_equal(step_type, _MID)
        if np.count_nonzero(starts):
            totals[starts] = 0.0
            has_started |= starts
            values = np.array(values, np.float64)
            values[np.equal(step_type, _LAST)] = 0.0  # A boundary earns nothing.
        totals += values
        if env_ids is not None:  # They are copies then, and else views.
            self._totals[place], self._has_started[place] = totals, has_started
        ends = np.equal(trajectory.next_step_type, _LAST)
        if not np.count_nonzero(ends):
            return _NO_ROWS, _NO_TOTALS
        ends = ends & has_started & np.not_equal(step_type, _LAST)
        rows = np.flatnonzero(ends)
        return (rows if env_ids is None else env_ids[rows]), totals[ends]

    def _check_all(self, batch: tuple[int, ...], values: npt.NDArray[Any]) -> None:
        """Checks a step of all rows; the first one decides how many there are."""
        if not self._has_begun:
            num_rows = math.prod(batch)
            if len(batch) > 1 or self._batch_size not in (None, num_rows):
                expected = "B" if self._batch_size is None else self._batch_size
                raise ValueError(
                    f"trajectory: expected step types of shape () or ({expected},), "
                    f"got {batch}."
                )
            self._begin(batch, batch, values)
        elif batch != self._has_started.shape:
            raise ValueError(
                "trajectory: expected step types of shape "
                f"{self._has_started.shape} as before, got {batch}. "
                "After reset() a metric takes another number of rows."
            )

    def _check_some(
        self, batch: tuple[int, ...], values: npt.NDArray[Any], env_ids: EnvIds
    ) -> None:
        """Checks a step of some rows, and makes room for those that are new."""
        if env_ids.shape != batch or len(batch) != 1 or env_ids.dtype.kind not in "iu":
            raise ValueError(
                "env_ids: expected the row of each step, integers of the step types' "
                f"shape {batch}, got {env_ids.dtype} of shape {env_ids.shape}."
            )
        rows = env_ids.tolist()
        num_rows = 1 + max(rows, default=-1)
        if min(rows, default=0) < 0 or num_rows > (self._batch_size or num_rows):
            limit = "" if self._batch_size is None else f" to {self._batch_size - 1}"
            raise ValueError(f"env_ids: expected rows from 0{limit}, got {rows}.")
        if not self._has_begun:
            self._begin((self._batch_size or num_rows,), batch, values)
        elif not self._has_started.ndim:
            raise ValueError(
                "env_ids: expected None, since the steps before were of a single "
                f"environment, got {rows}. After reset() a metric takes others."
            )
        if (num_new := num_rows - len(self._has_started)) > 0:
            self._has_started = _with_zeros(self._has_started, num_new)
            self._totals = _with_zeros(self._totals, num_new)

    def _begin(
        self, rows: tuple[int, ...], batch: tuple[int, ...], values: npt.NDArray[Any]
    ) -> None:
        """Makes room for rows, as the first values `[*batch, ...]` need it."""
        if values.dtype.kind not in "biuf" or values.shape[: len(batch)] != batch:
            raise ValueError(
                f"trajectory.reward: expected numbers of shape {batch}, or more "
                f"dimensions after those, got {values.dtype} of shape {values.shape}."
            )
        self._has_started = np.zeros(rows, np.bool_)
        self._totals = np.zeros((*rows, *values.shape[len(batch) :]), np.float64)
        self._has_begun = True


def _with_zeros(array: npt.NDArray[Any], num_rows: int) -> npt.NDArray[Any]:
    return np.concatenate([array, np.zeros((num_rows, *array.shape[1:]), array.dtype)])


_NO_ROWS = np.zeros(0, np.intp)
_NO_TOTALS = np.zeros(0, np.float64)


def _count_steps(trajectory: tr.Trajectory) -> int:
    return int(np.count_nonzero(np.not_equal(trajectory.step_type, _LAST)))


def _checked_buffer_size(buffer_size: float) -> int | None:
    """Returns the greatest length of a deque, None for no limit."""
    if buffer_size == math.inf:
        return None
    if buffer_size < 1 or int(buffer_size) != buffer_size:
        raise ValueError(
            f"buffer_size: expected an integer from 1 on, or inf, got {buffer_size}."
        )
    return int(buffer_size)
