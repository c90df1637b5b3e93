"""How a worker waits for its next round, or for a message."""

from __future__ import annotations

import os
import select
import time

from parallel_envs.process.control_block import ControlBlock
from parallel_envs.process.doorbell import Doorbell

SPIN_NANOSECONDS = 100_000
"""How long a worker looks by itself whether it is asked, before it sleeps."""


class Attention:
    """Waits for the bell and for the channel of one worker.

    A core that sleeps takes 30 to 50 µs to wake, which is longer than a step of a cheap
    environment. So where every worker may have a core of its own, and the last round
    came soon after the one before it, a worker stays awake for a short time. It gives
    way to whoever else wants the core each time it has looked, its parent first of all.
    """

    def __init__(
        self, bells: Doorbell, channel: int, control: ControlBlock, index: int
    ) -> None:
        """Prepares for both.

        Args:
            bells: What rings for rounds.
            channel: A descriptor that is readable when a message has come.
            control: Where rounds are asked for.
            index: Number of the worker.
        """
        self._asked = control.asked_of
        self._index = index
        self._pollers = [_poller(bells.go(parity), channel) for parity in (0, 1)]
        self._channel = channel
        self._may_spin = control.may_spin
        self._is_eager = True

    def wait(self, done: int) -> bool:
        """Waits for the round after `done`, or for a message; returns whether for one.

        A message that was sent before the round was asked for is seen with it.
        """
        poller = self._pollers[(done + 1) & 1]
        if not self._may_spin:
            return self._channel in dict(poller.poll())
        begun = time.monotonic_ns()
        is_asked = self._is_eager and self._spin(done, begun + SPIN_NANOSECONDS)
        events = poller.poll(0 if is_asked else None)
        self._is_eager = is_asked or time.monotonic_ns() < begun + SPIN_NANOSECONDS
        return len(events) != 1 or events[0][0] == self._channel

    def _spin(self, done: int, until: int) -> bool:
        asked, index = self._asked, self._index
        while asked(index) == done:
            if time.monotonic_ns() > until:
                return False
            os.sched_yield()
        return True


def _poller(go: int, channel: int) -> select.poll:
    poller = select.poll()
    for descriptor in (go, channel):
        poller.register(descriptor, select.POLLIN)
    return poller
