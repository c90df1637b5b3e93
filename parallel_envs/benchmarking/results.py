"""What a comparison has shown: medians, and what they are held to."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any

from parallel_envs.benchmarking.contestants import SERIAL, Contestant
from parallel_envs.benchmarking.measuring import Failure, Measurement
from parallel_envs.benchmarking.workloads import Workload


@dataclasses.dataclass
class Entry:
    """One contestant on one workload.

    Attributes:
        contestant: Who it was.
        measurements: One for each run.
        failure: Why there are no more; None if nothing went wrong.
    """

    contestant: Contestant
    measurements: list[Measurement] = dataclasses.field(
        default_factory=list[Measurement]
    )
    failure: str | None = None

    def add(self, outcome: Measurement | Failure) -> None:
        """Keeps the outcome of a run."""
        if isinstance(outcome, Failure):
            self.failure = outcome.reason
        else:
            self.measurements.append(outcome)

    @property
    def steps_per_second(self) -> float | None:
        """The median of all runs; None if there was none, or if one has failed."""
        return self.median("steps_per_second")

    def median(self, field: str) -> float | None:
        """Returns the median of a field of the measurements, or None likewise."""
        values = [getattr(each, field) for each in self.measurements]
        if self.failure is not None or not values or None in values:
            return None
        return statistics.median(values)


@dataclasses.dataclass(frozen=True)
class Line:
    """What a table says of one contestant; None where it has nothing to say.

    Attributes:
        name: Of the contestant.
        steps_per_second: Of all environments together.
        us_per_batch: Microseconds of a step of all of them.
        of_peer: Steps per second, divided by those of the first peer.
        of_serial: Likewise, by those of a plain loop.
        of_limit: Likewise, by what cannot be surpassed.
        startup_seconds: Until the first reset was done.
        worker_megabytes: Memory of its own for each process.
        failure: Why there are no numbers.
    """

    name: str
    steps_per_second: float | None
    us_per_batch: float | None
    of_peer: float | None
    of_serial: float | None
    of_limit: float | None
    startup_seconds: float | None
    worker_megabytes: float | None
    failure: str | None


@dataclasses.dataclass(frozen=True)
class Comparison:
    """All contestants on one workload with one number of environments.

    Attributes:
        workload: What they stepped.
        num_envs: Rows of the batch.
        num_cores: Cores that they could use.
        entries: Those of the contestants, the plain loop first.
    """

    workload: Workload
    num_envs: int
    num_cores: int
    entries: list[Entry]

    @property
    def title(self) -> str:
        """What was stepped, in words."""
        return f"{self.workload.name}, {self.num_envs} environments"

    @property
    def serial(self) -> float | None:
        """Steps per second of a plain loop."""
        return self._entry_of_serial.steps_per_second

    @property
    def limit(self) -> float | None:
        """Steps per second that cannot be surpassed.

        That is the plain loop's, for each core; for each environment, if it waits.
        """
        serial = self._entry_of_serial
        busy_share = serial.median("busy_share")
        if serial.steps_per_second is None or busy_share is None:
            return None
        return serial.steps_per_second * self.workload.parallelism(
            self.num_envs, self.num_cores, busy_share
        )

    @property
    def first_peer(self) -> Entry | None:
        """The first contestant of somebody else's that has not failed."""
        peers = (entry for entry in self.entries if entry.contestant.is_peer)
        return next((each for each in peers if each.steps_per_second), None)

    @property
    def lines(self) -> list[Line]:
        """One for each contestant, in their order."""
        peer = self.first_peer and self.first_peer.steps_per_second
        return [self._line(entry, peer) for entry in self.entries]

    def to_json(self) -> dict[str, Any]:
        """Returns all of it, the single runs too."""
        runs = [
            [dataclasses.asdict(run) for run in entry.measurements]
            for entry in self.entries
        ]
        lines = map(dataclasses.asdict, self.lines)
        return {
            "workload": self.workload.name,
            "num_envs": self.num_envs,
            "limit": self.limit,
            "first_peer": self.first_peer and self.first_peer.contestant.name,
            "contestants": [
                {**line, "runs": own} for line, own in zip(lines, runs, strict=True)
            ],
        }

    @property
    def _entry_of_serial(self) -> Entry:
        return next(each for each in self.entries if each.contestant == SERIAL)

    def _line(self, entry: Entry, peer: float | None) -> Line:
        rate = entry.steps_per_second
        worker_bytes = entry.median("worker_bytes")
        return Line(
            name=entry.contestant.name,
            steps_per_second=rate,
            us_per_batch=_ratio(self.num_envs * 1e6, rate),
            of_peer=_ratio(rate, peer),
            of_serial=_ratio(rate, self.serial),
            of_limit=_ratio(rate, self.limit),
            startup_seconds=entry.median("startup_seconds"),
            worker_megabytes=_ratio(worker_bytes, 1e6),
            failure=entry.failure,
        )


def _ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base
