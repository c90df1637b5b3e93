"""What was asked of workers through their channels, and what they have answered.

Every request has a number, and its answer carries it: an answer that nobody wants any
more is dropped, so none is ever taken for another's.
"""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from parallel_envs.process import pickling
from parallel_envs.process.deadlines import Deadlines, Errand
from parallel_envs.process.remote_error import RemoteError
from parallel_envs.process.worker import Report
from parallel_envs.process.worker_handle import WorkerGone, WorkerHandle

GATHER_SECONDS = 0.05
"""How long a call that has failed waits for more failures."""


class Errands:
    """Requests by number, each open until its answer is taken or it is forgotten.

    Attributes:
        gone: Tells what is known of a dead worker.
    """

    def __init__(
        self,
        deadlines: Deadlines,
        workers: Sequence[WorkerHandle],
        gone: Callable[[int], WorkerGone],
    ) -> None:
        """Starts with none.

        Args:
            deadlines: What is waited with.
            workers: The handle of each worker; it changes when one is replaced.
            gone: Tells what is known of a dead worker.
        """
        self._deadlines = deadlines
        self._workers = workers
        self.gone = gone
        self._last = 0
        self._open: dict[int, WorkerHandle] = {}
        # What workers have yet to do, wanted or not, in the order in which they do it.
        self._ahead: dict[int, tuple[WorkerHandle, Errand]] = {}
        self._arrived: dict[int, bytes | WorkerGone] = {}

    def ask(
        self,
        index: int,
        verb: str,
        *arguments: Any,
        limit: float | None,
        name: str = "",
        since: float | None = None,
    ) -> int:
        """Asks a worker, dead or alive; returns the request's number.

        Waits while the worker is too busy to take the message.

        Args:
            index: Number of the worker.
            verb: What it knows how to do.
            *arguments: They go along by value.
            limit: Seconds that the worker may take.
            name: What is asked for, if it has a name.
            since: From when its time counts, by `time.monotonic`; now by default.

        Raises:
            TypeError: If an argument cannot be pickled; nothing is asked then.
        """
        worker = self._workers[index]
        # By itself, so that a worker can answer even what it cannot read.
        payload = pickling.dumps(arguments)
        self._last += 1
        number = self._last
        self._open[number] = worker
        if not worker.is_dead:
            errand = Errand(index, since or time.monotonic(), limit, name)
            self._ahead[number] = worker, errand
            message = number, verb, payload
            self.send(worker, message, lambda: self._unfinished([number]))
        return number

    def send(
        self,
        worker: WorkerHandle,
        message: Any,
        unfinished: Callable[[], Sequence[Errand]],
    ) -> None:
        """Sends a message, waiting while the worker is too busy to take it.

        Args:
            worker: Dead or alive.
            message: Any picklable value.
            unfinished: Returns what the worker may be at; it is killed if that is late.
        """
        push: Callable[[float | None], None] = lambda end: worker.send(message, end)  # noqa: E731
        while not worker.is_dead:
            left = self._deadlines.left(unfinished())
            try:
                push(None if left is None else time.monotonic() + left)
                return
            except TimeoutError:
                self._deadlines.enforce(unfinished())
                push = worker.flush

    def answer(self, number: int) -> Any:
        """Returns the answer to a request, waiting for it.

        Returns:
            A `RemoteError` where the worker failed, `WorkerGone` where it is dead.

        Raises:
            ClosedError: If the pool gets closed meanwhile.
        """
        while not self._is_settled(number):
            self._deadlines.wait(lambda: self._unfinished([number]))
        return self._take(number)

    def gather(
        self,
        numbers: Iterable[int],
        *,
        at_a_time: int | None = None,
        wait_for_all: bool = False,
        until: float | None = None,
    ) -> dict[int, Any]:
        """Returns the answers to requests, by number, waiting for all.

        Args:
            numbers: What was asked, or is asked for when it is looked at.
            at_a_time: How many are open at a time: the next number is looked at as an
                answer arrives. None for all.
            wait_for_all: If False, 50 ms after a failure the requests that are then
                still open are forgotten, and missing in the result.
            until: When they are in any case, by `time.monotonic`.

        Raises:
            ClosedError: If the pool gets closed meanwhile.
        """
        answers: dict[int, Any] = {}
        ahead, waiting = iter(numbers), list[int]()
        try:
            waiting.extend(itertools.islice(ahead, at_a_time))
            while waiting:
                arrived = self._some(waiting, until)
                answers |= arrived
                waiting = [number for number in waiting if number not in arrived]
                if until is None:
                    if not wait_for_all and any(map(has_failed, arrived.values())):
                        until = time.monotonic() + GATHER_SECONDS
                elif until <= time.monotonic():
                    break
                waiting.extend(itertools.islice(ahead, len(arrived)))
            return answers
        finally:
            for number in waiting:
                self.forget(number)

    def take_settled(self, numbers: Iterable[int]) -> list[tuple[int, Any]]:
        """Returns those that are answered, with their answers, in order of arrival."""
        settled = [number for number in numbers if self._is_settled(number)]
        order = {number: place for place, number in enumerate(self._arrived)}
        settled.sort(key=lambda number: order.get(number, len(order)))
        return [(number, self._take(number)) for number in settled]

    def forget(self, number: int) -> None:
        """Drops a request whose answer nobody wants any more."""
        self._open.pop(number, None)
        self._arrived.pop(number, None)

    def name_of_first(self, worker: WorkerHandle) -> str:
        """Returns the name of what a worker was to do next, wanted or not."""
        ahead = (
            errand.name for other, errand in self._ahead.values() if other is worker
        )
        return next(ahead, "")

    def close(self) -> None:
        """Lets go of the memory that tells what workers are at; answers are dropped."""
        del self._deadlines

    def hear(self, number: int, payload: bytes) -> None:
        """Takes in an answer that has arrived."""
        self._ahead.pop(number, None)
        if number in self._open:
            self._arrived[number] = payload

    def bury(self, index: int) -> None:
        """Keeps what is known of a dead worker for whatever it has left unanswered.

        Where it is replaced nobody could tell any more.
        """
        lost = self._workers[index]
        for number in [n for n, worker in self._open.items() if worker is lost]:
            if number not in self._arrived:
                self._arrived[number] = self.gone(index)
        for number in [n for n, (worker, _) in self._ahead.items() if worker is lost]:
            del self._ahead[number]

    def _is_settled(self, number: int) -> bool:
        return number in self._arrived or self._open[number].is_dead

    def _unfinished(self, numbers: Sequence[int]) -> list[Errand]:
        """Returns what those workers are at that are waited for."""
        awaited = {self._open[n] for n in numbers if not self._is_settled(n)}
        first: dict[WorkerHandle, Errand] = {}
        for worker, errand in self._ahead.values():
            if worker in awaited:
                first.setdefault(worker, errand)
        return list(first.values())

    def _some(self, numbers: Sequence[int], until: float | None) -> dict[int, Any]:
        """Returns the answers that are there, waiting for one or until `until`."""
        while True:
            answers = {n: self._take(n) for n in numbers if self._is_settled(n)}
            if answers or (until is not None and until <= time.monotonic()):
                return answers
            self._deadlines.wait(lambda: self._unfinished(numbers), until)

    def _take(self, number: int) -> Any:
        worker = self._open.pop(number)
        if number not in self._arrived:
            return self.gone(worker.index)
        answer = self._arrived.pop(number)
        return unpickled(answer) if isinstance(answer, bytes) else answer


def has_failed(answer: Any) -> bool:
    """Returns whether an answer, or the report of a round in it, tells of a failure."""
    if isinstance(answer, tuple):
        told: list[Any] = [*answer]
        return bool(told) and has_failed(told[0])
    if isinstance(answer, Report):
        return bool(answer.failures)
    return isinstance(answer, (RemoteError, WorkerGone))


def unpickled(payload: bytes) -> Any:
    """Returns the value; a `RemoteError` where it cannot be read here.

    A value may be of the user's own making, and so is what runs when it is read.
    """
    try:
        return pickle.loads(payload)
    except Exception as error:
        return RemoteError.of(error)
