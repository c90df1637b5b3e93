"""The parent's end of one worker."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import signal
from typing import Any

from parallel_envs.process import channel

_births = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class WorkerGone:
    """What is known of a worker that is dead, so will not answer.

    Attributes:
        worker: Its number.
        pid: Its process id.
        exitcode: Exit status, or minus the signal that ended it; None where nobody
            knows.
        birth: A number that no other worker of this program has, as process ids may
            come again.
        part: Which part of its object it was last at.
        limit: Seconds that it was allowed and has exceeded, for which it was killed;
            None where it died otherwise.
        doing: What it was at, if that was asked for by name.
        trace: Where its Python stood then, as text; empty where it could not tell.
    """

    worker: int
    pid: int
    exitcode: int | None
    birth: int = dataclasses.field(default=0, compare=False)
    part: int = 0
    limit: float | None = None
    doing: str = dataclasses.field(default="", compare=False)
    trace: str = ""


class WorkerHandle:
    """A worker as its parent knows it.

    Attributes:
        index: Number of the worker.
        birth: A number that no other worker of this program has.
        channel: The parent's end of its channel.
        pid: Its process id, or None before it is born.
        pidfd: Readable once it is dead; None before it is born, and where the system
            has no such thing.
        exitcode: Exit status, or minus the signal that ended it; None while it lives
            and where the nursery could not tell.
        exceeded: Seconds that it was allowed, if it was killed for taking longer.
        late_with: With what, if that has a name.
    """

    def __init__(self, index: int, own_end: channel.Channel) -> None:
        self.index = index
        self.birth = next(_births)
        self.channel = own_end
        self.pid: int | None = None
        self.pidfd: int | None = None
        self.exitcode: int | None = None
        self.exceeded: float | None = None
        self.late_with = ""
        self.is_dead = False

    def send(self, message: Any, deadline: float | None = None) -> None:
        """Sends a message; to a dead worker it is dropped, its death is told anyway."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.channel.send(message, deadline)

    def flush(self, deadline: float | None = None) -> None:
        """Sends what an earlier `send` had to leave when its time was up."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.channel.flush(deadline)

    def kill(self) -> None:
        """Ends the worker and whatever its environment started, at once."""
        if self.pid is None or self.is_dead:
            return
        if self.pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        # A nursery does this as well, unless it was itself killed or stopped.
        self.kill_group()

    def kill_group(self) -> None:
        """Ends whatever the worker's environment started; not to be used when reaped.

        Only as long as nobody has told its exit status its number is surely its own.
        """
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def free(self) -> None:
        """Closes the descriptors."""
        self.channel.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None
