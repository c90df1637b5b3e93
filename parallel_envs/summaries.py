"""TensorBoard event files, written without TensorFlow."""

from __future__ import annotations

import importlib
import itertools
import os
from types import TracebackType
from typing import Any

_numbers = itertools.count()


class SummaryWriter:
    """Writes numbers for TensorBoard into one new event file of a directory.

    What is written is in the file after `flush`, after `close`, or 10 seconds later. A
    context manager; `close` can be called twice.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Makes the directory, if need be, and an event file in it.

        Other event files there stay: TensorBoard shows them as one run, so that a
        program which is started again goes on with the same curves.

        Raises:
            ImportError: If the package tensorboardX is missing.
            OSError: If the directory or the file cannot be made.
        """
        self._directory = os.fspath(directory)
        # tensorboardX names a file by the second and would overwrite one it made within
        # the same second, in this process or in another one.
        suffix = f".{os.getpid()}.{next(_numbers)}"
        self._writer: Any = _tensorboardx().SummaryWriter(
            self._directory, flush_secs=10, filename_suffix=suffix
        )

    @property
    def directory(self) -> str:
        """Where the event file is."""
        return self._directory

    def scalar(self, tag: str, value: Any, step: int) -> None:
        """Writes one number as a float32.

        Args:
            tag: Name of the curve; TensorBoard groups by what is before a slash.
            value: A number, or an array or tensor of one element.
            step: Where on the x-axis.

        Raises:
            ValueError: If the writer is closed.
        """
        self._open_writer().add_scalar(tag, float(value), int(step))

    def flush(self) -> None:
        """Returns when all that was written is in the file."""
        self._open_writer().flush()

    def close(self) -> None:
        """Flushes and closes the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _open_writer(self) -> Any:
        if self._writer is None:
            raise ValueError(f"The summary writer of {self._directory} is closed.")
        return self._writer


def _tensorboardx() -> Any:
    try:
        return importlib.import_module("tensorboardX")
    except ImportError as error:
        raise ImportError(
            "Writing TensorBoard summaries needs the package tensorboardX: "
            "pip install 'parallel-envs[collect]'",
            name="tensorboardX",
        ) from error
