"""How a batch gets its rows stepped, here or in worker processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from parallel_envs import errors
from parallel_envs.batch.environment_rows import Command, Description, Failure
from parallel_envs.process.shared_arrays import ArrayLayout
from parallel_envs.process.worker_pool import WorkerGone

Array = npt.NDArray[Any]
Promise = Callable[[], Any]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a round has to tell beside what stands in the arrays.

    Attributes:
        failures: What went wrong, by rows of the batch.
        extras: For each variable leaf, by position, the value of every row.
    """

    failures: tuple[Failure, ...]
    extras: dict[int, list[Any]]


class RowServer(Protocol):
    """Steps environments whose rows lie side by side in the batch's arrays."""

    @property
    def descriptions(self) -> list[Description]:
        """One for each constructor."""
        ...

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The process of each constructor's environment; empty for this process."""
        ...

    def attach(self, layout: ArrayLayout, num_inputs: int) -> list[Array]:
        """Returns the arrays of the batch, which rounds read from and write to."""
        ...

    def round(
        self, command: Command, extras: dict[int, list[Any]] | None
    ) -> Outcome | None:
        """Steps or resets every row, waiting for all; None where all is well."""
        ...

    def ask(self, index: int, name: str, *arguments: Any) -> Promise:
        """Asks the environment of one constructor; the promise returns its answer."""
        ...

    def check_open(self) -> None:
        """Raises ClosedError if this is closed, or belongs to another process."""
        ...

    def revive(self) -> None:
        """Makes anew what is gone, before a reset."""
        ...

    def interrupt(self) -> None:
        """Makes a call that waits in another thread end with ClosedError."""
        ...

    def close(self) -> None:
        """Closes every environment and frees everything; may be called again."""
        ...


def first_rows(descriptions: Iterable[Description]) -> list[int]:
    """Returns the first row of each environment, and the number of rows as last."""
    counts = [description.num_rows for description in descriptions]
    return [0, *np.cumsum(counts, dtype=int).tolist()]


def error_of(failures: Iterable[Failure], *, is_request: bool = False) -> Exception:
    """Returns the error to raise for what went wrong with some rows.

    Its class is that of the lowest row's failure, and so are exit code, traceback and
    cause; all rows are named.

    Args:
        failures: At least one.
        is_request: Whether a method was asked for by name, so that its own
            AttributeError or NotImplementedError is the answer.
    """
    ordered = sorted(failures, key=lambda failure: failure.rows)
    first = ordered[0]
    kind = _error_type(first, is_request)
    indices: list[int] = []
    details: list[str] = []
    for failure in ordered:
        indices += failure.rows
        details += [_detail(failure)] * len(failure.rows)
    gone = first.error if isinstance(first.error, WorkerGone) else None
    told = "" if gone or first.is_misfit else first.told.traceback
    error = kind(
        indices,
        first.doing,
        details,
        exitcode=None if gone is None else gone.exitcode,
        remote_traceback=told,
    )
    # The text of a misfit is the error's own already.
    error.__cause__ = None if gone or first.is_misfit else first.exception
    return error


def _error_type(failure: Failure, is_request: bool) -> type[errors.WorkerError]:
    if isinstance(failure.error, WorkerGone):
        return errors.WorkerDiedError
    if failure.is_misfit:
        return errors.WorkerValueError
    if is_request:
        exception = failure.exception
        for kind, mixed in _REQUEST_ERRORS.items():
            if isinstance(exception, kind):
                return mixed
    return errors.WorkerError


_REQUEST_ERRORS: dict[type[Exception], type[errors.WorkerError]] = {
    AttributeError: errors.WorkerAttributeError,
    NotImplementedError: errors.WorkerNotImplementedError,
    TypeError: errors.WorkerTypeError,
}


def _detail(failure: Failure) -> str:
    if isinstance(failure.error, WorkerGone):
        end = errors.describe_exit(failure.error.exitcode)
        return f" died during {failure.doing}: {end}."
    if failure.is_misfit:
        return f": {failure.exception}"
    return f" raised {failure.told.summary} during {failure.doing}."
