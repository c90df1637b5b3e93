"""How often environments have failed, in numbers that can be gone on with."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence

from parallel_envs.batch.failure_record import FailureRecord, Kind

KINDS: tuple[Kind, ...] = typing.get_args(Kind)


class FailureCounts:
    """Counts failures of environments by their kind, and how many were repaired."""

    def __init__(self) -> None:
        self._repaired = 0
        self._by_kind: dict[str, int] = dict.fromkeys(KINDS, 0)
        self._num_records = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self._by_kind.values())

    def update(self, records: Sequence[FailureRecord]) -> None:
        """Counts what is new.

        Args:
            records: All `failures` of the environments, of which there are ever more.
        """
        for record in records[self._num_records :]:
            self._by_kind[record.kind] += 1
            self._repaired += record.is_repaired
        self._num_records = len(records)

    def to_json(self) -> dict[str, int]:
        """Returns all of it."""
        return {"total": self.total, "repaired": self._repaired, **self._by_kind}

    def restore(self, stored: Mapping[str, int]) -> None:
        """Goes on from what `to_json` returned."""
        self._repaired = stored["repaired"]
        self._by_kind = {kind: stored[kind] for kind in KINDS}

    def __str__(self) -> str:
        """Returns for example "3 (2 died, 1 late), all repaired"."""
        kinds = [f"{count:,} {kind}" for kind, count in self._by_kind.items() if count]
        repaired = {0: "none", self.total: "all"}.get(
            self._repaired, f"{self._repaired:,}"
        )
        return f"{self.total:,} ({', '.join(kinds)}), {repaired} repaired"
