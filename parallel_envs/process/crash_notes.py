"""Where a worker's Python stood when native code crashed, or when it was too late.

`faulthandler` writes it, from within the worker and without the help of its Python,
into a place of the worker's own in a memory file: so it can be read after its death.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import time
from collections.abc import Mapping

_SIZE = 1 << 16  # bytes of one worker's place; `faulthandler` writes 100 frames at most
_SIGNAL = getattr(signal, "SIGRTMIN", signal.SIGUSR2)  # Nobody else uses the first.
_DUMP_SECONDS = 0.2  # How long a worker that is to be killed may take to tell.
_POLL_SECONDS = 0.02  # One that has added nothing for so long has told all.


class CrashNotes:
    """The parent's view of the file.

    Attributes:
        descriptor: Of a file that all workers inherit.
    """

    def __init__(self, descriptor: int) -> None:
        """Takes over a descriptor of an empty file."""
        self.descriptor = descriptor

    def of(self, worker: int) -> str:
        """Returns what a worker has written; empty where it has not."""
        data = os.pread(self.descriptor, _SIZE, worker * _SIZE)
        return data.partition(b"\0")[0].decode("utf-8", "replace").rstrip()

    def wipe(self, worker: int) -> None:
        """Makes room for the next worker in the same place."""
        written = len(self.of(worker).encode())
        if written:
            os.pwrite(self.descriptor, bytes(_SIZE), worker * _SIZE)

    def ask(self, pidfds: Mapping[int, int]) -> None:
        """Has workers write where they stand, and waits for that, but not for long.

        Args:
            pidfds: For each worker, by number, what a signal is sent to.
        """
        for pidfd in pidfds.values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, _SIGNAL)
        deadline = time.monotonic() + _DUMP_SECONDS
        silent = dict.fromkeys(pidfds, "")
        while silent and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)  # Nothing else tells that a dump is complete.
            now = {worker: self.of(worker) for worker in silent}
            silent = {
                w: text for w, text in now.items() if text != silent[w] or not text
            }

    def close(self) -> None:
        """Frees the descriptor."""
        os.close(self.descriptor)


def enable(descriptor: int, worker: int) -> None:
    """Has the calling process, a worker, write into its place when it crashes.

    Where a descriptor cannot be opened anew, with a position of its own, it is written
    to the standard error, as `faulthandler` does.
    """
    try:
        own = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        with contextlib.suppress(Exception):  # It may be closed, or None.
            faulthandler.enable()
        return
    os.lseek(own, worker * _SIZE, os.SEEK_SET)
    faulthandler.enable(own, all_threads=False)
    # The kernel hands a signal to the main thread, in which the object is served.
    faulthandler.register(_SIGNAL, own, all_threads=False)
    # What an environment forks would write its own crash into the worker's place.
    os.register_at_fork(after_in_child=faulthandler.disable)
