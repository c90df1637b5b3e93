from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import select
import signal
import socket
import threading
import time
from collections.abc import Generator, Iterator
from typing import Any

import hypothesis
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st

from parallel_envs.process import channel, pickling
from parallel_envs.process.channel import Channel

MEGABYTES_50 = 50_000_000

Pair = tuple[Channel, Channel]


@contextlib.contextmanager
def connected() -> Generator[Pair]:
    mine, other = Channel.pair()
    theirs = Channel(other)
    try:
        yield mine, theirs
    finally:
        mine.close()
        theirs.close()


def parts_of(message: Any) -> bytes:
    payload = pickling.dumps(message)
    return len(payload).to_bytes(8, "little") + payload


def soon(seconds: float = 0.0) -> float:
    return time.monotonic() + seconds


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@hypothesis.given(st.lists(plain, max_size=5))
def test_messages_arrive_whole_and_in_order(messages: list[Any]) -> None:
    with connected() as (mine, theirs):
        for message in messages:
            mine.send(message)

        assert theirs.receive_all() == messages
        assert theirs.receive_all() == []


@hypothesis.given(st.lists(plain, min_size=1, max_size=4), st.data())
def test_messages_survive_being_cut_anywhere(
    messages: list[Any], data: st.DataObject
) -> None:
    stream = b"".join(map(parts_of, messages))
    inner = data.draw(st.lists(st.integers(0, len(stream)), max_size=5))
    cuts = [0, *sorted(inner), len(stream)]
    mine, other = Channel.pair()
    arrived: list[Any] = []

    with contextlib.closing(mine), other:
        for start, end in itertools.pairwise(cuts):
            other.sendall(stream[start:end])
            arrived += mine.receive_all()

    assert arrived == messages


def test_two_sides_that_send_much_at_once_do_not_wait_for_each_other() -> None:
    payload = np.ones(MEGABYTES_50, np.uint8)
    received: list[npt.NDArray[np.uint8]] = []

    def swap(end: Channel) -> None:
        end.send(payload, soon(30))
        received.append(end.receive(soon(30)))

    with connected() as (mine, theirs):
        other = threading.Thread(target=swap, args=(theirs,))
        other.start()
        swap(mine)
        other.join()

    assert [array.nbytes for array in received] == [MEGABYTES_50, MEGABYTES_50]


def test_the_end_is_told_after_everything_that_was_said() -> None:
    with connected() as (mine, theirs):
        theirs.send("last words")
        theirs.close()

        assert mine.receive() == "last words"
        assert not mine.has_ended
        with pytest.raises(EOFError, match="the other side of the channel is gone"):
            mine.receive()
        assert mine.has_ended


def test_the_end_counts_only_once_what_was_said_is_read() -> None:
    with connected() as (mine, theirs):
        theirs.send("first")
        theirs.send("second")
        theirs.close()

        assert mine.receive() == "first"
        assert not mine.has_ended
        assert mine.receive_all() == ["second"]
        assert mine.has_ended


def test_a_peer_that_dies_with_messages_unread_has_ended_as_well() -> None:
    with connected() as (mine, theirs):
        mine.send("never read")
        theirs.close()

        with pytest.raises(EOFError):
            mine.receive(soon(10))


def test_sending_to_nobody_is_an_error() -> None:
    with connected() as (mine, theirs):
        theirs.close()

        with pytest.raises(BrokenPipeError):
            mine.send("anyone?")


def test_waiting_ends_at_the_deadline() -> None:
    with connected() as (mine, _):
        with pytest.raises(TimeoutError, match="did not answer in time"):
            mine.receive(soon(0.01))
        with pytest.raises(TimeoutError, match="did not answer in time"):
            mine.send(bytes(MEGABYTES_50), soon(0.01))


def test_what_cannot_be_pickled_sends_nothing() -> None:
    with connected() as (mine, theirs):
        with pytest.raises(TypeError, match="cannot be pickled"):
            mine.send(threading.Lock())
        mine.send("next")

        assert theirs.receive() == "next"


class Interruption(Exception):
    pass


@pytest.fixture
def interruptible() -> Iterator[None]:
    def interrupt(number: int, frame: object) -> None:
        raise Interruption

    previous = signal.signal(signal.SIGUSR1, interrupt)
    yield
    signal.signal(signal.SIGUSR1, previous)


@pytest.mark.usefixtures("interruptible")
def test_a_message_that_was_interrupted_does_not_spoil_the_next() -> None:
    me = threading.get_ident()
    arrived: list[Any] = []

    with connected() as (mine, theirs):

        def interrupt_half_way() -> None:
            select.select([theirs], [], [])
            signal.pthread_kill(me, signal.SIGUSR1)

        other = threading.Thread(target=interrupt_half_way)
        other.start()
        with pytest.raises(Interruption):
            mine.send(bytes(MEGABYTES_50))
        other.join()
        reader = threading.Thread(
            target=lambda: arrived.extend(theirs.receive(soon(30)) for _ in range(2))
        )
        reader.start()
        mine.send("next", soon(30))
        reader.join()

    assert [len(arrived[0]), arrived[1]] == [MEGABYTES_50, "next"]


class Unreadable:
    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("no number",)


def test_a_message_that_cannot_be_read_does_not_spoil_the_next() -> None:
    with connected() as (mine, theirs):
        mine.send(Unreadable())
        mine.send("next")

        with pytest.raises(ValueError, match="no number"):
            theirs.receive()
        assert theirs.receive(soon(10)) == "next"


def test_the_first_message_can_be_read_alone() -> None:
    mine, other = socket.socketpair()
    with mine, other:
        mine.sendall(parts_of("first") + parts_of("second"))

        assert channel.receive_first(other) == "first"
        assert Channel(other).receive() == "second"


def test_a_first_message_that_breaks_off_is_the_end() -> None:
    mine, other = socket.socketpair()
    with other:
        with mine:
            mine.sendall(parts_of("first")[:-1])

        with pytest.raises(EOFError):
            channel.receive_first(other)


def test_closing_frees_the_descriptor() -> None:
    mine, other = Channel.pair()
    with other:
        descriptor = mine.fileno()

        mine.close()

        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_bytes_pickled_before_are_sent_as_they_are() -> None:
    with connected() as (mine, theirs):
        mine.send_bytes(pickle.dumps([1, 2]))

        assert theirs.receive() == [1, 2]
