"""Parts of workers' objects that are worked on one by one, first come, first served.

A round waits for all; here a caller asks for some parts, and takes those that are done
first. As with rounds, what was asked and what is done stands in memory, and messages
and bells only wake.
"""

from __future__ import annotations

import abc
import collections
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy.typing as npt

from parallel_envs.process import pickling
from parallel_envs.process.deadlines import Deadlines, Errand
from parallel_envs.process.errands import Errands, has_failed, unpickled
from parallel_envs.process.part_block import PartBlock
from parallel_envs.process.remote_error import RemoteError
from parallel_envs.process.worker_handle import WorkerGone, WorkerHandle

Array = npt.NDArray[Any]


class PartAnswer(NamedTuple):
    """What came of a part.

    Attributes:
        part: Its number.
        told: A `Report`, or None where there is nothing to tell; a `RemoteError` where
            the worker failed, `WorkerGone` where it is dead.
        values: The part's rows of the output arrays; None where they are in memory.
    """

    part: int
    told: Any
    values: list[Array] | None = None


class PartOrder(NamedTuple):
    """What a part needs beside the command.

    Attributes:
        inputs: The part's rows of the input arrays; None where they are in memory.
        extras: Values that fit into no array, or None.
    """

    inputs: Sequence[Array] | None = None
    extras: Any = None


