"""What happens after each step of the batch."""

from __future__ import annotations

import collections
import dataclasses
import time

import numpy as np

from parallel_envs import trajectory
from parallel_envs.cli.interruptions import Interruptions
from parallel_envs.cli.progress import Progress
from parallel_envs.cli.run_folder import RunFolder
from parallel_envs.cli.settings import Settings
from parallel_envs.cli.stopwatch import Stopwatch
from parallel_envs.cli.tally import Statistics, Tally
from parallel_envs.parallel_py_environment import ParallelPyEnvironment
from parallel_envs.replay import ReplayBuffer
from parallel_envs.summaries import SummaryWriter

_DISPLAY_SECONDS = 0.1
_FLUSH_SECONDS = 10.0
_SPEED_SPAN = 30  # Displays over which the speed is averaged.
_REST_PER_SAVING = 9  # Saving takes a tenth of the time at most.


@dataclasses.dataclass
class Recorder:
    """Stores and counts steps, and now and then shows, summarizes and saves.

    An observer of drivers. A signal is held back while it works, so that each step is
    stored and counted whole or not at all.

    Attributes:
        settings: How often.
        env: What tells which failures there were.
        buffer: Where steps are stored.
        tally: What counts them.
        folder: Where the buffer is saved.
        writer: Of the event file.
        progress: Where people look.
        interruptions: What may end the run.
        stopwatch: Told where the time went.
    """

    settings: Settings
    env: ParallelPyEnvironment
    buffer: ReplayBuffer
    tally: Tally
    folder: RunFolder
    writer: SummaryWriter
    progress: Progress
    interruptions: Interruptions
    stopwatch: Stopwatch

    def __post_init__(self) -> None:
        now = time.perf_counter()
        self._num_steps_saved = self.tally.num_steps
        self._next_display = now
        self._next_save = now + (self.settings.save_every or float("inf"))
        self._next_flush = now + _FLUSH_SECONDS
        self._next_summary = self.tally.num_steps
        self._speeds = collections.deque[tuple[float, int]](maxlen=_SPEED_SPAN)
        self._last_summary = (now, self.tally.num_steps)

    def __call__(self, step: trajectory.Trajectory) -> None:
        """Takes in a step of the batch."""
        self.stopwatch.lap("environments")
        with self.interruptions.held_back():
            self.buffer.add_batch(step)
            self.tally(step)
            now = self.stopwatch.lap("replay and metrics")
            if now >= self._next_display:
                self._display(now)
            if self.settings.summary_interval:
                self._summarize_when_due(now)
            if now >= self._next_save:
                self.save()

    def finish(self) -> None:
        """Saves and summarizes what has come since the last time."""
        self.tally.failures.update(self.env.failures)
        if self.tally.num_steps > self._num_steps_saved:
            self.save()
        is_told = self._last_summary[1] == self.tally.num_steps
        if self.settings.summary_interval and not is_told:
            self._summarize(time.perf_counter())
        self.stopwatch.lap("summaries")

    def save(self) -> None:
        """Saves the replay, and plans when to do so again."""
        before = time.perf_counter()
        self.tally.failures.update(self.env.failures)
        self.folder.save(self.buffer, self.tally.to_json())
        self._num_steps_saved = self.tally.num_steps
        now = self.stopwatch.lap("saving")
        rest = max(self.settings.save_every, _REST_PER_SAVING * (now - before))
        self._next_save = now + rest

    def _display(self, now: float) -> None:
        self._speeds.append((now, self.tally.num_steps))
        then, before = self._speeds[0]
        speed = (self.tally.num_steps - before) / (now - then) if now > then else 0.0
        self.progress.show(self.tally, speed)
        self._next_display = self.stopwatch.lap("display") + _DISPLAY_SECONDS

    def _summarize_when_due(self, now: float) -> None:
        num_steps = self.tally.num_steps
        if num_steps >= self._next_summary:
            self._summarize(now)
            interval = self.settings.summary_interval
            self._next_summary = num_steps - num_steps % interval + interval
        if now >= self._next_flush:
            self.writer.flush()
            self._next_flush = now + _FLUSH_SECONDS
        self.stopwatch.lap("summaries")

    def _summarize(self, now: float) -> None:
        num_steps = self.tally.num_steps
        then, before = self._last_summary
        if num_steps > before and now > then:
            speed = (num_steps - before) / (now - then)
            self.writer.scalar("Metrics/StepsPerSecond", speed, num_steps)
        self._last_summary = (now, num_steps)
        episodes = self.tally.num_episodes
        self.writer.scalar("Metrics/NumberOfEpisodes", episodes, num_steps)
        self.tally.failures.update(self.env.failures)
        if self.settings.max_restarts or self.tally.failures.total:
            failures = self.tally.failures.total
            self.writer.scalar("Metrics/Failures", failures, num_steps)
        self._write_latest("Metrics/AverageReturn", self.tally.returns)
        self._write_latest("Metrics/AverageEpisodeLength", self.tally.lengths)

    def _write_latest(self, tag: str, statistics: Statistics) -> None:
        if not statistics.count:
            return
        mean = np.asarray(statistics.latest_mean)
        for position in np.ndindex(mean.shape):  # One, `()`, if it is a number.
            name = "/".join([tag, *map(str, position)])
            self.writer.scalar(name, mean[position], self.tally.num_steps)
