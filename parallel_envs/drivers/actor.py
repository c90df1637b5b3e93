"""Collecting or evaluating in portions, with metrics, logs and summaries."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from parallel_envs import py_policy, summaries
from parallel_envs import trajectory as tr
from parallel_envs.drivers import driver, py_driver
from parallel_envs.py_environment import PyEnvironment

_logger = logging.getLogger(__name__)


class Metric(Protocol):
    """What an actor needs of a metric; `parallel_envs.metrics` has such."""

    @property
    def name(self) -> str: ...

    def result(self) -> Any: ...

    def __call__(self, trajectory: tr.Trajectory, /) -> object: ...


class Actor:
    """Runs a policy in an environment, a portion for each call of `run`.

    The interface is TF-Agents' `train/actor.py`. An evaluation, for example:

        actor = Actor(env, policy, episodes_per_run=10, metrics=eval_metrics(10))
        actor.run_and_log()

    The event file is closed by `close`, or at the end of a `with` block; whoever made
    the environment closes that.
    """

    def __init__(
        self,
        env: PyEnvironment,
        policy: py_policy.PolicyLike,
        train_step: Any = None,
        steps_per_run: int | None = None,
        episodes_per_run: int | None = None,
        observers: Sequence[driver.Observer] | None = (),
        transition_observers: Sequence[driver.TransitionObserver] | None = (),
        info_observers: Sequence[driver.InfoObserver] | None = (),
        metrics: Sequence[Metric] | None = (),
        reference_metrics: Sequence[Metric] | None = (),
        image_metrics: Sequence[Metric] | None = (),
        summary_dir: str | os.PathLike[str] | None = None,
        summary_interval: int = 1000,
        end_episode_on_boundary: bool = True,
        name: str = "",
    ) -> None:
        """Resets the environment, and opens the event file if there is a directory.

        Args:
            env: Stepped and reset; see `PyDriver` for this and what is not said here.
            policy: A `PyPolicy`, or a function from a time step to an action.
            train_step: Where on the x-axis summaries stand: an int, a function that
                returns one, or something that `int` takes, as a `tf.Variable`. None
                counts the steps that this actor has made in the environment.
            steps_per_run: `max_steps` of a run.
            episodes_per_run: `max_episodes` of a run.
            observers: Called in this order, before the metrics.
            transition_observers: As in `PyDriver`.
            info_observers: As in `PyDriver`.
            metrics: Observers whose results are logged and written. One that is among
                the `observers` as well is called once.
            reference_metrics: Metrics against whose results those of `metrics` are
                written as well. They are not called unless they are in `metrics` too.
            image_metrics: Metrics whose results are pictures, as
                `SummaryWriter.image` takes them; written, but not logged.
            summary_dir: Where TensorBoard event files go; None for no summaries.
            summary_interval: `run` writes summaries when `train_step` has grown by this
                much since it last did; 0 for never.
            end_episode_on_boundary: As in `PyDriver`.
            name: Part of the name of each summary, to tell several actors apart.

        Raises:
            TypeError, ValueError: As `PyDriver`.
            ImportError: If there is a `summary_dir`, and tensorboardX is missing.
        """
        self._metrics = list(metrics or ())
        self._reference_metrics = list(reference_metrics or ())
        self._image_metrics = list(image_metrics or ())
        self._train_step = train_step
        self._summary_interval = summary_interval
        self._name = name
        self._num_steps = 0
        self._driver = py_driver.PyDriver(
            env,
            policy,
            observers,
            transition_observers,
            info_observers,
            max_steps=steps_per_run,
            max_episodes=episodes_per_run,
            end_episode_on_boundary=end_episode_on_boundary,
        )
        called = self._driver.observers
        for metric in self._metrics + self._image_metrics:
            if metric not in called:
                called.append(metric)
        if train_step is None and summary_dir is not None:
            called.append(self._count_steps)
        # So that the first run writes as well, whatever the step is then.
        self._last_summary = self._step() - summary_interval
        self._summary_writer = (
            summaries.SummaryWriter(summary_dir) if summary_dir else None
        )
        self.reset()

    @property
    def env(self) -> PyEnvironment:
        """The environment that is stepped."""
        return self._driver.env

    @property
    def policy(self) -> py_policy.PyPolicy:
        """The policy; one made of the function, where a function was given."""
        return self._driver.policy

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that are logged and written."""
        return self._metrics

    @property
    def image_metrics(self) -> list[Metric]:
        """The metrics whose results are pictures."""
        return self._image_metrics

    @property
    def train_step(self) -> Any:
        """What was given as `train_step`."""
        return self._train_step

    @property
    def summary_writer(self) -> summaries.SummaryWriter | None:
        """Writes into the event file; None without `summary_dir`."""
        return self._summary_writer

    def run(self) -> None:
        """Goes on for one portion, and writes summaries when they are due."""
        self._time_step, self._policy_state = self._driver.run(
            self._time_step, self._policy_state
        )
        if self._summary_writer is None or self._summary_interval <= 0:
            return
        step = self._step()
        if step - self._last_summary >= self._summary_interval:
            self.write_metric_summaries()
            self._last_summary = step

    def run_and_log(self) -> None:
        """Does `run`, then `log_metrics`."""
        self.run()
        self.log_metrics()

    def write_metric_summaries(self) -> None:
        """Writes the metrics into the event file; does nothing without `summary_dir`.

        The names are TF-Agents': `Metrics/name/metric` against the train step, and
        `name/Metrics/metric/reference` against each reference metric. A result that is
        not one number is left out, and an error is logged.
        """
        if self._summary_writer is None:
            return
        for metric in self._metrics:
            tag = _joined("Metrics", self._name, metric.name)
            self._write(tag, metric.result(), self._step())
            for reference in self._reference_metrics:
                tag = _joined(self._name, "Metrics", metric.name, reference.name)
                self._write(tag, metric.result(), reference.result())
        for metric in self._image_metrics:
            tag = _joined("Metrics", self._name, metric.name)
            self._summary_writer.image(tag, metric.result(), self._step())
        self._summary_writer.flush()

    def log_metrics(self) -> None:
        """Logs the metrics, at level INFO of this module's logger."""
        results = ", ".join(f"{m.name} = {m.result()}" for m in self._metrics)
        _logger.info("%s", f"{self._name}: {results}" if self._name else results)

    def reset(self) -> None:
        """Resets the environment and the policy's state; metrics stay as they are."""
        self._time_step = self._driver.env.reset()
        self._policy_state = ()

    def close(self) -> None:
        """Closes the event file; the environment stays open."""
        if self._summary_writer is not None:
            self._summary_writer.close()

    def __enter__(self) -> Actor:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _step(self) -> int:
        if self._train_step is None:
            return self._num_steps
        step: Any = self._train_step
        if callable(step):
            step = step()
        try:
            return int(step)
        except (TypeError, ValueError):
            raise TypeError(
                "train_step: expected an int, a function that returns one, a variable "
                f"that holds one, or None, got {step!r}."
            ) from None

    def _count_steps(self, trajectory: tr.Trajectory) -> None:
        self._num_steps += int(np.count_nonzero(~trajectory.is_boundary()))

    def _write(self, tag: str, value: Any, step: Any) -> None:
        try:
            number, position = float(value), int(step)
        except (TypeError, ValueError):
            _logger.error("%s: expected one number, got %r at %r.", tag, value, step)
            return
        assert self._summary_writer is not None
        self._summary_writer.scalar(tag, number, position)


def _joined(*parts: str) -> str:
    return "/".join(part for part in parts if part)
