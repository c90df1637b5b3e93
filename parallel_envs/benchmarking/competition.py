"""Who is measured when: all contestants in turn, and then all of them again."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping

from parallel_envs.benchmarking import workloads
from parallel_envs.benchmarking.contestants import SERIAL, Contestant
from parallel_envs.benchmarking.measuring import Job, measure
from parallel_envs.benchmarking.results import Comparison, Entry
from parallel_envs.benchmarking.workloads import Workload


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What is compared.

    Attributes:
        contestants: Who, besides the plain loop.
        pythons: Executables of the interpreters that step them, by the import name of
            the library; without a name it is the one that runs this.
        workloads: What they step, not calibrated.
        num_envs: Rows of a batch; each number is compared for itself.
        num_cores: Processes of those who spread the rows over the cores.
        runs: How often each is measured, the median of which counts.
        seconds: How long each run counts steps.
        timeout: Seconds after which a run is given up.
    """

    contestants: tuple[Contestant, ...]
    pythons: Mapping[str, str]
    workloads: tuple[Workload, ...]
    num_envs: tuple[int, ...]
    num_cores: int
    runs: int
    seconds: float
    timeout: float

    @property
    def num_jobs(self) -> int:
        """How many runs there are, if none fails."""
        comparisons = len(self.workloads) * len(self.num_envs)
        return comparisons * self.runs * (1 + len(self.contestants))

    def job(self, contestant: Contestant, workload: Workload, num_envs: int) -> Job:
        """Returns what one run of a contestant is."""
        return Job(
            contestant=contestant,
            python=self.pythons.get(contestant.library.package, sys.executable),
            workload=workload,
            num_envs=num_envs,
            num_cores=self.num_cores,
            seconds=self.seconds,
            timeout=self.timeout,
        )


def run(plan: Plan, notify: Callable[[str, int], None]) -> Iterator[Comparison]:
    """Measures, and yields each comparison when it is complete.

    The machine is never the same for long, so contestants take turns: A B C A B C. One
    that has failed is not tried again.

    Args:
        plan: What is compared.
        notify: Called before each run, with what it is and how many are done or not
            needed any more.
    """
    per_us = workloads.iterations_per_us()
    num_done = 0
    for uncalibrated, num_envs in itertools.product(plan.workloads, plan.num_envs):
        workload = workloads.calibrated(uncalibrated, per_us)
        entries = [Entry(each) for each in (SERIAL, *plan.contestants)]
        comparison = Comparison(workload, num_envs, plan.num_cores, entries)
        for entry in entries * plan.runs:
            notify(f"{comparison.title}: {entry.contestant.name}", num_done)
            num_done += 1
            if entry.failure is None:
                entry.add(measure(plan.job(entry.contestant, workload, num_envs)))
        yield comparison
