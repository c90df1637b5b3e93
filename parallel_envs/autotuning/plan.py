"""Which ways to step environments are worth a trial, and which cannot be tried.

What is said here of time is reckoned from the facts of one environment, and decides
only what is tried: what is recommended is measured.
"""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any

from parallel_envs.autotuning.facts import Facts

_LEAST_BATCHES = 3  # One to warm up, and some to time.
_WORKER_SECONDS = 0.15  # To start processes at all,
_FURTHER_WORKER_SECONDS = 0.005  # and for each of them.
_ASKING_SECONDS = 5e-5  # To ask processes for a step at all,
_FURTHER_ASKING_SECONDS = 1e-5  # and for each of them.
_LARGE_BATCH = 2**16  # Bytes of observations that take time to copy.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What there is to be stepped, and what there is to step it with.

    Attributes:
        facts: Of one environment.
        num_envs: How many there are to be.
        num_cores: Cores that this process may keep busy.
        memory_bytes: Memory that may be used; None where nobody knows.
    """

    facts: Facts
    num_envs: int
    num_cores: int
    memory_bytes: int | None

    def worker_counts(self) -> list[int]:
        """Returns numbers of processes to try, in rising order.

        None but this, one for each core, two for each core, one for each environment.
        """
        wanted = (0, self.num_cores, 2 * self.num_cores, self.num_envs)
        return sorted({min(number, self.num_envs) for number in wanted})

    def refinements(self, num_workers: int) -> list[dict[str, Any]]:
        """Returns further arguments that may make a batch faster, one by one."""
        found: list[dict[str, Any]] = []
        if self.facts.computes and num_workers:
            if num_workers > self.num_cores:
                found.append({"max_concurrency": self.num_cores})
            if self.num_cores > 1 and hasattr(os, "sched_setaffinity"):
                found.append({"affinity": "auto"})
        if self.num_envs * self.facts.num_rows * self.facts.observation_bytes >= (
            _LARGE_BATCH
        ):
            found.append({"copy": False})
        return found

    def impossible(self, num_workers: int) -> str:
        """Returns why so many processes cannot hold the environments; "" if they can.

        Args:
            num_workers: As in `ParallelPyEnvironment`.
        """
        if max(1, num_workers) < self.num_envs and self.facts.sharing_error:
            return f"failed: {self.facts.sharing_error}"
        needed, available = self.needed_bytes(num_workers), self.memory_bytes
        if needed is None or available is None or needed <= available:
            return ""
        return (
            f"refused: needs about {needed / 2**30:.1f} GiB, and "
            f"{available / 2**30:.1f} GiB are free"
        )

    def too_long(self, num_workers: int, seconds: float) -> str:
        """Returns why a trial has no place in some seconds; "" if it has."""
        needed = self.needed_seconds(num_workers)
        if needed <= seconds:
            return ""
        return f"not tried: takes about {needed:.1f} s, and {seconds:.1f} s were left"

    def needed_bytes(self, num_workers: int) -> int | None:
        """Returns the memory that the environments take; None where nobody knows."""
        first, further = self.facts.memory_bytes, self.facts.further_memory_bytes
        if first is None:
            return None
        processes = max(1, num_workers)
        return processes * first + (self.num_envs - processes) * (further or 0)

    def needed_seconds(self, num_workers: int) -> float:
        """Returns how long the shortest trial takes: start, reset, a few batches."""
        facts, most = self.facts, self._most_in_one(num_workers)
        starting = facts.construct_seconds + facts.warm_up_seconds
        starting += (most - 1) * facts.further_start_seconds
        return (
            _WORKER_SECONDS
            + num_workers * _FURTHER_WORKER_SECONDS
            + starting * max(1.0, num_workers / self.num_cores)
            + _LEAST_BATCHES * self.batch_seconds(num_workers)
        )

    def batch_seconds(self, num_workers: int) -> float:
        """Returns about the least time that a step of all environments takes."""
        cores = min(self.num_cores, max(1, num_workers))
        step, cpu = self.facts.mean_seconds, self.facts.cpu_share
        stepping = max(
            self._most_in_one(num_workers) * step, self.num_envs * step * cpu / cores
        )
        if num_workers == 0:
            return stepping
        return stepping + _ASKING_SECONDS + num_workers * _FURTHER_ASKING_SECONDS

    def _most_in_one(self, num_workers: int) -> int:
        """Returns how many environments the fullest process has."""
        return math.ceil(self.num_envs / max(1, num_workers))
