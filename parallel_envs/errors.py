"""What can go wrong after the arguments were found good.

Wrong arguments are `TypeError` and `ValueError`; the classes here are for what an
environment or its process does later. Every error carries its facts as attributes,
survives pickling, and builds its text only when it is read.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence


class ClosedError(RuntimeError):
    """The environment was closed, or belongs to another process."""


class WorkerError(RuntimeError):
    """One or more environments failed.

    Attributes:
        indices: The rows that failed in the call, in rising order.
        doing: What was asked of them, for example "step".
        details: For each of `indices`, how the sentence "environment 3" goes on.
        exitcode: Exit status of the process, or minus the signal that ended it; None
            where the process lives.
        remote_traceback: The traceback of the lowest failed row, as text from where
            the environment runs; empty where there is none.
    """

    def __init__(
        self,
        indices: Sequence[int],
        doing: str,
        details: Sequence[str],
        *,
        exitcode: int | None = None,
        remote_traceback: str = "",
    ) -> None:
        super().__init__(indices, doing, details)
        self.indices = tuple(indices)
        self.doing = doing
        self.details = tuple(details)
        self.exitcode = exitcode
        self.remote_traceback = remote_traceback

    @property
    def index(self) -> int:
        """The lowest row that failed."""
        return self.indices[0]

    def __str__(self) -> str:
        rows: dict[str, list[int]] = {}
        for index, detail in zip(self.indices, self.details, strict=True):
            rows.setdefault(detail, []).append(index)
        lines: list[str] = []
        for detail, (first, *others) in rows.items():
            lines.append(f"environment {first}{detail}")
            if others:
                lines.append(f"{_named(others)}: the same.")
        if self.remote_traceback:
            lines.append(f"From the worker:\n{self.remote_traceback.rstrip()}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        arguments = (type(self), self.indices, self.doing, self.details)
        return _rebuild, (*arguments, self.exitcode, self.remote_traceback)


class WorkerValueError(WorkerError, ValueError):
    """An environment returned a value that does not fit its spec."""


class WorkerTypeError(WorkerError, TypeError):
    """A method or an attribute of an environment cannot be used like this."""


class WorkerAttributeError(WorkerError, AttributeError):
    """An environment does not have the attribute that was asked for."""


class WorkerNotImplementedError(WorkerError, NotImplementedError):
    """An environment does not implement what was asked for."""


class WorkerDiedError(WorkerError):
    """The process of an environment ended without answering."""


class WorkerTimeoutError(WorkerError, TimeoutError):
    """An environment did not answer in time."""


def check_owner(owner: int) -> None:
    """Raises ClosedError unless this is the process with the id `owner`."""
    if os.getpid() != owner:
        raise ClosedError(
            "the environment belongs to the process that made it, and this is a fork "
            "of that process: make a new environment here."
        )


def _named(rows: Sequence[int]) -> str:
    """Returns which rows, as a sentence begins with them."""
    if len(rows) == 1:
        return f"environment {rows[0]}"
    if list(rows) == list(range(rows[0], rows[-1] + 1)):
        return f"environments {rows[0]} to {rows[-1]}"
    return f"environments {', '.join(map(str, rows[:-1]))} and {rows[-1]}"


def describe_exit(exitcode: int | None) -> str:
    """Returns how a process ended in words, with the usual meaning of its signal."""
    if exitcode is None:
        return "its process ended, and its exit status is unknown"
    if exitcode >= 0:
        return f"its process ended with exit code {exitcode}"
    try:
        name = signal.Signals(-exitcode).name
    except ValueError:
        name = "unknown"
    hint = _SIGNAL_HINTS.get(name, "")
    return f"its process was ended by signal {name} (exit code {exitcode}){hint}"


_SIGNAL_HINTS = {
    "SIGKILL": ": killed by hand, or by the system because memory ran out",
    "SIGSEGV": ": native code in the environment crashed",
    "SIGBUS": ": native code crashed, or a shared memory file could not grow",
    "SIGABRT": ": native code gave up (an assertion or a corrupted heap)",
    "SIGTERM": ": someone asked it to end",
    "SIGFPE": ": native code divided by zero",
    "SIGILL": ": native code used an instruction this processor does not have",
}


def _rebuild(
    cls: type[WorkerError],
    indices: Sequence[int],
    doing: str,
    details: Sequence[str],
    exitcode: int | None,
    remote_traceback: str,
) -> WorkerError:
    return cls(
        indices,
        doing,
        details,
        exitcode=exitcode,
        remote_traceback=remote_traceback,
    )
