"""What a process sees around it: environment, folder, module path, arguments."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping

from parallel_envs.process import interpreter

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """The surroundings of a process at one moment, for a worker to take over.

    Attributes:
        environ: The environment variables.
        folder: The working directory; None where it no longer exists.
        module_path: `sys.path`, without what imports pass over.
        arguments: `sys.argv`.
        umask: The permissions that new files do not get.
    """

    environ: Mapping[str, str]
    folder: str | None
    module_path: tuple[str, ...]
    arguments: tuple[str, ...]
    umask: int

    @classmethod
    def capture(cls) -> Surroundings:
        """Returns the surroundings of this process now."""
        return cls(
            environ=with_single_threads(os.environ),
            folder=current_folder(),
            module_path=tuple(interpreter.searched(sys.path)),
            arguments=tuple(getattr(sys, "argv", ())),
            umask=_umask(),
        )

    def apply(self) -> None:
        """Makes these the surroundings of the calling process."""
        if os.environ != self.environ:
            os.environ.clear()
            os.environ.update(self.environ)
        os.umask(self.umask)
        if self.folder is not None:
            os.chdir(self.folder)
        sys.path[:] = self.module_path
        sys.argv[:] = self.arguments


def with_single_threads(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns `environ` with one BLAS thread where it does not say how many.

    Every worker would else start as many threads as there are cores, and they would
    spend their time waiting for each other.
    """
    return dict.fromkeys(_THREAD_VARIABLES, "1") | dict(environ)


def current_folder() -> str | None:
    """Returns the working directory; None where it no longer exists."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _umask() -> int:
    umask = os.umask(0o077)  # There is no way to read it without setting it.
    os.umask(umask)
    return umask
