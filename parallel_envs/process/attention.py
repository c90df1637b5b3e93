"""How a worker waits for its next round, or for a message.

The wait exists twice: in Python, and compiled (bell_loop.c), which does the same. The
compiled one is used where it was built.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import Any, Protocol

from parallel_envs.process import facilities
from parallel_envs.process.control_block import ControlBlock
from parallel_envs.process.doorbell import Doorbell

SPIN_NANOSECONDS = 100_000
"""How long a worker looks by itself whether it is asked, before it sleeps."""

Round = Callable[[int], Any]


class Attention(Protocol):
    """Waits for the bell and for the channel of one worker.

    A core that sleeps takes 30 to 50 µs to wake, which is longer than a step of a cheap
    environment. So where every worker may have a core of its own, and the last round
    came soon after the one before it, a worker stays awake for a short time. It gives
    way to whoever else wants the core each time it has looked, its parent first of all.
    """

    def serve(self, round: Round, done: int) -> tuple[int, Any]:
        """Has rounds done as they are rung for, until there is something else to do.

        Args:
            round: Called with the command of each.
            done: Number of the last round that is done.

        Returns:
            Number of the last round that is done, and None, when a message has come:
            one that was sent before a round was asked for is seen before it. Or the
            number of a round, and what it returned if that is not None; it is then yet
            to be told and to be counted as done.
        """
        ...


def attention(
    bells: Doorbell, channel: int, control: ControlBlock, index: int
) -> Attention:
    """Returns a worker's wait, the compiled one where it was built.

    Args:
        bells: What rings for rounds.
        channel: A descriptor that is readable when a message has come.
        control: Where rounds are asked for.
        index: Number of the worker.
    """
    if _bell_loop is None:
        return PlainAttention(bells, channel, control, index)
    go = bells.go(0), bells.go(1)
    _, _, countdown, bell = bells.descriptors
    spin = SPIN_NANOSECONDS if control.may_spin else 0
    return _bell_loop.BellLoop(
        **control.places_of(index),
        go=go,
        channel=channel,
        countdown=countdown,
        bell=bell,
        spin=spin,
    )


class PlainAttention:
    """`Attention` in Python."""

    def __init__(
        self, bells: Doorbell, channel: int, control: ControlBlock, index: int
    ) -> None:
        """Prepares for both; see `attention`."""
        self._bells, self._control, self._index = bells, control, index
        self._begin = control.progress(index).begin
        self._pollers = [_poller(bells.go(parity), channel) for parity in (0, 1)]
        self._channel = channel
        self._may_spin = control.may_spin
        self._is_eager = True

    def serve(self, round: Round, done: int) -> tuple[int, Any]:
        """See `Attention`."""
        while not self._wait(done):
            asked = self._control.asked_of(self._index)
            if asked == done:
                continue
            self._begin()
            news = round(self._control.command)
            if news is not None:
                return asked, news
            done = asked
            self._control.set_done(self._index, done)
            self._bells.answer()
        return done, None

    def _wait(self, done: int) -> bool:
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
        return self._channel in dict(events)

    def _spin(self, done: int, until: int) -> bool:
        asked, index = self._control.asked_of, self._index
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


_bell_loop = facilities.compiled("parallel_envs.process._bell_loop")
