"""What drills have met, counted."""

from __future__ import annotations

import collections
import dataclasses

from tests.fault_drill.faults import Fault


@dataclasses.dataclass
class Tally:
    """What drills have met."""

    seconds: float = 0.0
    num_batches: int = 0
    num_steps: int = 0
    num_restarts: int = 0
    num_unexplained: int = 0
    errors: collections.Counter[str] = dataclasses.field(
        default_factory=lambda: collections.Counter[str]()
    )
    faults: collections.Counter[Fault] = dataclasses.field(
        default_factory=lambda: collections.Counter[Fault]()
    )

    def __str__(self) -> str:
        lines = [
            f"{self.num_steps} batch steps of {self.num_batches} batches in "
            f"{self.seconds:.0f} s",
            f"{self.num_restarts} restarts, {self.num_unexplained} limits of time "
            "exceeded by the machine alone",
        ]
        named = {kind.value: count for kind, count in self.faults.items()}
        for title, counts in (("faults", named), ("errors", self.errors)):
            lines.append(f"{sum(counts.values())} {title}")
            lines += [f"  {counts[name]:5d}  {name}" for name in sorted(counts)]
        return "\n".join(lines)
