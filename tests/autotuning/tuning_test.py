"""The table that a tuning prints."""

from __future__ import annotations

from parallel_envs.autotuning.facts import Facts
from parallel_envs.autotuning.trials import Trial
from parallel_envs.autotuning.tuning import Tuning

FACTS = Facts(
    num_rows=1,
    num_steps=100,
    num_episodes=2,
    step_seconds=0.002,
    step_seconds_p95=0.0023,
    step_seconds_max=0.03,
    cpu_share=0.02,
    construct_seconds=1.5,
    warm_up_seconds=0.003,
    further_start_seconds=0.25,
    reset_seconds=0.0001,
    observation_bytes=28_224,
    memory_bytes=12 * 2**20,
    further_memory_bytes=5 * 2**10,
)
TRIALS = (
    Trial(
        arguments={"num_workers": 0, "copy": True},
        failure="not tried: takes about 9.0 s, and 1.0 s were left",
    ),
    Trial(
        arguments={"num_workers": 8, "copy": True, "start_serially": False},
        steps_per_second=3500.0,
        batch_seconds=0.0022857,
        start_seconds=1.75,
        memory_bytes=96 * 2**20,
    ),
)


def test_tuning_prints_as_a_table() -> None:
    tuning = Tuning(
        num_envs=8,
        num_cores=2,
        facts=FACTS,
        trials=TRIALS,
        chosen=TRIALS[1],
        reason="They wait.",
        hints=("There is more.",),
    )

    assert repr(tuning) == str(tuning)
    assert (
        str(tuning)
        == """\
One environment, alone in a process:
  step         2 ms, 95 % within 2.3 ms, all within 30 ms; 2% on a core
  reset        100 µs; episodes of 50 steps
  constructor  1.5 s, and 3 ms for the first reset and step; another one 250 ms
  memory       12.0 MiB for a process with one, 5 KiB for another one in it
  observation  28,224 bytes

8 environments, 2 cores:
                 steps/s  µs a batch   start    memory
  num_workers=0                                         not tried
  num_workers=8    3,500       2,286  1.75 s  96.0 MiB  recommended
  num_workers=0 not tried: takes about 9.0 s, and 1.0 s were left

Recommended: num_workers=8, copy=True, start_serially=False
They wait.
There is more."""
    )


def test_arguments_are_a_new_dict_each_time() -> None:
    tuning = Tuning(
        num_envs=8,
        num_cores=2,
        facts=FACTS,
        trials=TRIALS,
        chosen=TRIALS[1],
        reason="They wait.",
    )

    tuning.arguments["num_workers"] = 3

    assert tuning.arguments["num_workers"] == 8


def test_trial_is_named_by_the_arguments_in_which_trials_differ() -> None:
    arguments = {"num_workers": 4, "copy": False, "affinity": "auto", "context": "fork"}

    assert Trial(arguments=arguments).name == (
        "num_workers=4, affinity='auto', copy=False"
    )
