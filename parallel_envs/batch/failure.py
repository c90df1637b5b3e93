"""What goes wrong with rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parallel_envs.batch.row_writer import MisfitError
from parallel_envs.process.remote_error import RemoteError
from parallel_envs.process.worker_handle import WorkerGone


class Failure:
    """What went wrong with some rows.

    It may travel: the exception then arrives as a `RemoteError`.

    Attributes:
        rows: Rows it concerns, counted from the first one served here; in
            construction, the position of the constructor.
        doing: What was asked of them.
        error: The exception, or what is known of a process that is gone.
        culprit: The row at which the process was when it was lost, if that is none of
            `rows`.
    """

    def __init__(
        self,
        rows: Sequence[int],
        doing: str,
        error: BaseException | RemoteError | WorkerGone,
        culprit: int | None = None,
    ) -> None:
        self.rows = tuple(rows)
        self.doing = doing
        self.error = error
        self.culprit = culprit

    @property
    def is_misfit(self) -> bool:
        """Whether the environment returned what does not fit its spec."""
        return isinstance(self.exception, MisfitError)

    @property
    def exception(self) -> BaseException | None:
        """The exception itself; None where it could not travel."""
        if isinstance(self.error, RemoteError):
            return self.error.rebuild()
        return self.error if isinstance(self.error, BaseException) else None

    @property
    def told(self) -> RemoteError:
        """The exception as text."""
        if isinstance(self.error, RemoteError):
            return self.error
        assert isinstance(self.error, BaseException), "a loss has a text of its own"
        return RemoteError.of(self.error)

    def __reduce__(self) -> tuple[Any, ...]:
        return Failure, (self.rows, self.doing, self.told)
