"""One trial after the other, within the time there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from parallel_envs.autotuning import choice, trials
from parallel_envs.autotuning.plan import Plan
from parallel_envs.autotuning.trials import Trial

_NUM_RIVALS = 2  # As many, most often, are tried again.


class Course:
    """Tries what a plan holds.

    Attributes:
        trials: What came of it so far.
    """

    def __init__(
        self,
        env_constructor: Callable[[], Any],
        plan: Plan,
        process_arguments: Mapping[str, Any],
        deadline: float,
    ) -> None:
        """Tries nothing yet.

        Args:
            env_constructor: Makes one environment.
            plan: What there is to try.
            process_arguments: Of `ParallelPyEnvironment`, about how processes start.
            deadline: On the clock of `time.perf_counter`.
        """
        self._plan = plan
        self._constructors = [env_constructor] * plan.num_envs
        self._process_arguments = process_arguments
        self._deadline = deadline
        self.trials: list[Trial] = []

    def best_number_of_workers(self) -> Trial:
        """Returns the best of the numbers of processes, or else the most promising one.

        Raises:
            ValueError: If no number of processes can hold the environments.
            WorkerError, OSError: If all trials have failed.
        """
        plan = self._plan
        counts = plan.worker_counts()
        by_promise = sorted(
            counts, key=lambda count: (plan.batch_seconds(count), count)
        )
        found = self._tried_once(by_promise)
        self.trials += [found[count] for count in counts]
        self._repeat_rivals()
        best = choice.leanest(self.trials)
        return best or self._most_promising(by_promise, found)

    def refined(self, chosen: Trial, *, copy: bool) -> tuple[Trial, list[str]]:
        """Returns the trial with further arguments, as far as each of them helps.

        Args:
            chosen: The best number of processes, measured.
            copy: Whether arrays have to be the caller's own.

        Returns:
            The best trial, and hints about what would be faster and has a price.
        """
        hints: list[str] = []
        further = self._plan.refinements(chosen.num_workers)
        for position, arguments in enumerate(further):
            share = self._seconds_left() / (len(further) - position + 1)
            if self._plan.too_long(chosen.num_workers, share):
                break
            trial = self._run({**chosen.arguments, **arguments}, share)
            self.trials.append(trial)
            if choice.gains(trial, chosen):
                chosen = self._repeat(chosen, share)  # Or it was luck.
            if not choice.gains(trial, chosen):
                continue
            if copy and "copy" in arguments:
                hints.append(choice.hint_about_copies(trial, chosen))
            else:
                chosen = trial
        return chosen, hints

    def _tried_once(self, by_promise: list[int]) -> dict[int, Trial]:
        """Returns a trial for each number of processes, the most promising first.

        That one gets the time even if no other one does.
        """
        num_refinements = len(self._plan.refinements(self._plan.num_envs))
        num_left = len(by_promise) + _NUM_RIVALS + num_refinements
        found: dict[int, Trial] = {}
        for count in by_promise:
            left = self._seconds_left()
            has_one = any(trial.steps_per_second for trial in found.values())
            limit = left / num_left if has_one else left
            found[count] = self._try(count, limit, left / num_left)
            num_left -= 1
        return found

    def _repeat_rivals(self) -> None:
        """Tries those again that are not far from the best, where there are several.

        What other programs do comes and goes, and has not met all of them alike.
        """
        rivals = choice.rivals(self.trials)
        if len(rivals) < 2:
            return
        num_left = len(rivals) + len(self._plan.refinements(self._plan.num_envs))
        for trial in rivals:
            share = self._seconds_left() / num_left
            num_left -= 1
            if not self._plan.too_long(trial.num_workers, share):
                self._repeat(trial, share)

    def _repeat(self, trial: Trial, seconds: float) -> Trial:
        """Returns the better one of a trial and another of the same, and keeps it."""
        better = choice.better(trial, self._run(trial.arguments, seconds))
        self.trials[self.trials.index(trial)] = better
        return better

    def _try(self, num_workers: int, limit: float, share: float) -> Trial:
        """Runs a trial that has a place in `limit`, for about `share` seconds."""
        arguments = self._arguments(num_workers)
        failure = self._plan.impossible(num_workers)
        failure = failure or self._plan.too_long(num_workers, limit)
        if failure:
            return Trial(arguments=arguments, failure=failure)
        return self._run(arguments, max(share, self._plan.needed_seconds(num_workers)))

    def _run(self, arguments: Mapping[str, Any], seconds: float) -> Trial:
        return trials.run(
            self._constructors,
            arguments,
            self._process_arguments,
            seconds=seconds,
            counts_resets=self._plan.facts.has_short_episodes,
        )

    def _arguments(self, num_workers: int) -> dict[str, Any]:
        arguments: dict[str, Any] = {"num_workers": num_workers, "copy": True}
        if num_workers > 1:
            arguments["start_serially"] = False
        if num_workers:
            given = self._process_arguments.items()
            arguments |= {name: value for name, value in given if value}
        return arguments

    def _most_promising(
        self, by_promise: list[int], found: Mapping[int, Trial]
    ) -> Trial:
        """Returns a trial that had no place in the time, for want of any other."""
        for count in by_promise:
            if found[count].error is None and not self._plan.impossible(count):
                return found[count]
        for count in by_promise:
            if (error := found[count].error) is not None:
                raise error
        reasons = [f"{found[count].name} {found[count].failure}" for count in found]
        raise ValueError(
            "num_envs: expected as many environments as this machine can hold, got "
            f"{self._plan.num_envs}: {'; '.join(reasons)}."
        )

    def _seconds_left(self) -> float:
        return self._deadline - time.perf_counter()
