"""A quick check that an environment keeps its contract."""

from __future__ import annotations

import logging

import numpy as np

from parallel_envs import contract, py_policy, random_py_policy
from parallel_envs.py_environment import PyEnvironment

_log = logging.getLogger(__name__)

_MAX_STEPS = 1000  # For each episode asked for: episodes need not end.


def validate_py_environment(
    env: PyEnvironment,
    episodes: int = 5,
    observation_and_action_constraint_splitter: py_policy.Splitter | None = None,
) -> None:
    """Runs an environment with random actions and checks all that it returns.

    Checked are the specs; shape, dtype and bounds of each time step; that the discount
    is in [0, 1]; that reset returns FIRST, that MID and LAST follow until LAST, that
    FIRST follows LAST (by rows, where the environment is batched); and that
    `current_time_step` is what was returned. A batched environment counts the episodes
    of all rows. After 1000 steps for each episode asked for the check ends, with a
    warning in the log, because episodes of an environment need not end.

    The environment is stepped and not closed. What it raises itself comes through.

    Args:
        env: The environment.
        episodes: How many episodes to see the end of.
        observation_and_action_constraint_splitter: Takes an observation and returns
            what a policy sees of it, and a mask of the allowed actions.

    Raises:
        TypeError: If `env` is not an environment.
        ValueError: At the first thing that is wrong, with its path.
    """
    if not isinstance(env, PyEnvironment):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"env: expected a PyEnvironment, got {env!r}.")
    if episodes < 1:
        raise ValueError(f"episodes: expected at least 1, got {episodes}.")
    contract.check_specs(env)
    policy = random_py_policy.RandomPyPolicy(
        env.time_step_spec(),
        env.action_spec(),
        seed=0,
        observation_and_action_constraint_splitter=(
            observation_and_action_constraint_splitter
        ),
    )
    check = contract.TimeStepCheck(env)
    previous, time_step = None, env.reset()
    check(time_step, None, "reset()")
    num_ended = 0
    for count in range(1, _MAX_STEPS * episodes + 1):
        if num_ended >= episodes:
            return
        action = policy.action(time_step).action
        previous, time_step = time_step, env.step(action)
        check(time_step, previous, f"step() number {count}")
        num_ended += int(np.sum(previous.is_last()))
    if num_ended < episodes:
        _log.warning(
            "%s ended %d of %d episodes within %d steps of random actions; nothing "
            "wrong was found until then.",
            type(env).__name__,
            num_ended,
            episodes,
            _MAX_STEPS * episodes,
        )