class PartRounds(abc.ABC):
    """Has parts worked on, and hands out what is done in the order in which it was."""

    def __init__(
        self,
        errands: Errands,
        deadlines: Deadlines,
        workers: Sequence[WorkerHandle],
        worker_of: Sequence[int],
        *,
        limit: float | None,
        max_concurrency: int | None,
    ) -> None:
        """Starts with nothing asked.

        Args:
            errands: What messages are sent through.
            deadlines: What is waited with.
            workers: The handle of each worker; it changes when one is replaced.
            worker_of: For each part the number of its worker.
            limit: Seconds that a part may take.
            max_concurrency: How many parts are asked for at a time; None for all.
        """
        self._errands, self._deadlines, self._workers = errands, deadlines, workers
        self._worker_of = worker_of
        self._limit = limit
        self._max_concurrency = max_concurrency or len(worker_of)
        self._waiting: collections.deque[tuple[int, PartOrder]] = collections.deque()
        self._command = 0
        self._open: dict[int, Errand] = {}  # By part, what was asked and not taken.

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked for that was not taken."""
        return not self._open and not self._waiting

    def ask(self, command: int, orders: Mapping[int, PartOrder]) -> None:
        """Asks for parts; what was asked for earlier comes first.

        Args:
            command: What they are about, the same as for all that are not taken yet.
            orders: For each part, none of which is asked for already.
        """
        self._command = command
        self._waiting.extend(orders.items())
        self._begin_more()

    def take(self, at_least: int, until: float | None = None) -> list[PartAnswer]:
        """Returns what is done, oldest first, waiting for so many or until `until`.

        A failure ends the wait, so that it is told while others are still at it.

        Args:
            at_least: Not more than were asked for.
            until: By `time.monotonic`.

        Raises:
            ClosedError: If the pool gets closed meanwhile.
        """
        answers: list[PartAnswer] = []
        while True:
            done = [*self._done(), *self._lost()]
            for answer in done:
                self._open.pop(answer.part, None)
            answers += done
            if done and self._waiting:
                self._begin_more()
            is_late = until is not None and until <= time.monotonic()
            is_over = until is None and any(has_failed(a.told) for a in done)
            if len(answers) >= at_least or is_late or is_over:
                return answers
            if not done:
                self._deadlines.wait(self._unfinished, until)

    def drop(self) -> None:
        """Takes back what has not begun, and forgets the rest."""
        self._waiting.clear()
        for part in self._open:
            self._take_back(part)
        self._open.clear()

    @abc.abstractmethod
    def _begin(self, worker: int, orders: Mapping[int, PartOrder]) -> None:
        """Asks a living worker for parts."""

    @abc.abstractmethod
    def _done(self) -> list[PartAnswer]:
        """Returns what is open and done, oldest first."""

    @abc.abstractmethod
    def _take_back(self, part: int) -> None:
        """Forgets a part; where that can be, it does not begin any more."""

    @abc.abstractmethod
    def _is_undone(self, part: int) -> bool:
        """Returns whether the worker has yet to do an open part."""

    def _begin_more(self) -> None:
        groups: dict[int, dict[int, PartOrder]] = {}
        now = time.monotonic()
        for _ in range(self._num_free()):
            part, order = self._waiting.popleft()
            groups.setdefault(self._worker_of[part], {})[part] = order
        for worker, orders in groups.items():
            errand = Errand(worker, now, self._limit)
            self._open |= dict.fromkeys(orders, errand)
            self._begin(worker, orders)

    def _num_free(self) -> int:
        """Returns how many of those that wait may begin."""
        if len(self._open) + len(self._waiting) <= self._max_concurrency:
            return len(self._waiting)
        num_running = sum(map(self._is_undone, self._open))
        return min(len(self._waiting), max(0, self._max_concurrency - num_running))

    def _lost(self) -> list[PartAnswer]:
        """Returns what cannot begin any more, as its worker is gone."""
        dead = {worker.index for worker in self._workers if worker.is_dead}
        lost = [part for part, _ in self._waiting if self._worker_of[part] in dead]
        if lost:
            kept = [each for each in self._waiting if each[0] not in set(lost)]
            self._waiting = collections.deque(kept)
        return [PartAnswer(p, self._errands.gone(self._worker_of[p])) for p in lost]

    def _unfinished(self) -> list[Errand]:
        """Returns for each worker that is at something since when it is.

        Nothing where nobody can be late: to look at all parts takes longer than a step.
        """
        if self._limit is None:
            return []
        first: dict[int, Errand] = {}
        for part, errand in self._open.items():
            if not self._workers[errand.worker].is_dead and self._is_undone(part):
                first.setdefault(errand.worker, errand)
        return list(first.values())


class MemoryParts(PartRounds):
    """Parts that are asked for through memory: a worker has one message for several.

    Args:
        block: Where they are asked for.
    """

    def __init__(self, block: PartBlock, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._block = block
        self._last = 0
        self._numbers: dict[int, int] = {}  # By open part.
        self._news: dict[int, bytes] = {}  # By number of the request.

    def hear(self, number: int, payload: bytes) -> None:
        """Takes in what a worker tells of a request that is still open."""
        if number in self._numbers.values():
            self._news[number] = payload

    def _begin(self, worker: int, orders: Mapping[int, PartOrder]) -> None:
        self._block.command = self._command
        for part in orders:
            self._last += 1
            self._numbers[part] = self._last
            self._block.asked[part] = self._last
        extras = {
            part: order.extras
            for part, order in orders.items()
            if order.extras is not None
        }
        payload = pickling.dumps(extras) if extras else b""
        message = self._last, "parts", payload
        self._errands.send(self._workers[worker], message, self._unfinished)

    def _done(self) -> list[PartAnswer]:
        done = self._block.done.tolist()
        when = self._block.done_at
        found: list[tuple[int, PartAnswer]] = []
        for part, number in self._numbers.items():
            if abs(done[part]) == number and (done[part] > 0 or number in self._news):
                payload = self._news.pop(number, None)
                told = None if payload is None else unpickled(payload)
                found.append((int(when[part]), PartAnswer(part, told)))
            elif self._workers[self._worker_of[part]].is_dead:
                gone = self._errands.gone(self._worker_of[part])
                found.append((time.monotonic_ns(), PartAnswer(part, gone)))
        for _, answer in found:
            self._take_back(answer.part)
        return [answer for _, answer in sorted(found, key=lambda each: each[0])]

    def _take_back(self, part: int) -> None:
        self._news.pop(self._numbers.pop(part, 0), None)
        self._block.asked[part] = 0

    def _is_undone(self, part: int) -> bool:
        return abs(int(self._block.done[part])) != self._numbers[part]


class ChannelParts(PartRounds):
    """Parts that are asked for through channels, with a message each.

    Args:
        firsts: For each worker the number of its first part.
    """

    def __init__(self, firsts: Sequence[int], *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._firsts = firsts
        self._numbers: dict[int, int] = {}  # By number of the request, the part.

    def _begin(self, worker: int, orders: Mapping[int, PartOrder]) -> None:
        for part, order in orders.items():
            own = part - self._firsts[worker]
            number = self._errands.ask(
                worker, "part", own, self._command, *order, limit=self._limit
            )
            self._numbers[number] = part

    def _done(self) -> list[PartAnswer]:
        answers: list[PartAnswer] = []
        for number, answer in self._errands.take_settled(list(self._numbers)):
            part = self._numbers.pop(number)
            is_lost = isinstance(answer, (RemoteError, WorkerGone))
            told, values = (answer, None) if is_lost else answer
            answers.append(PartAnswer(part, told, values))
        return answers

    def _take_back(self, part: int) -> None:
        for number in [n for n, other in self._numbers.items() if other == part]:
            self._errands.forget(number)
            del self._numbers[number]

    def _is_undone(self, part: int) -> bool:
        return part in self._numbers.values()
