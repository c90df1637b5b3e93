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
from typing import Any

from parallel_envs.process import pickling

_LENGTH = struct.Struct("<Q")
_CHUNK = 1 << 16  # bytes; the first read of a message


class Channel:
    """One end of a socket pair that carries pickled messages."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._inbox: collections.deque[bytearray] = collections.deque()
        self._outbox: collections.deque[memoryview] = collections.deque()
        self._pending = bytearray()
        self._has_ended = False

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """Returns this process's end, and the socket to hand to the other one."""
        mine, other = socket.socketpair()
        return cls(mine), other

    def fileno(self) -> int:
        """Returns the descriptor, which is readable when a message arrives."""
        return self._connection.fileno()

    @property
    def has_ended(self) -> bool:
        """Whether the other side is gone and everything it sent has been read."""
        return self._has_ended and not self._inbox

    def send(self, message: Any, deadline: float | None = None) -> None:
        """Sends a message, waiting while the other side is too busy to take it.

        Args:
            message: Any picklable value; functions and classes travel by value.
            deadline: On the clock of `time.monotonic`; None waits for ever.

        Raises:
            TypeError: If `message` cannot be pickled; nothing is sent.
            BrokenPipeError, ConnectionResetError: If the other side is gone.
            TimeoutError: If `deadline` passed. What is left of the message goes out
                before the next one, as it does after Ctrl-C.
        """
        self.send_bytes(pickling.dumps(message), deadline)

    def send_bytes(self, payload: bytes, deadline: float | None = None) -> None:
        """Sends a message that `pickling.dumps` has made already."""
        self._outbox.append(memoryview(_LENGTH.pack(len(payload)) + payload))
        while self._outbox:
            part = self._outbox[0]
            try:
                rest = part[self._connection.send(part) :]
            except BlockingIOError:
                self._wait_until_writable(deadline)
            else:
                self._outbox[0] = rest
                if not rest:
                    self._outbox.popleft()

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

    def receive_all(self) -> list[Any]:
        """Returns every message that has arrived in full, without waiting."""
        self._take_in()
        return [pickle.loads(self._inbox.popleft()) for _ in range(len(self._inbox))]

    def close(self) -> None:
        """Frees the descriptor; the other side then reads the end."""
        self._connection.close()

    def _wait_until_writable(self, deadline: float | None) -> None:
        events = _wait(self._connection, select.POLLIN | select.POLLOUT, deadline)
        if events & select.POLLIN and not self._has_ended:
            self._take_in()

    def _take_in(self) -> None:
        while not self._has_ended:
            try:
                data = self._connection.recv(max(_CHUNK, self._missing()))
            except BlockingIOError:
                return
            except ConnectionResetError:  # It died with our messages unread.
                data = b""
            if not data:
                self._has_ended = True
            self._pending += data
            self._split()
            if len(data) < _CHUNK:
                return  # A short read empties the socket: spare one that fails.

    def _missing(self) -> int:
        """Returns the bytes that the message at the front still lacks."""
        if len(self._pending) < _LENGTH.size:
            return 0
        (size,) = _LENGTH.unpack_from(self._pending)
        return _LENGTH.size + size - len(self._pending)

    def _split(self) -> None:
        while len(self._pending) >= _LENGTH.size and self._missing() <= 0:
            end = len(self._pending) + self._missing()
            self._inbox.append(self._pending[_LENGTH.size : end])
            del self._pending[:end]


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


def _wait(connection: socket.socket, events: int, deadline: float | None) -> int:
    poller = select.poll()
    poller.register(connection, events)
    left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
    ready = poller.poll(left)
    if not ready:
        raise TimeoutError("the other side of the channel did not answer in time")
    return ready[0][1]
