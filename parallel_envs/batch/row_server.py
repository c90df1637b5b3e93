"""How a batch gets its rows stepped, here or in worker processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from parallel_envs import errors
from parallel_envs.batch.environment_rows import (
    Birth,
    Command,
    Description,
)
from parallel_envs.batch.failure import Failure
from parallel_envs.process.shared_arrays import ArrayLayout
from parallel_envs.process.worker_handle import WorkerGone
from parallel_envs.specs import checks

INTERRUPTED = "what was interrupted"
"""What a process is said to be at which Ctrl-C has not ended."""

_NAMES_OF_LIMITS = {"construction": " (start_timeout)", "close": "", INTERRUPTED: ""}

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


@dataclasses.dataclass(frozen=True)
class Landing:
    """What came of one environment that was stepped by itself.

    Attributes:
        index: Position of its constructor.
        failures: What went wrong, by rows of the batch.
        extras: For each variable leaf, by position, the values of its rows.
    """

    index: int
    failures: tuple[Failure, ...]
    extras: dict[int, list[Any]]


class RowServer(Protocol):
    """Steps environments whose rows lie side by side in the batch's arrays.

    At first there are no environments: `renew` and `await_renewed` make them. Then
    `attach` lays out their rows, which they get when `await_renewed` is called again.
    """

    has_processes: bool
    """Whether the environments are in other processes than this."""

    @property
    def descriptions(self) -> list[Description]:
        """One for each constructor."""
        ...

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The process of each constructor's environment; empty for this process."""
        ...

    @property
    def missing(self) -> list[int]:
        """The constructors whose environment is yet to be made."""
        ...

    def take_stock(self) -> tuple[Failure, ...]:
        """Counts environments as missing whose process is gone; tells of them.

        Waits for what earlier calls have left behind. A round would tell of such a
        process as well.
        """
        ...

    def end_busy(self, name: str) -> None:
        """Ends processes that are still at something 3 seconds from now.

        Args:
            name: What they are then said to be late with.
        """
        ...

    def renew(self, discarded: Iterable[int], births: Sequence[Birth]) -> None:
        """Has environments made in place of the discarded and of all missing ones.

        Does not wait until they are there.

        Args:
            discarded: By constructor; those that are there are closed.
            births: One for each constructor.
        """
        ...

    def await_renewed(self) -> tuple[Failure, ...]:
        """Waits until what `renew` has begun is done, and every row has its place.

        Returns what failed.

        Raises:
            ValueError: If an environment has other specs than before.
        """
        ...

    def attach(
        self, layout: ArrayLayout, num_inputs: int, num_buffers: int
    ) -> list[Array]:
        """Returns the arrays of the batch, which rounds read from and write to.

        Args:
            layout: The inputs and, after them, the outputs.
            num_inputs: How many are inputs.
            num_buffers: How often the outputs are to be there, one set after another.
        """
        ...

    def round(
        self, command: Command, extras: dict[int, list[Any]] | None, buffer: int
    ) -> Outcome | None:
        """Steps or resets every row, waiting for all; None where all is well.

        Args:
            command: Which of the two.
            extras: For each variable leaf of the action, by position, one value a row.
            buffer: Which set of outputs is written to.
        """
        ...

    def start(self, twice: Mapping[int, bool], buffer: int) -> Outcome | None:
        """Resets some new environments at once; else the next step does it.

        Args:
            twice: For each constructor whose environment is to start, whether the next
                step is to reset it once more.
            buffer: Which set of outputs is written to.
        """
        ...

    def send(
        self, orders: Mapping[int, dict[int, list[Any]] | None], buffer: int
    ) -> None:
        """Has environments stepped, and does not wait.

        Args:
            orders: By constructor, for each variable leaf of the action, by position,
                the values of its rows; None where there is no such leaf.
            buffer: Which set of outputs is written to.
        """
        ...

    def landed(self, at_least: int, until: float | None) -> list[Landing]:
        """Returns what came of environments that were sent, oldest first.

        Where a process is lost, its other environments are told of as well.

        Args:
            at_least: How many this waits for, of those that were sent.
            until: By `time.monotonic`, how long; None for as long as it takes.
        """
        ...

    def drop(self) -> None:
        """Forgets environments that were sent; what has begun may go on."""
        ...

    def ask(self, index: int, name: str, *arguments: Any) -> Promise:
        """Asks the environment of one constructor; the promise returns its answer."""
        ...

    def ask_all(self, name: str, arguments: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        """Asks environments, all before it waits for the first; returns the answers.

        Args:
            name: As in `ask`.
            arguments: For each constructor that is to be asked.

        Raises:
            WorkerError: What went wrong, with every row that is known to have failed.
        """
        ...

    def pause(self, seconds: float) -> None:
        """Waits; a call of `interrupt` ends it."""
        ...

    def check_open(self) -> None:
        """Raises ClosedError if this is closed, or belongs to another process."""
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


def refuse_change(index: int, old: Description, new: Description) -> None:
    """Raises ValueError if an environment that was made anew has other specs."""
    for name in ("action_spec", "time_step_spec"):
        change = checks.difference(getattr(old, name), getattr(new, name), name)
        if change is not None or old.batch_size != new.batch_size:
            raise ValueError(
                f"environment {index} has other specs since it was made anew: "
                f"{change or f'batch_size {old.batch_size}, now {new.batch_size}'} "
                "Close this batch, and make a new one."
            )


def error_of(
    failures: Iterable[Failure],
    note_on: Callable[[Failure], str] = lambda _: "",
    *,
    is_request: bool = False,
) -> Exception:
    """Returns the error to raise for what went wrong with some rows.

    Its class is that of the lowest row's failure, and so are exit code, traceback and
    cause; all rows are named.

    Args:
        failures: At least one.
        note_on: Returns what else there is to say of a failure.
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
        details += [detail(failure) + note_on(failure)] * len(failure.rows)
    gone = first.error if isinstance(first.error, WorkerGone) else None
    error = kind(
        indices,
        first.doing,
        details,
        exitcode=None if gone is None else gone.exitcode,
        remote_traceback=trace_of(first),
    )
    # The text of a misfit is the error's own already.
    error.__cause__ = None if first.is_misfit else first.exception
    return error


def detail(failure: Failure) -> str:
    """Returns how the sentence "environment 3" goes on for what went wrong with it."""
    gone, doing = failure.error, failure.doing
    if not isinstance(gone, WorkerGone):
        if failure.is_misfit:
            return f": {failure.exception}"
        return f" raised {failure.told.summary} during {doing}."
    if failure.culprit is not None:
        what = "died" if gone.limit is None else "took too long"
        return (
            f" was lost during {doing}: it shared a process with environment "
            f"{failure.culprit}, which {what}."
        )
    if gone.limit is None:
        return f" died during {doing}: {errors.describe_exit(gone.exitcode)}."
    limit = _NAMES_OF_LIMITS.get(doing, " (step_timeout)")
    return (
        f" was not done with {doing} after {gone.limit:g} s{limit}, so its process was "
        "ended."
    )


def trace_of(failure: Failure) -> str:
    """Returns the traceback of a failure as text; empty where there is none."""
    if isinstance(failure.error, WorkerGone):
        return failure.error.trace
    return "" if failure.is_misfit else failure.told.traceback


def _error_type(failure: Failure, is_request: bool) -> type[errors.WorkerError]:
    if isinstance(failure.error, WorkerGone):
        is_late = failure.error.limit is not None
        return errors.WorkerTimeoutError if is_late else errors.WorkerDiedError
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
