from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from parallel_envs.process import attention, shared_arrays
from parallel_envs.process.control_block import ControlBlock
from parallel_envs.process.doorbell import Doorbell, take
from tests.process import servants


class Side:
    """Both sides of one worker's wait."""

    def __init__(
        self, stack: contextlib.ExitStack, *, may_spin: bool, is_compiled: bool
    ) -> None:
        memory = stack.enter_context(
            contextlib.closing(shared_arrays.MemoryFile.create())
        )
        memory.reserve(ControlBlock.size(1))
        self.control = ControlBlock(memory, 1)
        self.control.may_spin = may_spin
        self.bells = stack.enter_context(contextlib.closing(Doorbell.create()))
        mine, self.parent = map(stack.enter_context, socket.socketpair())
        make = attention.attention if is_compiled else attention.PlainAttention
        self.attention = make(self.bells, mine.fileno(), self.control, 0)
        self.commands: list[int] = []
        self.wish: object = None

    def serve(self, done: int) -> tuple[int, object]:
        return self.attention.serve(self._round, done)

    def _round(self, command: int) -> object:
        self.commands.append(command)
        return self.wish

    def ask(self, number: int) -> None:
        self.control.asked[:] = number
        self.bells.ring(number)


WAYS = [(may_spin, is_compiled) for may_spin in (1, 0) for is_compiled in (1, 0)]
NAMES = ["spins-compiled", "spins", "sleeps-compiled", "sleeps"]


@pytest.fixture(params=WAYS, ids=NAMES)
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    may_spin, is_compiled = request.param
    with contextlib.ExitStack() as stack:
        yield Side(stack, may_spin=bool(may_spin), is_compiled=bool(is_compiled))


@contextlib.contextmanager
def serving(side: Side, done: int = 0) -> Generator[int]:
    """Serves in a process of its own until a message comes; gives its pidfd."""
    pid = os.fork()
    if pid == 0:
        before = time.process_time()
        try:
            side.serve(done)
        finally:
            spent = time.process_time() - before
            os._exit(0 if spent < 100 * attention.SPIN_NANOSECONDS / 1e9 else 1)
    gone = os.pidfd_open(pid)
    try:
        yield gone
    finally:
        side.parent.send(b"!")
        os.close(gone)
        assert os.waitpid(pid, 0)[1] == 0


def test_a_round_is_done_with_its_command_and_counted(side: Side) -> None:
    side.control.command = 7
    side.bells.expect(1)
    with serving(side):
        for number in range(1, 6):
            side.ask(number)

            assert servants.is_readable(side.bells.bell, 10)
            assert take(side.bells.bell)
            assert side.control.done.tolist() == [number]


def test_the_last_of_several_rings(side: Side) -> None:
    with serving(side):
        for number in range(1, 4):
            side.bells.expect(2)
            side.ask(number)
            while side.control.done[0] != number:
                os.sched_yield()

            assert not servants.is_readable(side.bells.bell, 0.05)
            side.bells.answer()
            assert take(side.bells.bell)


def test_when_a_round_began_is_noted(side: Side) -> None:
    before = time.monotonic()
    side.ask(1)
    side.wish = "news"

    side.serve(0)

    assert before < side.control.began_at(0) < time.monotonic()


def test_what_a_round_tells_is_left_to_be_told(side: Side) -> None:
    side.control.command = 5
    side.wish = {"a": "report"}
    side.ask(1)

    assert side.serve(0) == (1, {"a": "report"})
    assert side.commands == [5]
    assert side.control.done.tolist() == [0]
    assert not servants.is_readable(side.bells.bell)


def test_a_message_ends_it(side: Side) -> None:
    side.parent.send(b"!")

    assert side.serve(0) == (0, None)


def test_a_message_that_was_sent_before_a_round_is_seen_before_it(side: Side) -> None:
    side.parent.send(b"!")
    side.ask(1)

    assert side.serve(0) == (0, None)
    assert side.commands == []


def test_a_round_that_is_asked_for_and_not_rung_for_yet_is_left(side: Side) -> None:
    side.control.asked[:] = 1
    side.parent.send(b"!")

    assert side.serve(0) == (0, None)


def test_what_is_left_of_the_last_round_wakes_nobody(side: Side) -> None:
    side.ask(1)

    with serving(side, done=1) as gone:
        assert not servants.is_readable(gone, 0.3)
        assert side.control.done.tolist() == [0]


def test_one_that_waits_long_sleeps(side: Side) -> None:
    with serving(side) as gone:
        assert not servants.is_readable(gone, 0.5)


def test_a_signal_that_is_ignored_does_not_end_it(side: Side) -> None:
    with serving(side) as gone:
        signal.pidfd_send_signal(gone, signal.SIGCHLD)

        assert not servants.is_readable(gone, 0.2)


def test_signals_are_handled_while_it_waits(side: Side) -> None:
    def end(_number: int, _frame: object) -> None:
        raise InterruptedError("a handler has raised")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(InterruptedError, match="a handler has raised"):
            side.serve(0)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_an_error_of_a_round_goes_to_the_caller(side: Side) -> None:
    def fail(_command: int) -> None:
        raise ValueError("no round")

    side.ask(1)

    with pytest.raises(ValueError, match="no round"):
        side.attention.serve(fail, 0)


def test_places_outside_of_the_words_are_refused(side: Side) -> None:
    loop: Any = pytest.importorskip("parallel_envs.process._bell_loop")
    places = side.control.places_of(0) | {"asked": 1 << 20}

    with pytest.raises(IndexError, match="there is no such word"):
        loop.BellLoop(**places, go=(0, 0), channel=0, countdown=0, bell=0, spin=0)
