"""What a run ends with: a summary for people, and the same for programs."""

from __future__ import annotations

import dataclasses
from typing import Any

import rich.progress_bar
import rich.table

from parallel_envs.cli import printing
from parallel_envs.cli.numbers import formatted, num_bytes
from parallel_envs.cli.tally import NUM_LATEST, Tally

_NAME_WIDTH = 18
_BAR_WIDTH = 20


@dataclasses.dataclass(frozen=True)
class Report:
    """How a run went.

    Attributes:
        outcome: "finished", "interrupted" or "failed".
        tally: Counts of the run, from all times that it was gone on with.
        num_steps: Steps of this time.
        loop_seconds: How long those took, without start and last saving.
        seconds: Where the time went, by name.
        rows: What is in the replay.
        inserted: Rows that were ever put into it.
        nbytes: Memory that it takes.
    """

    outcome: str
    tally: Tally
    num_steps: int
    loop_seconds: float
    seconds: dict[str, float]
    rows: int
    inserted: int
    nbytes: int

    @property
    def steps_per_second(self) -> float:
        """Steps of this time, in all environments together."""
        return self.num_steps / self.loop_seconds if self.loop_seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        """Returns all of it."""
        return {
            "outcome": self.outcome,
            "steps": self.tally.num_steps,
            "episodes": self.tally.num_episodes,
            "return": self.tally.returns.summary(),
            "episode_length": self.tally.lengths.summary(),
            "steps_per_second": round(self.steps_per_second, 1),
            "failures": self.tally.failures.to_json(),
            "seconds": {name: round(time, 4) for name, time in self.seconds.items()},
            "replay_rows": self.rows,
            "replay_bytes": self.nbytes,
        }

    def print(self) -> None:
        """Prints it to stdout; without colours where that is no terminal.

        Raises:
            OSError: If it cannot be printed, but for a reader who has read enough.
        """
        printing.show(self._counts(), self._episodes(), self._times())

    def _counts(self) -> rich.table.Table:
        table = _table("")
        table.show_header = False
        table.add_column("")
        steps = f"{self.tally.num_steps:,}"
        if self.num_steps != self.tally.num_steps:
            steps += f" ({self.num_steps:,} of them now)"
        table.add_row("steps", steps)
        table.add_row("episodes", f"{self.tally.num_episodes:,}")
        speed = f"{self.steps_per_second:,.0f} steps/s while stepping"
        table.add_row("speed", speed)
        table.add_row("replay", f"{self._replay()}, {num_bytes(self.nbytes)}")
        if self.tally.failures.total:
            table.add_row("failures", str(self.tally.failures))
        return table

    def _replay(self) -> str:
        """Returns which rows there are: the reset after an episode is one too."""
        if self.rows < self.inserted:
            return f"the latest {self.rows:,} of {self.inserted:,} rows"
        steps = self.tally.num_steps
        return f"{self.rows:,} rows: {steps:,} steps and {self.rows - steps:,} resets"

    def _episodes(self) -> rich.table.Table:
        table = _table("")
        for name in ("mean", "min", "max", f"last {NUM_LATEST}"):
            table.add_column(name, justify="right")
        for name, statistics in (
            ("return", self.tally.returns),
            ("length", self.tally.lengths),
        ):
            values = statistics.mean, statistics.minimum, statistics.maximum
            table.add_row(name, *map(formatted, (*values, statistics.latest_mean)))
        return table

    def _times(self) -> rich.table.Table:
        table = _table("time")
        total = sum(self.seconds.values())
        table.add_column(f"{total:.2f} s", justify="right")
        table.add_column("")
        table.add_column("")
        for name, seconds in self.seconds.items():
            bar = rich.progress_bar.ProgressBar(total, seconds, width=_BAR_WIDTH)
            table.add_row(name, f"{seconds:.2f} s", f"{seconds / total:4.0%}", bar)
        return table


def _table(heading: str) -> rich.table.Table:
    """Returns a table with a first column that all of them share."""
    return printing.table(heading, width=_NAME_WIDTH)
