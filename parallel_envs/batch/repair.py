"""Rounds of a batch, in which environments that fail are replaced.

What a row says stays a sequence of episodes, FIRST (MID)* LAST, whatever happens:

    the row's last step   its environment is lost    what the row says then
    --------------------  -------------------------  ----------------------------------
    FIRST or MID          in a step                  LAST: reward 0, discount 1.0, the
                                                     last observation once more; the
                                                     next step gives FIRST
    LAST, or none yet     in a reset                 FIRST, of the new environment

A batched environment whose rows are at both at once is reset twice: rows that have
said FIRST already say MID when the others say FIRST.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Collection, Container, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from parallel_envs import errors
from parallel_envs import time_step as ts
from parallel_envs.batch.environment_rows import Command
from parallel_envs.batch.failure import Failure
from parallel_envs.batch.failure_record import FailureRecord
from parallel_envs.batch.lineage import Lineage
from parallel_envs.batch.row_server import (
    Array,
    Outcome,
    RowServer,
    detail,
    error_of,
    first_rows,
    trace_of,
)
from parallel_envs.batch.row_writer import TimeStepStructure
from parallel_envs.process.worker_handle import WorkerGone

_LOGGER = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 0.1  # Before the second try in a row; then twice as long each.
_LONGEST_PAUSE_SECONDS = 5.0

_LOSSES = (errors.WorkerDiedError, errors.WorkerTimeoutError)

_NO_ROWS: frozenset[int] = frozenset()

Extras = dict[int, list[Any]]
Leaves = list[Any]


class Replaced(NamedTuple):
    """What the rows of environments say that were made anew.

    Attributes:
        lost: Rows that say LAST.
        first: Rows that say FIRST, of the new environment.
        held: Those of them that are to say MID in their next step, when others of their
            environment say FIRST.
    """

    lost: set[int]
    first: set[int]
    held: set[int]


class Repair:
    """Has environments made, stepped and, where they fail, made anew.

    Attributes:
        failures: What has gone wrong so far, in the order in which it was told.
        crashed: Rows that owe their last step to a failure.
        lost: Those of them that said LAST, and have a new environment since.
        max_restarts: Failures of one environment that are repaired.
    """

    def __init__(self, rows: RowServer, lineage: Lineage, max_restarts: int) -> None:
        """Makes nothing yet.

        Args:
            rows: What steps the environments.
            lineage: Decides their seeds.
            max_restarts: Failures of one environment that are repaired; those after
                them are raised.
        """
        self._rows, self._lineage = rows, lineage
        self.max_restarts = max_restarts
        self.failures: list[FailureRecord] = []
        self.crashed = self.lost = _NO_ROWS
        self._deaths: set[int] = set()  # Births of workers that are gone.
        self._num_restarts: dict[int, int] = {}
        self._in_a_row: dict[int, int] = {}
        self._num_rounds = 0
        self._is_incomplete = False
        self._renewing: set[int] = set()  # Constructors, where it is incomplete.
        self._firsts: list[int] = []
        self._buffers: Sequence[list[Array]] = ()
        self._buffer = 0  # That of the last round.
        self._last = 0  # That of the last round of the ring.
        self._held: list[int] = []  # Rows that wait for others of their environment.
        self._delivered: Leaves | None = None

    def make_missing(self) -> None:
        """Makes the environments that are not there, and waits until they are.

        Raises:
            WorkerError: If one could not be made.
        """
        if not self._is_incomplete:
            if not self.max_restarts:
                self._note_losses(self._rows.take_stock())
            missing = self._rows.missing
            if not missing:
                return
            if self._firsts:
                _LOGGER.warning("Environments %s are gone: making new ones.", missing)
            for index in missing if self._firsts else ():
                self._lineage.end_life(index)
            self._renew(missing)
        try:
            while failures := self._rows.await_renewed():
                self._charge([self._by_row(failure) for failure in failures])
                self._renew(())
        finally:
            self._is_incomplete = False  # What is missing now is known by `missing`.
            self._renewing.clear()

    def complete(self, indices: Iterable[int] | None = None) -> None:
        """Waits for environments that are being made anew.

        Args:
            indices: Only if one of these is; None for any.
        """
        if self._is_incomplete and (
            indices is None or not self._renewing.isdisjoint(indices)
        ):
            self.make_missing()

    def lay_out(
        self,
        structure: TimeStepStructure,
        buffers: Sequence[list[Array]],
        *,
        copy: bool,
    ) -> None:
        """Takes what rounds need, and waits until every environment has its rows.

        Args:
            structure: The time step of one row.
            buffers: What rounds write to, in turn: the leaves of one size.
            copy: Whether what is handed out are copies.

        Raises:
            WorkerError: If an environment was lost that has no restart left.
        """
        self._structure, self._buffers, self._copies = structure, buffers, copy
        self._firsts = first_rows(self._rows.descriptions)
        self._index_of = np.repeat(
            np.arange(len(self._firsts) - 1), np.diff(self._firsts)
        ).tolist()
        self._is_incomplete = True
        self.make_missing()

    def seed(self, seeds: Sequence[Any]) -> None:
        """Seeds first lives, those that can be seeded.

        Args:
            seeds: What the `seed` of each constructor's environment is to get.

        Raises:
            WorkerError: If an environment failed; one whose process was lost is left
                to the next round where there are restarts, which tells it as well.
        """
        for index, seed in enumerate(seeds):
            self._lineage.note_seed(index, seed)
        asked = {index: (seed, True) for index, seed in enumerate(seeds)}
        with contextlib.suppress(*(_LOSSES if self.max_restarts else ())):
            self._rows.ask_all("seed", asked)

    def ask_those_there(self, name: str, indices: Sequence[int]) -> dict[int, Any]:
        """Asks environments for something by name; returns the answers.

        Where there are restarts, those whose process is lost are left out: the next
        round tells of them.

        Raises:
            WorkerError: If an environment failed.
        """
        if not self.max_restarts:
            answers = self._rows.ask_all(name, dict.fromkeys(indices, ()))
            return dict(zip(indices, answers, strict=True))
        promises = {index: self._rows.ask(index, name) for index in indices}
        told: dict[int, Any] = {}
        for index, promise in promises.items():
            with contextlib.suppress(*_LOSSES):
                told[index] = promise()
        return told

    def let_go(self) -> None:
        """Gives up the arrays, with the memory that they lie in."""
        self._buffers, self._delivered = (), None

    def round(
        self, command: Command, extras: Extras | None, out: Leaves | None = None
    ) -> Leaves:
        """Steps or resets every row; returns the leaves of the time step.

        Args:
            command: Which of the two.
            extras: As in `RowServer.round`.
            out: Arrays to write the leaves into, and to return.

        Raises:
            WorkerError: If an environment failed that has no restart left.
        """
        self.complete()
        self._advance()
        outcome = self._rows.round(command, extras, self._buffer)
        held, self._held = self._held, []
        if outcome is not None and outcome.failures:
            leaves = self._mend(command, outcome, out)
        else:
            self.crashed = self.lost = _NO_ROWS
            leaves = self._take({} if outcome is None else outcome.extras, out)
        self._num_rounds += 1
        if self.max_restarts:
            self._keep(command, leaves, held)
        return leaves

    def take_held(self) -> list[int]:
        """Returns the rows that are to say MID for FIRST; others are to see to it."""
        held, self._held = self._held, []
        return held

    @property
    def single_steps_buffer(self) -> int:
        """The buffer for rows that are stepped one by one, which are copied out of it.

        Where views are handed out it is one that no round writes to.
        """
        self._buffer = len(self._buffers) - 1
        return self._buffer

    def leaves_of(self, rows: Sequence[int], extras: Extras) -> Leaves:
        """Returns copies of what some rows say."""
        where = list(rows)
        leaves: Leaves = [a.take(where, 0) for a in self._buffers[self._buffer]]
        for position in self._structure.variable:
            leaves.insert(position, [extras[position][row] for row in rows])
        return leaves

    def note_delivered(
        self,
        rows: Sequence[int],
        leaves: Leaves,
        ends: Collection[int],
        starts: Collection[int],
    ) -> None:
        """Keeps what some rows say that were stepped one by one.

        Args:
            rows: The rows.
            leaves: What they say.
            ends: Those of them that say LAST for a failure.
            starts: Those that say FIRST for a failure.
        """
        self.crashed = self.crashed.difference(rows).union(ends, starts)
        self.lost = self.lost.difference(rows).union(ends)
        self._num_rounds += 1
        if self._delivered is None:
            return
        for position, (kept, leaf) in enumerate(
            zip(self._delivered, leaves, strict=True)
        ):
            if position in self._structure.variable:
                for row, value in zip(rows, leaf, strict=True):
                    kept[row] = np.array(value)
            else:
                kept[list(rows)] = leaf
        if self._in_a_row:
            self._forgive()

    def replace(
        self,
        failures: Sequence[Failure],
        extras: Extras,
        *,
        is_reset: bool = False,
        idle: Container[int] = (),
    ) -> Replaced:
        """Has what has failed made anew.

        Args:
            failures: What went wrong.
            extras: For each variable leaf, by position, the value of every row; those
                of new environments that start at once are put in.
            is_reset: Whether every row was to start an episode.
            idle: The environments of which nothing was asked, so that they have nothing
                to say now, or only that they are lost.

        Raises:
            WorkerError: If an environment failed that has no restart left.
        """
        lost: set[int] = set()
        twice: dict[int, bool] = {}  # Environments that start now; see `RowServer`.
        while failures:
            self._charge(failures)
            failed = {self._index_of[row] for each in failures for row in each.rows}
            for index in failed:
                rows = self._rows_of(index)
                running = [row for row in rows if not is_reset and self._runs(row)]
                lost.update(running)
                if len(running) < len(rows) and index not in idle:
                    twice[index] = bool(running)
            self._renew(failed)
            starting = {index: twice[index] for index in failed & twice.keys()}
            if not starting:
                break  # The next round resets what is new.
            self.make_missing()
            started = self._rows.start(starting, self._buffer)
            failures = () if started is None else started.failures
            for position, values in ({} if started is None else started.extras).items():
                self._merge(extras[position], values, starting)
        first = {row for index in twice for row in self._rows_of(index)} - lost
        held = {row for row in first if twice[self._index_of[row]]}
        return Replaced(lost, first, held)

    def _mend(self, command: Command, outcome: Outcome, out: Leaves | None) -> Leaves:
        """Replaces what has failed; returns the leaves with what those rows say now."""
        # Where every process is gone nobody has sent any of them.
        empty = {n: [None] * self._firsts[-1] for n in self._structure.variable}
        extras = empty | outcome.extras
        lost, first, held = self.replace(
            outcome.failures, extras, is_reset=command == Command.RESET
        )
        self.lost, self.crashed = frozenset(lost), frozenset(lost | first)
        self._held = sorted(held)
        leaves = self._take(extras, out)
        for row in lost:
            self.end_episode(leaves, row, row)
        return leaves

    def _advance(self) -> None:
        """Goes on to the next buffer of the ring, to which the last does not belong."""
        if not self._copies:
            self._last = self._buffer = (self._last + 1) % (len(self._buffers) - 1)

    def _take(self, extras: Extras, out: Leaves | None) -> Leaves:
        """Returns what is to be handed out.

        Views hold until as many rounds later as there are buffers.
        """
        outputs = self._buffers[self._buffer]
        if out is not None:
            for leaf, array in zip(out, outputs, strict=True):
                leaf[...] = array
            return list(out)
        leaves: Leaves = [a.copy() for a in outputs] if self._copies else list(outputs)
        for position in self._structure.variable:
            leaves.insert(position, extras[position])
        return leaves

    def _keep(self, command: Command, leaves: Leaves, held: Sequence[int]) -> None:
        """Keeps what is handed out, to say it once more where there is nothing new."""
        if command == Command.STEP:
            for row in held:
                if row not in self.crashed:
                    leaves[0][row] = ts.StepType.MID
            if self._in_a_row:
                self._forgive()
        # What was handed out is the caller's, who may write into it.
        self._delivered = [_copy(leaf) for leaf in leaves]

    def _renew(self, discarded: Collection[int]) -> None:
        self._rows.renew(discarded, self._lineage.births())
        self._renewing.update(discarded)
        self._is_incomplete = True

    def _rows_of(self, index: int) -> range:
        return range(self._firsts[index], self._firsts[index + 1])

    def _by_row(self, failure: Failure) -> Failure:
        """Returns the failure of a constructor as that of its rows, once known."""
        if self._firsts:
            rows = self._rows_of(failure.rows[0])
            return Failure(rows, failure.doing, failure.error)
        return failure

    def _runs(self, row: int) -> bool:
        """Whether the row is in the middle of an episode."""
        return self._delivered is not None and (
            int(self._delivered[0][row]) != int(ts.StepType.LAST)
        )

    def _merge(
        self, values: list[Any], new: Sequence[Any], indices: Iterable[int]
    ) -> None:
        """Takes over the new values of some environments' rows."""
        for index in indices:
            for row in self._rows_of(index):
                values[row] = new[row]

    def end_episode(self, leaves: Leaves, place: int, row: int) -> None:
        """Has a row, at its place in leaves, say LAST in a step that did not happen."""
        assert self._delivered is not None, "a row that runs has said something"
        for position, leaf in enumerate(leaves):
            before = self._delivered[position][row]
            if position == 0:
                leaf[place] = ts.StepType.LAST
            elif position in self._structure.rewards:
                leaf[place] = np.zeros_like(before)
            elif position in self._structure.discounts:
                leaf[place] = np.ones_like(before)
            else:
                leaf[place] = before

    def _charge(self, failures: Sequence[Failure]) -> None:
        """Counts and notes failures, and waits before the next try if they go on.

        Raises:
            WorkerError: If one of the environments at fault has no restart left.
        """
        news = [failure for failure in failures if self._is_news(failure)]
        # What failed is discarded when its `close` is late: it was charged before.
        faults = [self._fault(each) for each in news if each.doing != "close"]
        exhausted = {
            index
            for index in faults
            if self._num_restarts.get(index, 0) >= self.max_restarts
        }
        is_repaired = bool(self.max_restarts) and not exhausted
        for index in faults:
            self._num_restarts[index] = self._num_restarts.get(index, 0) + is_repaired
            self._in_a_row[index] = self._in_a_row.get(index, 0) + 1
        for failure in news:
            self._note(failure, failures, is_repaired)
        if not is_repaired:
            raise error_of(failures, lambda each: self._note_on(each, exhausted))
        for failure in failures:
            self._lineage.end_life(self._fault(failure))
        tries = max((self._in_a_row[index] for index in faults), default=0)
        if tries > 1:
            pause = _FIRST_PAUSE_SECONDS * 2 ** (tries - 2)
            self._rows.pause(min(pause, _LONGEST_PAUSE_SECONDS))

    def _note_on(self, failure: Failure, exhausted: Container[int]) -> str:
        limit = self.max_restarts
        if limit and failure.culprit is None and self._fault(failure) in exhausted:
            return f" It has used up its restarts (max_restarts={limit})."
        return ""

    def _note_losses(self, failures: Sequence[Failure]) -> None:
        """Notes what was lost between two calls, or by one that was interrupted."""
        for failure in filter(self._is_news, failures):
            self._note(failure, failures, is_repaired=True)

    def _note(
        self, failure: Failure, failures: Sequence[Failure], is_repaired: bool
    ) -> None:
        record = self._record(failure, failures, is_repaired)
        self.failures.append(record)
        if is_repaired:
            _LOGGER.warning("%s It is made anew.", record.message)

    def _is_news(self, failure: Failure) -> bool:
        """Whether a failure is one of its own, and was not told before.

        A death is told by whatever is asked of the process after it.
        """
        if failure.culprit is not None:
            return False
        if not isinstance(failure.error, WorkerGone):
            return True
        is_known = failure.error.birth in self._deaths
        self._deaths.add(failure.error.birth)
        return not is_known

    def _fault(self, failure: Failure) -> int:
        """Returns the constructor whose environment has failed."""
        return self._index_of[failure.rows[0]] if self._firsts else failure.rows[0]

    def _record(
        self,
        failure: Failure,
        failures: Sequence[Failure],
        is_repaired: bool,
    ) -> FailureRecord:
        gone = failure.error if isinstance(failure.error, WorkerGone) else None
        first = failure.rows[0]
        lost = [
            row
            for other in failures
            if other is failure or other.culprit == first
            for row in other.rows
        ]
        return FailureRecord(
            index=first,
            indices=tuple(sorted(lost)),
            kind="raised" if gone is None else "died" if gone.limit is None else "late",
            doing=failure.doing,
            message=f"environment {first}{detail(failure)}",
            traceback=trace_of(failure),
            exitcode=gone and gone.exitcode,
            num_rounds=self._num_rounds,
            time=time.time(),
            num_restarts=self._num_restarts.get(self._fault(failure), 0),
            is_repaired=is_repaired,
        )

    def _forgive(self) -> None:
        """Forgets the failures of environments that have stepped since."""
        for index in list(self._in_a_row):
            rows = self._rows_of(index)
            if all(self._runs(row) for row in rows) and self.crashed.isdisjoint(rows):
                del self._in_a_row[index]


def _copy(leaf: Any) -> Any:
    if not isinstance(leaf, np.ndarray):
        return [np.array(row) for row in leaf]
    return leaf.copy()  # pyright: ignore[reportUnknownVariableType]
