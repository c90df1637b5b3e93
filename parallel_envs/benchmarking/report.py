"""All that one call has compared, and what somebody needs to know who reads it."""

from __future__ import annotations

import dataclasses
from typing import Any

from parallel_envs.benchmarking.contestants import Library
from parallel_envs.benchmarking.results import Comparison


@dataclasses.dataclass(frozen=True)
class Report:
    """The results of a call.

    Attributes:
        date: When it began.
        command: How it was called.
        machine: What describes the machine, by name.
        versions: Those of the libraries that took part, by name.
        missing: Libraries that could have.
        is_sweep: Whether the workloads differ in the cost of a step only.
        comparisons: What was compared, as far as it was completed.
    """

    date: str
    command: str
    machine: dict[str, str]
    versions: dict[str, str]
    missing: tuple[Library, ...]
    is_sweep: bool
    comparisons: list[Comparison] = dataclasses.field(default_factory=list[Comparison])

    def to_json(self) -> dict[str, Any]:
        """Returns all of it."""
        return {
            "date": self.date,
            "command": self.command,
            "machine": self.machine,
            "versions": self.versions,
            "not_installed": [each.distribution for each in self.missing],
            "comparisons": [each.to_json() for each in self.comparisons],
        }
