"""Rounds that all workers are woken for at once."""

from __future__ import annotations

import time

from parallel_envs.process import doorbell
from parallel_envs.process.control_block import ControlBlock
from parallel_envs.process.deadlines import Deadlines, Errand
from parallel_envs.process.errands import GATHER_SECONDS, has_failed, unpickled
from parallel_envs.process.processes import Processes
from parallel_envs.process.remote_error import RemoteError
from parallel_envs.process.watch import Watch
from parallel_envs.process.worker import Report

News = dict[int, Report | RemoteError]


class BellRounds:
    """Rings for rounds, and waits until the workers have done them.

    Attributes:
        news: What workers told of the last round, by number of the worker.
        rung_at: When it was rung for, by `time.monotonic`.
    """

    def __init__(
        self,
        bell: doorbell.Doorbell,
        watch: Watch,
        processes: Processes,
        deadlines: Deadlines,
        control: ControlBlock,
        limit: float | None,
    ) -> None:
        """Hangs up a bell.

        Args:
            bell: What the workers have inherited.
            watch: What tells that it rings.
            processes: The workers.
            deadlines: What is waited with when something goes wrong.
            control: Where rounds are asked for.
            limit: Seconds that a worker may take for a part of its object.
        """
        self._watch, self._processes = watch, processes
        self._deadlines, self._control = deadlines, control
        self._limit = limit
        self._number = 0
        self.news: News = {}
        self.rung_at = 0.0
        self._bell = bell
        # A bell that is rung late is to wake one wait, and not all that follow.
        watch.add(bell.bell, lambda: doorbell.take(bell.bell))

    def run(self, command: int, num_workers: int, *, wait_for_all: bool) -> bool:
        """Has every living worker do one round; returns whether all is well.

        Args:
            command: What the round is about.
            num_workers: How many workers live.
            wait_for_all: If False, a worker that is busy 50 ms after the first failure
                is left alone.

        Returns:
            True where every worker did it; `news` says what they told, failures too.
            Where one is lost the bell does not ring, since it counts on all of them:
            then this waits for the others for 50 ms, or not at all if for all.
        """
        number = self._number = self._number + 1
        control, bell = self._control, self._bell
        self.news = {}
        self.rung_at = time.monotonic()
        control.command = command
        bell.expect(num_workers)
        control.asked[:] = number
        bell.ring(number)
        events = self._watch.poll(self._limit)
        if len(events) == 1 and events[0][0] == bell.bell:
            doorbell.take(bell.bell)
            done = control.done.tolist()
            if done.count(number) == len(done):
                return True
        else:
            self._watch.handle(events)
        return self._wait_out(wait_for_all)

    def hear(self, worker: int, number: int, payload: bytes) -> None:
        """Takes in news of a round; what comes late is dropped."""
        if number == self._number:
            self.news[worker] = unpickled(payload)

    def is_busy(self, worker: int) -> bool:
        """Returns whether a worker is still at the last round."""
        return abs(int(self._control.done[worker])) != self._number

    def silence(self) -> None:
        """Takes back every token; no worker may be in a round meanwhile."""
        self._bell.silence()
        # One that was interrupted before anybody was asked has not been: workers wait
        # for the bell of the round after the last that they were asked for.
        self._number = self._control.asked_of(0)

    def _wait_out(self, wait_for_all: bool) -> bool:
        until: float | None = None
        while self._unfinished():
            if wait_for_all and self._has_lost_one():
                return False
            if until is None and not wait_for_all and self._has_failed():
                until = time.monotonic() + GATHER_SECONDS
            if until is not None and until <= time.monotonic():
                return False
            self._deadlines.wait(self._unfinished, until)
        return not self._has_lost_one()

    def _unfinished(self) -> list[Errand]:
        """Returns what is open: a worker must be done, and have told its news."""
        done = self._control.done.tolist()
        return [
            Errand(worker.index, self.rung_at, self._limit)
            for worker in self._processes.workers
            if not worker.is_dead
            and done[worker.index] != self._number
            and (self.is_busy(worker.index) or worker.index not in self.news)
        ]

    def _has_failed(self) -> bool:
        return self._has_lost_one() or any(map(has_failed, self.news.values()))

    def _has_lost_one(self) -> bool:
        return any(worker.is_dead for worker in self._processes.workers)
