"""What a pool knows of the processes of its workers, however they are started."""

from __future__ import annotations

import abc
import time
from collections.abc import Sequence

from parallel_envs.process.worker_handle import WorkerHandle

_KILL_SECONDS = 2.0


class Processes(abc.ABC):
    """A worker in each of several places.

    Attributes:
        workers: One handle for each place; a dead worker's stays until it is replaced.
    """

    def __init__(self) -> None:
        """Makes no process yet."""
        self.workers: list[WorkerHandle] = []

    @property
    def dead(self) -> list[int]:
        """The places whose worker is gone."""
        return [worker.index for worker in self.workers if worker.is_dead]

    @property
    @abc.abstractmethod
    def nursery_pid(self) -> int | None:
        """Process id of what starts workers; None where there is no such process."""

    @abc.abstractmethod
    def start(self, indices: Sequence[int], timeout: float | None = None) -> None:
        """Starts a worker in each place, and waits until it has its process id.

        Args:
            indices: The places, new ones in their order.
            timeout: Seconds that what starts workers may take to be ready, and for
                each of them.

        Raises:
            NurseryError: If workers cannot be started.
        """

    @abc.abstractmethod
    def exitcode(self, index: int) -> int | None:
        """Returns how a dead worker ended; None where nobody knows."""

    @abc.abstractmethod
    def remove(self, index: int) -> None:
        """Frees what is left of a dead worker."""

    def kill(self, indices: Sequence[int]) -> None:
        """Ends workers, and waits until they are gone."""
        for index in indices:
            self.workers[index].kill()
        self._await_deaths(indices, time.monotonic() + _KILL_SECONDS)

    def end(self, deadline: float) -> None:
        """Waits until `deadline` for workers to end, then ends them and all else."""
        everyone = range(len(self.workers))
        try:
            self._await_deaths(everyone, deadline)
        finally:  # Ctrl-C ends the wait, and nothing else.
            self.kill(everyone)
            for index in everyone:
                self.remove(index)

    @abc.abstractmethod
    def _await_deaths(self, indices: Sequence[int], deadline: float) -> None:
        """Waits for those of the workers that are alive, but not for ever.

        What they still say is read and dropped: a full channel would hold them.
        """
