"""Waits for whichever of many things happens first."""

from __future__ import annotations

import os
import select
import selectors
import socket
from collections.abc import Callable

from parallel_envs import errors

_IDLE_SECONDS = 0.2  # How soon a portable watch learns what no descriptor tells.

Events = list[tuple[int, int]]


class Watch:
    """Descriptors that one thread waits for, each with what to do when it is readable.

    It belongs to the process that made it, and can be ended from another thread: then,
    and in a child that was forked from the owner, waiting raises ClosedError.

    Attributes:
        stop: A descriptor that is readable once the watch was ended.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._handlers: dict[int, Callable[[], object]] = {}
        self._is_open = True
        self.stop = self._set_up()
        self.add(self.stop, self.check_open)

    @property
    def is_owned(self) -> bool:
        """Whether this is the process that made it."""
        return os.getpid() == self._owner

    def add(self, descriptor: int, handler: Callable[[], object]) -> None:
        """Has `handler` called when `descriptor` is readable."""
        self._register(descriptor)
        self._handlers[descriptor] = handler

    def remove(self, descriptor: int) -> None:
        """Forgets a descriptor; does nothing if it is not watched."""
        if self._handlers.pop(descriptor, None) is not None:
            self._unregister(descriptor)

    def wait(self, seconds: float | None = None) -> bool:
        """Handles what has happened, waiting for it; False where time ran out.

        Raises:
            ClosedError: See the class.
        """
        self.check_open()
        events = self.poll(seconds)
        self.handle(events)
        return bool(events)

    def poll(self, seconds: float | None = None) -> Events:
        """Returns what has happened, waiting for it, and leaves it to the caller."""
        return self._epoll.poll(seconds)

    def handle(self, events: Events) -> None:
        """Calls the handlers of what `poll` returned."""
        for descriptor, _ in events:
            handler = self._handlers.get(descriptor)
            if handler is not None:  # One before it may have removed it.
                handler()

    def check_open(self) -> None:
        """Raises ClosedError if it was interrupted or belongs to another process."""
        errors.check_owner(self._owner)
        if not self._is_open:
            raise errors.ClosedError("the environment is closed.")

    def interrupt(self) -> None:
        """Ends whoever waits, and refuses all that comes after."""
        if self._is_open and self.is_owned:
            self._is_open = False
            self._wake()

    def close(self) -> None:
        """Frees the descriptors of its own."""
        self._is_open = False
        self._free()

    def _set_up(self) -> int:
        """Returns the descriptor that is readable once the watch was interrupted."""
        self._epoll = select.epoll()
        self._wish = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        return self._wish

    def _register(self, descriptor: int) -> None:
        self._epoll.register(descriptor, select.EPOLLIN)

    def _unregister(self, descriptor: int) -> None:
        self._epoll.unregister(descriptor)

    def _wake(self) -> None:
        os.eventfd_write(self._wish, 1)

    def _free(self) -> None:
        self._epoll.close()
        os.close(self._wish)


class PortableWatch(Watch):
    """A watch for systems without epoll and process descriptors.

    Attributes:
        idle: Called now and then while nothing happens.
    """

    idle: Callable[[], object] = staticmethod(lambda: None)

    def poll(self, seconds: float | None = None) -> Events:
        """Returns what has happened, waiting for it, but not for long."""
        is_short = seconds is not None and seconds < _IDLE_SECONDS
        ready = self._selector.select(seconds if is_short else _IDLE_SECONDS)
        if not ready and not is_short:
            self.idle()  # The caller then looks again at what it waits for.
        return [(key.fd, events) for key, events in ready]

    def _set_up(self) -> int:
        self._selector = selectors.DefaultSelector()
        self._wish_end, self._wisher = socket.socketpair()
        return self._wish_end.fileno()

    def _register(self, descriptor: int) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ)

    def _unregister(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)

    def _wake(self) -> None:
        self._wisher.send(b"!")

    def _free(self) -> None:
        self._selector.close()
        self._wish_end.close()
        self._wisher.close()


def is_readable(descriptor: int, seconds: float = 0.0) -> bool:
    """Returns whether one descriptor is readable, or gets so in time."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(max(0.0, seconds) * 1000))
