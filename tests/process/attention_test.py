from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator

import pytest

from parallel_envs.process import attention, shared_arrays
from parallel_envs.process.attention import Attention
from parallel_envs.process.control_block import ControlBlock
from parallel_envs.process.doorbell import Doorbell
from tests.process import servants


class Side:
    """Both sides of one worker's wait."""

    def __init__(self, stack: contextlib.ExitStack, *, may_spin: bool) -> None:
        memory = stack.enter_context(
            contextlib.closing(shared_arrays.MemoryFile.create())
        )
        memory.reserve(ControlBlock.size(1))
        self.control = ControlBlock(memory, 1)
        self.control.may_spin = may_spin
        self.bells = stack.enter_context(contextlib.closing(Doorbell.create()))
        mine, self.parent = map(stack.enter_context, socket.socketpair())
        self.attention = Attention(self.bells, mine.fileno(), self.control, 0)

    def ask(self, number: int) -> None:
        self.control.asked[:] = number
        self.bells.ring(number)


@pytest.fixture(params=[True, False], ids=["spins", "sleeps"])
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    with contextlib.ExitStack() as stack:
        yield Side(stack, may_spin=request.param)


def test_a_round_is_no_message(side: Side) -> None:
    for number in range(1, 5):
        side.ask(number)

        assert not side.attention.wait(number - 1)


def test_a_message_wakes_too(side: Side) -> None:
    side.parent.send(b"!")

    assert side.attention.wait(0)


def test_a_message_that_was_sent_before_a_round_is_seen_with_it(side: Side) -> None:
    side.parent.send(b"!")
    side.ask(1)

    assert side.attention.wait(0)


def test_a_round_that_is_asked_for_but_not_rung_for_yet_is_one(side: Side) -> None:
    side.control.asked[:] = 1
    side.parent.send(b"!")

    assert side.attention.wait(0)


def test_what_is_left_of_the_last_round_wakes_nobody(side: Side) -> None:
    side.ask(1)
    side.attention.wait(0)
    reader = os.fork()
    if reader == 0:
        try:
            side.attention.wait(1)
        finally:
            os._exit(0)
    gone = os.pidfd_open(reader)

    try:
        assert not servants.is_readable(gone, 0.3)
        side.ask(2)
        assert servants.is_readable(gone, 10)
    finally:
        os.close(gone)
        os.waitpid(reader, 0)


def test_one_that_waits_long_sleeps(side: Side) -> None:
    reader = os.fork()
    if reader == 0:
        before = time.process_time()
        try:
            side.attention.wait(0)
        finally:
            spent = time.process_time() - before
            os._exit(0 if spent < 100 * attention.SPIN_NANOSECONDS / 1e9 else 1)
    gone = os.pidfd_open(reader)

    assert not servants.is_readable(gone, 0.5)
    side.ask(1)

    os.close(gone)
    assert os.waitpid(reader, 0)[1] == 0
