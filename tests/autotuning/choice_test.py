"""What is chosen from trials, and the sentence that says why."""

from __future__ import annotations

import dataclasses

from parallel_envs.autotuning import choice
from parallel_envs.autotuning.facts import Facts
from parallel_envs.autotuning.trials import Trial

COMPUTING = Facts(
    num_rows=1,
    num_steps=100,
    num_episodes=0,
    step_seconds=0.001,
    step_seconds_p95=0.001,
    step_seconds_max=0.002,
    cpu_share=0.98,
    construct_seconds=0.5,
    warm_up_seconds=0.01,
    reset_seconds=0.01,
    observation_bytes=16,
    memory_bytes=None,
)
WAITING = dataclasses.replace(COMPUTING, cpu_share=0.03)


def trial(num_workers: int, steps_per_second: float | None) -> Trial:
    return Trial(
        arguments={"num_workers": num_workers, "copy": True},
        steps_per_second=steps_per_second,
    )


def test_fastest_is_chosen() -> None:
    trials = [trial(0, 100), trial(2, 190), trial(8, 120)]

    assert choice.leanest(trials) is trials[1]


def test_fewest_processes_are_chosen_of_those_that_are_as_fast_up_to_noise() -> None:
    trials = [trial(0, 100), trial(2, 191), trial(4, 196), trial(8, 200)]

    assert choice.leanest(trials) is trials[1]


def test_nothing_is_chosen_where_all_have_failed() -> None:
    assert choice.leanest([trial(0, None), trial(2, None)]) is None


def test_only_what_is_near_the_best_is_its_rival() -> None:
    trials = [trial(0, 100), trial(2, None), trial(4, 69), trial(8, 65)]

    assert choice.rivals(trials) == [trials[0], trials[2]]


def test_better_of_two_trials_of_the_same_is_the_faster_one() -> None:
    first, second, failed = trial(2, 100), trial(2, 110), trial(2, None)

    assert choice.better(first, second) is second
    assert choice.better(second, first) is second
    assert choice.better(first, failed) is first


def test_further_argument_has_to_gain_a_tenth() -> None:
    assert choice.gains(trial(2, 111), trial(2, 100))
    assert not choice.gains(trial(2, 108), trial(2, 100))
    assert not choice.gains(trial(2, None), trial(2, 100))


def test_reason_for_no_processes_compares_with_the_best_of_them() -> None:
    trials = [trial(0, 300), trial(2, 100), trial(8, 50)]

    assert choice.reason(trials[0], trials, COMPUTING, 8) == (
        "A step takes 1 ms, 98% of it computing: to ask other processes costs more "
        "than it gains, and num_workers=0 gives 3 x the steps/s of 2 processes."
    )


def test_reason_for_some_processes_compares_with_none() -> None:
    trials = [trial(0, 100), trial(2, 190), trial(8, 150)]

    assert choice.reason(trials[1], trials, COMPUTING, 8) == (
        "A step takes 1 ms, 98% of it computing: 2 processes give 1.9 x the steps/s of "
        "none, and more of them gain nothing."
    )


def test_reason_for_a_process_each_says_what_they_do_at_the_same_time() -> None:
    trials = [trial(0, 100), trial(8, 700)]

    assert choice.reason(trials[1], trials, WAITING, 8) == (
        "A step takes 1 ms, 97% of it waiting: 8 processes, a process for each, give "
        "7 x the steps/s of none, since they wait at the same time."
    )


def test_reason_says_nothing_of_more_processes_that_were_not_measured() -> None:
    trials = [trial(0, 100), trial(2, 190), trial(8, None)]

    assert choice.reason(trials[1], trials, COMPUTING, 8).endswith("of none.")


def test_reason_counts_resets_where_they_are_what_takes_time() -> None:
    facts = dataclasses.replace(COMPUTING, num_episodes=100, reset_seconds=0.02)
    trials = [trial(0, 300), trial(2, 100)]

    assert choice.reason(trials[0], trials, facts, 8).startswith(
        "A step takes 21 ms, 98% of it computing, with its share of the resets: "
    )


def test_reason_where_nothing_was_measured_asks_for_time() -> None:
    trials = [trial(0, None), trial(8, None)]

    assert choice.reason(trials[1], trials, WAITING, 8).endswith("give more seconds.")


def test_hints_say_what_to_do() -> None:
    assert choice.hint_about_copies(trial(0, 150), trial(0, 100)) == (
        "copy=False gives 1.5 x that, where no array is used after the fourth call "
        "that follows."
    )
    assert choice.hint_about_load(1.254) == (
        "Other programs were running when this began (1.3 for each core): measure "
        "again when they are done."
    )
