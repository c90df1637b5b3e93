"""Signals that end a run, held back while something must not be cut in two."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Generator
from types import FrameType
from typing import Any

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_IMPATIENT = 3  # The signal that is obeyed wherever the program stands.


class Interrupted(KeyboardInterrupt):
    """A signal asked to end."""


class Interruptions:
    """Notes signals that ask to end, and raises `Interrupted` where that does no harm.

    Such signals are Ctrl-C, SIGTERM and the end of the terminal. In a block of `obeyed`
    the first one counts, elsewhere only the third one. A context manager, for the main
    thread; a program that was asked to end ignores them after that, or after the third.

    Attributes:
        notice: What to answer on stderr to a signal that is not obeyed at once.
    """

    def __init__(self) -> None:
        self.notice = ""
        self._signal: int | None = None
        self._count = 0
        self._is_obeying = False
        self._old_handlers: dict[int, Any] = {}

    @property
    def exit_code(self) -> int:
        """128 plus the number of the first signal; 0 if there was none."""
        return 0 if self._signal is None else 128 + self._signal

    @contextlib.contextmanager
    def obeyed(self) -> Generator[None, None, None]:
        """Raises `Interrupted` within the block, at its beginning for earlier signals.

        Whoever catches it around the block may be sure that no second one follows.
        """
        try:
            self._is_obeying = True
            self._raise_if_asked()
            yield
        finally:
            self._is_obeying = False

    @contextlib.contextmanager
    def held_back(self) -> Generator[None, None, None]:
        """Within `obeyed`: raises `Interrupted` at the end of this block, not in it.

        If somebody has swallowed an earlier one, it is raised there again.
        """
        self._is_obeying = False
        yield
        self._is_obeying = True
        self._raise_if_asked()

    def __enter__(self) -> Interruptions:
        for name in _SIGNALS:
            number = getattr(signal, name, None)
            if number is None:
                continue
            # Under nohup a run outlives its terminal.
            if name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN:
                continue
            self._old_handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *unused_error: object) -> None:
        if self._count:
            self._ignore()
            return
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._signal is None:
            self._signal = number
        if self._count >= _IMPATIENT:
            self._ignore()
        if self._is_obeying or self._count == _IMPATIENT:
            self._is_obeying = False
            raise Interrupted
        if self.notice:
            # Not `print`, which may be what the signal came in the middle of.
            os.write(2, f"{self.notice}\n".encode())

    def _ignore(self) -> None:
        """Stops listening, so that nothing cuts short what is left to be closed."""
        for number in self._old_handlers:
            signal.signal(number, signal.SIG_IGN)

    def _raise_if_asked(self) -> None:
        if self._count:
            self._is_obeying = False
            raise Interrupted
