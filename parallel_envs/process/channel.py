"""Messages between two processes over a socket pair, whole or not at all.

A message is any picklable value. Sending never blocks on a peer that has itself
stopped reading because it is sending: what arrives meanwhile is taken in, so two
sides with full buffers cannot wait for each other.
"""

from __future__ import annotations

import collections
import pickle
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

from parallel_envs import errors
from parallel_envs.process import pickling

_LENGTH = struct.Struct("<Q")
_CHUNK = 1 << 16  # bytes; the first read of a message


class Channel:
    """One end of a socket pair that carries pickled messages.

    Attributes:
        death: A descriptor; once it is readable the other side is dead, and sending
            waits no longer, though others may hold its end of the socket.
        heard_at: When something last arrived, be it part of a message, by
            `time.monotonic`.
    """

    death: int | None = None
    heard_at = 0.0

    def __init__(self, connection: socket.socket, stop: int | None = None) -> None:
        """Takes over a socket.

        Args:
            connection: One end of a socket pair.
            stop: A descriptor; once it is readable, sending waits no longer.
        """
        connection.setblocking(False)
        self._connection = connection
        self._stop = stop
        self._inbox: collections.deque[memoryview] = collections.deque()
        self._parts: list[
            bytes
        ] = []  # What has arrived of messages that are not whole.
        # Messages to send, each with the sizes of what has gone out of it.
        self._outbox: collections.deque[tuple[memoryview, list[int]]] = (
            collections.deque()
        )
        self._has_ended = False

    @classmethod
    def pair(cls, stop: int | None = None) -> tuple[Channel, socket.socket]:
        """Returns this process's end, and the socket to hand to the other one."""
        mine, other = socket.socketpair()
        return cls(mine, stop), other

    def fileno(self) -> int:
        """Returns the descriptor, which is readable when a message arrives."""
        return self._connection.fileno()

    @property
    def has_ended(self) -> bool:
        """Whether the other side is gone and everything it sent has been read."""
        return self._has_ended and not self._inbox

    @property
    def has_messages(self) -> bool:
        """Whether messages are here already, for which the descriptor does not tell.

        Sending takes them in while it waits.
        """
        return bool(self._inbox)

    def send(self, message: Any, deadline: float | None = None) -> None:
        """Sends a message, waiting while the other side is too busy to take it.

        Args:
            message: Any picklable value; functions and classes travel by value.
            deadline: On the clock of `time.monotonic`; None waits for ever.

        Raises:
            TypeError: If `message` cannot be pickled; nothing is sent.
            BrokenPipeError, ConnectionResetError: If the other side is gone.
            ClosedError: If it was told to stop meanwhile.
            TimeoutError: If `deadline` passed. What is left of the message goes out
                with `flush`, or before the next one, as it does after Ctrl-C.
        """
        self.send_bytes(pickling.dumps(message), deadline)

    def send_bytes(self, payload: bytes, deadline: float | None = None) -> None:
        """Sends a message that `pickling.dumps` has made already."""
        message = memoryview(_LENGTH.pack(len(payload)) + payload)
        self._outbox.append((message, []))
        self.flush(deadline)

    def flush(self, deadline: float | None = None) -> None:
        """Sends what is left of earlier messages; waits and fails as `send`."""
        while self._outbox:
            message, sent = self._outbox[0]
            rest = message[sum(sent) :]
            if not rest:
                self._outbox.popleft()
                continue
            try:
                # In one call, so that Ctrl-C cannot come between sending and noting.
                sent.extend(map(self._connection.send, (rest,)))
            except BlockingIOError:
                self._wait_until_writable(deadline)

    def receive(self, deadline: float | None = None) -> Any:
        """Returns the next message, waiting for it.

        Raises:
            EOFError: If the other side is gone and all it sent was received.
            TimeoutError: If `deadline` passed.
        """
        while not self._inbox:
            if self._has_ended:
                raise EOFError("the other side of the channel is gone")
            _wait(self._connection, select.POLLIN, deadline)
            self._take_in()
        return pickle.loads(self._inbox.popleft())

    def wait(self) -> None:
        """Waits until there is something to receive, or the other side is gone."""
        if not self.has_messages:
            _wait(self._connection, select.POLLIN, None)

    def receive_all(self) -> list[Any]:
        """Returns every message that has arrived in full, without waiting."""
        self._take_in()
        return [pickle.loads(self._inbox.popleft()) for _ in range(len(self._inbox))]

    def close(self) -> None:
        """Frees the descriptor; the other side then reads the end."""
        self._connection.close()

    def _wait_until_writable(self, deadline: float | None) -> None:
        wanted = select.POLLIN | select.POLLOUT
        ends = [end for end in (self._stop, self.death) if end is not None]
        events = _wait(self._connection, wanted, deadline, ends)
        if self.death in events:
            raise BrokenPipeError("the other side of the channel is dead")
        if self._stop in events:
            raise errors.ClosedError("the environment is closed.")
        if events[self.fileno()] & select.POLLIN and not self._has_ended:
            self._take_in()

    def _take_in(self) -> None:
        while not self._has_ended:
            size = max(_CHUNK, self._num_missing())
            try:
                # In one call, so that Ctrl-C cannot come between taking and keeping.
                self._parts.extend(map(self._connection.recv, (size,)))
            except BlockingIOError:
                return
            except ConnectionResetError:  # It died with our messages unread.
                self._parts.append(b"")
            size = len(self._parts[-1])
            self._has_ended = size == 0
            self.heard_at = time.monotonic()
            self._split()
            if size < _CHUNK:
                return  # A short read empties the socket: spare one that fails.

    def _num_missing(self) -> int:
        """Returns the bytes that the message at the front still lacks."""
        num_arrived = sum(map(len, self._parts))
        if num_arrived < _LENGTH.size:
            return _LENGTH.size - num_arrived
        start = self._parts[0]
        if len(start) < _LENGTH.size:
            start = b"".join(self._parts[: _LENGTH.size])
        (size,) = _LENGTH.unpack_from(start)
        return _LENGTH.size + size - num_arrived

    def _split(self) -> None:
        """Moves whole messages to the inbox."""
        if self._num_missing() > 0:
            return
        rest = memoryview(b"".join(self._parts))
        messages: list[memoryview] = []
        while len(rest) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(rest)
            end = _LENGTH.size + size
            if len(rest) < end:
                break
            messages.append(rest[_LENGTH.size : end])
            rest = rest[end:]
        self._inbox.extend(messages)
        self._parts[:] = [bytes(rest)] if rest else []


def receive_first(connection: socket.socket) -> Any:
    """Returns the first message, and leaves all that follows it in the socket."""
    connection.setblocking(True)
    (size,) = _LENGTH.unpack(_read_exactly(connection, _LENGTH.size))
    return pickle.loads(_read_exactly(connection, size))


def _read_exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError("the other side of the channel is gone")
        data += part
    return data


def _wait(
    connection: socket.socket,
    wanted: int,
    deadline: float | None,
    others: Sequence[int] = (),
) -> dict[int, int]:
    """Returns what has happened by descriptor, waiting for something to happen."""
    poller = select.poll()
    poller.register(connection, wanted)
    for other in others:
        poller.register(other, select.POLLIN)
    left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
    events = dict(poller.poll(left))
    if not events:
        raise TimeoutError("the other side of the channel did not answer in time")
    return events
