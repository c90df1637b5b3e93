"""Rows that are stepped one by one: what is done first is handed out first.

A round keeps all rows at one step. Here each row is asked for its next step by itself,
and a caller takes as many as it likes, in the order in which they were done, so that
none waits for a slow one and none is passed over.
"""

from __future__ import annotations

import collections
import operator
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs import time_step as ts
from parallel_envs.batch.failure import Failure
from parallel_envs.batch.repair import Repair
from parallel_envs.batch.row_server import Array, RowServer
from parallel_envs.batch.row_writer import TimeStepStructure
from parallel_envs.process.errands import GATHER_SECONDS

Leaves = list[Any]


class Traffic:
    """Sends actions to rows, and hands out their next steps.

    Attributes:
        flying: The environments, by constructor, that are yet to be done.
    """

    def __init__(self, rows: RowServer, repair: Repair) -> None:
        """Starts with nothing under way.

        Args:
            rows: What steps the environments.
            repair: What replaces those that fail.
        """
        self._rows, self._repair = rows, repair
        self.flying: set[int] = set()
        self._outstanding: set[int] = set()  # Rows.
        self._landed: collections.deque[int] = (
            collections.deque()
        )  # Rows, oldest first.
        self._ends: set[int] = (
            set()
        )  # Rows that say LAST, of environments that are gone.
        self._starts: set[int] = set()  # Rows that owe their FIRST to a failed reset.
        self._held: set[int] = set()  # Rows that say MID while others of theirs start.
        self._values: dict[int, list[Any]] = {}  # Of variable leaves, one for each row.
        # For each row that was handed out since the last round, in which leaves and
        # where. The leaves themselves: to copy each of them would take as long again.
        self._said: dict[int, tuple[Leaves, int]] = {}

    def lay_out(
        self, structure: TimeStepStructure, spans: Sequence[tuple[int, int]]
    ) -> None:
        """Takes the structure of a step, and which rows each environment has."""
        self._structure, self._spans = structure, spans
        self._index_of = [
            index for index, (first, end) in enumerate(spans) for _ in range(first, end)
        ]
        self._values = {
            position: [None] * len(self._index_of) for position in structure.variable
        }

    @property
    def num_outstanding(self) -> int:
        """How many rows have an action whose step was not handed out."""
        return len(self._outstanding)

    @property
    def has_news(self) -> bool:
        """Whether a row was handed out since the last round."""
        return bool(self._said)

    @property
    def owes_steps(self) -> bool:
        """Whether rows are to say what a round would not: LAST, or MID for FIRST."""
        return bool(self._ends or self._held)

    def checked_rows(self, env_ids: Any) -> list[int]:
        """Returns the rows that `env_ids` names; None is all.

        Raises:
            TypeError: If they are no integers.
            ValueError: If one is out of range, there twice, has an action whose step
                was not handed out, or lacks others of its batched environment.
        """
        num_rows = len(self._index_of)
        rows = list(range(num_rows)) if env_ids is None else _as_integers(env_ids)
        for row in rows:
            if not 0 <= row < num_rows:
                raise ValueError(
                    f"send: env_ids: expected rows from 0 to {num_rows - 1}, got {row}."
                )
            if row in self._outstanding:
                raise ValueError(
                    f"send: row {row} has an action already: recv() its step first, or "
                    "reset()."
                )
        named = set(rows)
        if len(named) < len(rows):
            twice = next(row for row in rows if rows.count(row) > 1)
            raise ValueError(f"send: env_ids: row {twice} is there twice.")
        self._check_whole(named)
        return rows

    def checked_count(self, n: Any) -> int:
        """Returns how many rows are to be received; None is all.

        Raises:
            TypeError: If it is no integer.
            ValueError: If fewer rows are outstanding.
        """
        num_rows = len(self._outstanding)
        try:
            count = num_rows if n is None else operator.index(n)
        except TypeError:
            raise TypeError(
                f"recv: n: expected a number of rows, got {n!r:.200}."
            ) from None
        if count < 0:
            raise ValueError(f"recv: n: expected at least 0, got {count}.")
        if count > num_rows:
            raise ValueError(
                f"recv: expected at most {num_rows} rows, as many as have an action "
                f"from send(), got {count}."
            )
        return count

    def send(self, rows: Sequence[int], extras: dict[int, list[Any]] | None) -> None:
        """Has rows stepped; their actions of fixed size are in the arrays already.

        Args:
            rows: Those of `checked_rows`.
            extras: For each variable leaf of the action, by position, a value for each
                of `rows`.

        Raises:
            WorkerError: If a new environment for one of them cannot be made.
        """
        place = {row: number for number, row in enumerate(rows)}
        orders: dict[int, dict[int, list[Any]] | None] = {}
        for index in dict.fromkeys(self._index_of[row] for row in rows):
            own = range(*self._spans[index])
            if self._ends.intersection(own):
                # Its environment was lost meanwhile: this is how the rows get to know.
                self._landed.extend(own)
                continue
            orders[index] = extras and {
                n: [values[place[row]] for row in own] for n, values in extras.items()
            }
        self._repair.complete(orders)
        self._held.update(self._repair.take_held())
        self._outstanding.update(rows)
        self.flying.update(orders)
        if orders:
            self._rows.send(orders, self._repair.single_steps_buffer)

    def receive(self, num_rows: int) -> tuple[Leaves, npt.NDArray[np.int32]]:
        """Returns the leaves of the next steps, and which rows they are of.

        Args:
            num_rows: What `checked_count` has returned.

        Raises:
            WorkerError: If an environment failed that has no restart left.
        """
        while len(self._landed) < num_rows:
            self._land(num_rows - len(self._landed))
        rows = [self._landed.popleft() for _ in range(num_rows)]
        leaves = self._leaves(rows)
        self._outstanding.difference_update(rows)
        self._said.update({row: (leaves, place) for place, row in enumerate(rows)})
        return leaves, np.array(rows, np.int32)

    def step(self, extras: dict[int, list[Any]] | None) -> Leaves:
        """Steps every row as a round does; returns the leaves, in the order of rows.

        Args:
            extras: As in `send`.

        Raises:
            WorkerError: If an environment failed that has no restart left.
        """
        num_rows = len(self._index_of)
        self.send(range(num_rows), extras)
        leaves, rows = self.receive(num_rows)
        order = np.argsort(rows)
        return [
            leaf[order] if isinstance(leaf, np.ndarray) else [leaf[n] for n in order]
            for leaf in leaves
        ]

    def merged(self, leaves: Leaves) -> Leaves:
        """Returns what each row said last.

        Args:
            leaves: What the last round has returned, which stays as it is.
        """
        merged: Leaves = [leaf.copy() for leaf in leaves]  # Arrays, or lists of them.
        for row, (received, place) in self._said.items():
            for leaf, own in zip(merged, received, strict=True):
                leaf[row] = own[place]
        return merged

    def forget(self) -> None:
        """Forgets what was handed out, since a round has told more."""
        self._said.clear()

    def drop(self) -> None:
        """Forgets all that is under way; what has begun may yet run to its end."""
        self._rows.drop()
        for rows in (self._outstanding, self._ends, self._starts, self._held):
            rows.clear()
        self.flying.clear()
        self._landed.clear()

    def _check_whole(self, rows: set[int]) -> None:
        """Raises ValueError where only some rows of a batched environment are there."""
        for index in {self._index_of[row] for row in rows}:
            first, end = self._spans[index]
            if not rows.issuperset(range(first, end)):
                raise ValueError(
                    f"send: env_ids: rows {first} to {end - 1} are one batched "
                    "environment, so they are to be sent together."
                )

    def _land(self, num_rows: int) -> None:
        """Takes in what is done, waiting for at least one environment."""
        has_blocks = len(self._spans) < len(self._index_of)
        at_least = 1 if has_blocks else num_rows
        failures = self._take_in(at_least, None)
        if failures:
            if not self._repair.max_restarts:
                until = time.monotonic() + GATHER_SECONDS
                failures += self._take_in(len(self.flying), until)
            self._replace(failures)

    def _take_in(self, at_least: int, until: float | None) -> list[Failure]:
        failures: list[Failure] = []
        for landing in self._rows.landed(at_least, until):
            failures += landing.failures
            first, end = self._spans[landing.index]
            for position, values in landing.extras.items():
                self._values[position][first:end] = values
            if not landing.failures:
                self.flying.discard(landing.index)
                self._landed.extend(range(first, end))
        return failures

    def _replace(self, failures: Sequence[Failure]) -> None:
        """Has what has failed made anew; decides what its rows say."""
        failed = {self._index_of[row] for each in failures for row in each.rows}
        idle = failed - self.flying
        self.flying -= failed
        replaced = self._repair.replace(failures, self._values, idle=idle)
        self._ends |= replaced.lost
        self._starts |= replaced.first
        self._held |= replaced.held
        for index in sorted(failed - idle):
            self._landed.extend(range(*self._spans[index]))

    def _leaves(self, rows: list[int]) -> Leaves:
        """Returns the steps of some rows, in arrays of the caller's own."""
        leaves = self._repair.leaves_of(rows, self._values)
        ends, starts = self._ends.intersection(rows), self._starts.intersection(rows)
        for row in ends:
            self._repair.end_episode(leaves, rows.index(row), row)
        for row in self._held.intersection(rows) - starts:
            if row not in ends:
                leaves[0][rows.index(row)] = ts.StepType.MID
            self._held.remove(row)
        self._repair.note_delivered(rows, leaves, ends, starts)
        self._ends -= ends
        self._starts -= starts
        return leaves


def _as_integers(env_ids: Any) -> list[int]:
    array: Array = np.asarray(env_ids)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(
            f"send: env_ids: expected a list of row numbers, got {env_ids!r:.200}."
        )
    rows: Iterable[int] = array.tolist()
    return list(rows)
