"""Says of each failure that a batch tells whether something was done to cause it."""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Collection, Iterable, Sequence

from parallel_envs import errors
from parallel_envs.batch.failure_record import FailureRecord
from tests.fault_drill.faults import (
    AT_SOME_TIME,
    EFFECTS,
    FROM_OUTSIDE,
    HANGING,
    Fault,
)
from tests.fault_drill.plan import Event


class LedgerError(AssertionError):
    """A failure is told that did not happen, or one that did happen is not."""


class Ledger:
    """Faults that were committed and have not been told yet, of one batch.

    Attributes:
        open: These, and those told since `settle`.
        num_unexplained: Limits of time that were exceeded without a fault: the machine
            was slow.
    """

    def __init__(
        self,
        rows: Sequence[range],
        groups: Sequence[Collection[int]],
        *,
        casts: bool,
    ) -> None:
        """Starts with none.

        Args:
            rows: Of each constructor.
            groups: For each constructor, all whose environments are in its process.
            casts: Whether a wrong dtype is none.
        """
        self._rows, self._groups = rows, groups
        self._casts = casts
        self.open: list[Event] = []
        self.num_unexplained = 0
        self._told: list[Event] = []
        self._slow_rows: set[int] = set()
        self._last_calls: set[Event] = set()
        self._num_restarts: collections.Counter[int] = collections.Counter()

    def effect(self, event: Event) -> str:
        """Returns what a fault does to its environment in this batch."""
        if self._casts and event.fault is Fault.WRONG_DTYPE:
            return "none"
        effect = EFFECTS[event.fault]
        is_only_logged = effect == "raised" and event.place == "close"
        return "none" if is_only_logged else effect

    def note(self, events: Iterable[Event]) -> None:
        """Takes in what has happened."""
        self.open += [event for event in events if self.effect(event) != "none"]

    @property
    def losable(self) -> set[int]:
        """The rows that may be lost, for what is open."""
        rows = set(self._slow_rows)
        for event in self.open:
            is_raised = self.effect(event) == "raised"
            lost = [event.position] if is_raised else self._groups[event.position]
            rows.update(row for position in lost for row in self._rows[position])
        return rows

    def account(
        self,
        records: Iterable[FailureRecord],
        max_restarts: int,
        *,
        of_start: bool = False,
    ) -> None:
        """Finds the cause of each failure that was told.

        Args:
            records: What was told.
            max_restarts: Of each environment.
            of_start: Whether it was told before the rows were known, by constructor.

        Raises:
            LedgerError: If there is none, or if restarts are miscounted.
        """
        for record in records:
            index = record.index
            position = index if of_start else self._position_of(index)
            # Without restarts a loss between two calls is told, and charged to nobody.
            is_told_only = not (max_restarts or record.num_restarts)
            if record.is_repaired and record.doing != "close" and not is_told_only:
                self._num_restarts[position] += 1
            used = self._num_restarts[position]
            if record.num_restarts != used or used > max_restarts:
                raise LedgerError(f"{used} restarts of {max_restarts}, told {record}.")
            cause = self._cause(position, record.kind)
            if cause is not None:
                self._told.append(cause)
            elif record.kind == "late":
                self.num_unexplained += 1
                self._slow_rows.update(record.indices)
            else:
                raise LedgerError(f"no cause is known of {record} in {self.open}.")

    def check_error(self, error: errors.WorkerError) -> None:
        """Checks that every row which an error names had a fault."""
        if isinstance(error, errors.WorkerTimeoutError):
            unexplained = set(error.indices) - self.losable
            self.num_unexplained += bool(unexplained)
            self._slow_rows |= unexplained
        if not self.losable.issuperset(error.indices):
            raise LedgerError(f"{error!r:.500} names a row without a fault: {self}.")

    def check_lost(self, lost: Collection[int], old: Collection[Event]) -> None:
        """Checks after a round without error that what failed is lost, and was told.

        Args:
            lost: The rows that owe their last step to a failure, or may do so.
            old: What was open before the round.
        """
        for event in self.open:
            is_now = event.place in ("step", "reset") and event not in old
            is_due = event in old and (
                event.place == "constructor" or self.effect(event) != "raised"
            )
            if event.fault in AT_SOME_TIME or not (is_now or is_due):
                continue
            rows = self._rows[event.position]
            if is_now and not set(rows) <= set(lost):
                raise LedgerError(f"rows {rows} went on after {event}.")
            others = [
                other
                for other in self.open
                if other is not event
                and other.position in self._groups[event.position]
                and self.effect(other) != "raised"
            ]
            if not others and not self._slow_rows and event not in self._told:
                raise LedgerError(f"{event} was not told.")

    def settle(self, pids: Collection[int], old: Collection[Event] = ()) -> None:
        """Drops what can have no further consequences.

        Args:
            pids: The processes of the environments.
            old: What was open before a round that is over; it has shown itself.
        """
        self.open = [
            event
            for event in self.open
            if self._is_open(event, pids) and not self._is_done(event, pids, old)
        ]
        self._told, self._slow_rows = [], set()

    def drop(self, place: str) -> None:
        """Forgets exceptions in a method that was asked for by name: it has raised."""
        self.open = [
            event
            for event in self.open
            if event.place != place or self.effect(event) != "raised"
        ]

    def __repr__(self) -> str:
        return f"<Ledger of {self.open}, losable {sorted(self.losable)}>"

    def _is_done(
        self, event: Event, pids: Collection[int], old: Collection[Event]
    ) -> bool:
        """Whether an event has had its consequence, or should have had it."""
        if event.fault is Fault.NURSERY_KILLED:
            return False
        has_shown = event.place in ("step", "reset")
        if self.effect(event) == "raised":
            return event in self._told or event in old or has_shown
        # Of several that may have been told, it is not one whose process is there.
        if event in self._told and event.pid not in pids:
            return True
        return has_shown and event.fault not in AT_SOME_TIME

    def _is_open(self, event: Event, pids: Collection[int]) -> bool:
        """Whether the process that an event is to end may still be there."""
        if event.fault is not Fault.NURSERY_KILLED:
            return self.effect(event) == "raised" or event.pid in pids
        # When it is gone one more call may tell what it has taken along.
        if event in self._last_calls:
            return False
        if not pathlib.Path(f"/proc/{event.pid}").exists():
            self._last_calls.add(event)
        return True

    def _position_of(self, row: int) -> int:
        return next(n for n, rows in enumerate(self._rows) if row in rows)

    def _cause(self, position: int, kind: str) -> Event | None:
        own: list[Event] = []
        others: list[Event] = []
        for event in self.open:
            # Workers that were about to start die with their parent as well.
            is_used = event in self._told and event.fault is not Fault.NURSERY_KILLED
            if is_used or not self._can_tell(event, kind):
                continue
            if event.position == position and event.fault not in FROM_OUTSIDE:
                own.append(event)
            elif (
                self.effect(event) != "raised"
                and position in self._groups[event.position]
            ):
                others.append(event)
        return next(iter(own + others), None)

    def _can_tell(self, event: Event, kind: str) -> bool:
        if event.fault is Fault.IS_KILLED or event.fault in HANGING:
            # Whoever hangs may be killed by something else, and the killer be late.
            return kind in ("died", "late")
        return self.effect(event) == kind
