"""What `autotune` returns: arguments, what was measured, and a table for people."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from parallel_envs.autotuning.facts import Facts
from parallel_envs.autotuning.quantities import duration, size
from parallel_envs.autotuning.trials import Trial

COLUMNS = ("", "steps/s", "µs a batch", "start", "memory", "")
"""The head of `Tuning.cells`."""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Tuning:
    """How to step environments, as it was measured; it prints as a table.

    Attributes:
        num_envs: How many environments there are to be.
        num_cores: The cores that could be kept busy.
        facts: What was measured of one environment, alone in a process.
        trials: What came of each way to step all of them, in the order of the trials.
        chosen: The one that is recommended.
        reason: Why, in a sentence.
        hints: What else there is to know, in sentences: what would be faster and has a
            price, or why the figures may mislead.
        arguments: The recommended arguments, a new dict each time it is asked for:
            `ParallelPyEnvironment(constructors, **tuning.arguments)`.
    """

    num_envs: int
    num_cores: int
    facts: Facts
    trials: tuple[Trial, ...]
    chosen: Trial
    reason: str
    hints: tuple[str, ...] = ()

    @property
    def arguments(self) -> dict[str, Any]:
        return dict(self.chosen.arguments)

    def cells(self) -> list[tuple[str, ...]]:
        """Returns the table of trials as text, a row for each; see `COLUMNS`."""
        return [
            (
                trial.name,
                *_measured(trial),
                "recommended"
                if trial is self.chosen
                else trial.failure.partition(":")[0],
            )
            for trial in self.trials
        ]

    def told_failures(self) -> list[str]:
        """Returns a sentence for each trial in which nothing was measured."""
        return [
            f"{trial.name} {trial.failure}" for trial in self.trials if trial.failure
        ]

    def told_facts(self) -> list[tuple[str, str]]:
        """Returns what is known of one environment, as names and text."""
        facts = self.facts
        step = (
            f"{duration(facts.step_seconds)}, 95 % within "
            f"{duration(facts.step_seconds_p95)}, all within "
            f"{duration(facts.step_seconds_max)}; {facts.cpu_share:.0%} on a core"
        )
        told = [
            ("step", step),
            ("reset", f"{duration(facts.reset_seconds)}{self._told_episodes()}"),
            ("constructor", self._told_start()),
            ("memory", self._told_memory()),
            ("observation", f"{facts.observation_bytes:,} bytes"),
        ]
        if facts.num_rows > 1:
            told.insert(0, ("rows", f"{facts.num_rows}, stepped by one call"))
        return told

    def conclusion(self) -> list[str]:
        """Returns what is recommended, why, and what else there is to know."""
        call = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return [f"Recommended: {call}", self.reason, *self.hints]

    def __str__(self) -> str:
        lines = [
            "One environment, alone in a process:",
            *(f"  {name:<13}{text}" for name, text in self.told_facts()),
            "",
            f"{_counted(self.num_envs, 'environment')}, "
            f"{_counted(self.num_cores, 'core')}:",
            *_aligned([COLUMNS, *self.cells()]),
            *(f"  {sentence}" for sentence in self.told_failures()),
            "",
            *self.conclusion(),
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def _told_episodes(self) -> str:
        mean = self.facts.episode_steps
        if mean is None:
            return f"; no episode ended within {self.facts.num_steps:,} steps"
        return f"; episodes of {mean:,.0f} steps"

    def _told_start(self) -> str:
        facts = self.facts
        text = (
            f"{duration(facts.construct_seconds)}, and "
            f"{duration(facts.warm_up_seconds)} for the first reset and step"
        )
        if facts.sharing_error:
            return text
        return f"{text}; another one {duration(facts.further_start_seconds)}"

    def _told_memory(self) -> str:
        facts = self.facts
        if facts.memory_bytes is None:
            return "unknown on this system"
        text = f"{size(facts.memory_bytes)} for a process with one"
        if facts.further_memory_bytes is None:
            return text
        return f"{text}, {size(facts.further_memory_bytes)} for another one in it"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _measured(trial: Trial) -> tuple[str, str, str, str]:
    if trial.steps_per_second is None or trial.batch_seconds is None:
        return ("", "", "", "")
    return (
        f"{trial.steps_per_second:,.0f}",
        f"{trial.batch_seconds * 1e6:,.0f}",
        f"{trial.start_seconds:.2f} s",
        size(trial.memory_bytes),
    )


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns lines whose columns are aligned, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for first, *numbers, last in rows:
        pairs = zip(numbers, widths[1:], strict=False)
        cells = [
            f"{first:<{widths[0]}}",
            *(f"{cell:>{width}}" for cell, width in pairs),
        ]
        lines.append("  " + "  ".join([*cells, last]).rstrip())
    return lines
