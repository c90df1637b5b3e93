"""Chooses between trials, and says why."""

from __future__ import annotations

from collections.abc import Sequence

from parallel_envs.autotuning.facts import Facts
from parallel_envs.autotuning.quantities import duration
from parallel_envs.autotuning.trials import Trial

_NOISE = 1.05  # Two trials of the same differ as much.
_RIVALS = 1.5  # What differs more is not made up for by luck.
_WORTH_IT = 1.10  # What a further argument has to gain, to be given at all.


def leanest(trials: Sequence[Trial]) -> Trial | None:
    """Returns the fastest trial, or the leanest of those as fast up to noise.

    Leaner is what has fewer processes; none but the caller's own is the leanest.

    Args:
        trials: Trials, also such as have failed.

    Returns:
        None if all have failed.
    """
    rates = [(trial, trial.steps_per_second or 0.0) for trial in trials]
    fastest = max((rate for _, rate in rates), default=0.0)
    if not fastest:
        return None
    good = [trial for trial, rate in rates if rate * _NOISE >= fastest]
    return min(good, key=lambda trial: trial.num_workers)


def rivals(trials: Sequence[Trial]) -> list[Trial]:
    """Returns the trials that may be the best when they are repeated."""
    fastest = max((trial.steps_per_second or 0.0 for trial in trials), default=0.0)
    return [
        trial
        for trial in trials
        if trial.steps_per_second and trial.steps_per_second * _RIVALS >= fastest
    ]


def better(trial: Trial, other: Trial) -> Trial:
    """Returns the faster one of two trials of the same.

    What slows one down is what else the machine did.
    """
    is_faster = (other.steps_per_second or 0.0) > (trial.steps_per_second or 0.0)
    return other if is_faster else trial


def gains(refined: Trial, trial: Trial) -> bool:
    """Returns whether a further argument has made enough of a difference."""
    return ratio(refined, trial) >= _WORTH_IT


def ratio(trial: Trial, other: Trial) -> float:
    """Returns how many times as fast a trial was; 0 if it has failed."""
    if not trial.steps_per_second or not other.steps_per_second:
        return 0.0
    return trial.steps_per_second / other.steps_per_second


def hint_about_copies(trial: Trial, chosen: Trial) -> str:
    """Returns what views would gain, and what they are: one sentence."""
    return (
        f"copy=False gives {ratio(trial, chosen):.2g} x that, where no array is used "
        "after the fourth call that follows."
    )


def hint_about_load(load: float) -> str:
    """Returns what it means that other programs were running: one sentence."""
    return (
        f"Other programs were running when this began ({load:.1f} for each core): "
        "measure again when they are done."
    )


def reason(chosen: Trial, trials: Sequence[Trial], facts: Facts, num_envs: int) -> str:
    """Returns why a trial was chosen: one sentence.

    Args:
        chosen: One of the trials.
        trials: All of them.
        facts: Of one environment.
        num_envs: How many there are.
    """
    share = min(1.0, facts.cpu_share if facts.computes else 1 - facts.cpu_share)
    doing = "computing" if facts.computes else "waiting"
    if facts.mean_seconds > 2 * facts.step_seconds:
        doing = f"{doing}, with its share of the resets"
    step = f"A step takes {duration(facts.mean_seconds)}, {share:.0%} of it {doing}"
    if chosen.steps_per_second is None:
        return (
            f"{step}: this alone is what the recommendation comes from, since no trial "
            "had a place in the time; give more seconds."
        )
    if chosen.num_workers == 0:
        return f"{step}: {_why_none(trials)}."
    return f"{step}: {_why_processes(chosen, trials, facts, num_envs)}."


def _why_none(trials: Sequence[Trial]) -> str:
    with_processes = [trial for trial in trials if trial.num_workers]
    best = max(with_processes, key=lambda trial: trial.steps_per_second or 0.0)
    if best.steps_per_second is None:
        return "nothing but this process could be measured"
    none = next(trial for trial in trials if trial.num_workers == 0)
    return (
        "to ask other processes costs more than it gains, and num_workers=0 gives "
        f"{ratio(none, best):.2g} x the steps/s of {_processes(best)}"
    )


def _why_processes(
    chosen: Trial, trials: Sequence[Trial], facts: Facts, num_envs: int
) -> str:
    told = _processes(chosen)
    if facts.sharing_error:
        return f"{told}, since one can hold only one of them"
    gain = max(ratio(chosen, trial) for trial in trials if trial.num_workers == 0)
    verb = "gives" if chosen.num_workers == 1 else "give"
    compared = f"{verb} {gain:.2g} x the steps/s of none" if gain else f"{verb} most"
    if chosen.num_workers == num_envs > 1:
        how = "compute side by side" if facts.computes else "wait at the same time"
        return f"{told}, a process for each, {compared}, since they {how}"
    more = [trial for trial in trials if trial.num_workers > chosen.num_workers]
    if any(trial.steps_per_second for trial in more):
        return f"{told} {compared}, and more of them gain nothing"
    return f"{told} {compared}"


def _processes(trial: Trial) -> str:
    return "1 process" if trial.num_workers == 1 else f"{trial.num_workers} processes"
