"""What a run needs, made and ready to step."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, NamedTuple

import numpy as np

from parallel_envs import errors, py_policy, seeding
from parallel_envs import time_step as ts
from parallel_envs.cli import capacity, environments, policies, usage
from parallel_envs.cli.run_folder import RunFolder
from parallel_envs.cli.settings import Settings
from parallel_envs.cli.tally import Tally
from parallel_envs.parallel_py_environment import ParallelPyEnvironment
from parallel_envs.replay import ReplayBuffer


class Equipment(NamedTuple):
    """The parts of a run.

    Attributes:
        env: The environments, reset.
        time_step: Where they stand.
        policy: What chooses actions.
        buffer: The replay, with what an earlier part of the run has put in.
        replay_description: What the buffer will keep, in words.
        tally: The counts that go with it.
    """

    env: ParallelPyEnvironment
    time_step: ts.TimeStep
    policy: py_policy.PyPolicy
    buffer: ReplayBuffer
    replay_description: str
    tally: Tally


def start(
    settings: Settings,
    folder: RunFolder,
    constructor: environments.Constructor,
    maker: policies.Maker,
    stack: contextlib.ExitStack,
) -> Equipment:
    """Returns the parts of a run; `stack` closes them.

    Raises:
        UsageError: If the environment's name or a setting is wrong.
        RunError: If what was saved cannot be read.
        WorkerError: If an environment cannot be made or reset.
    """
    env = stack.enter_context(environments.start(constructor, settings))
    *env_seeds, policy_seed = _seeds(settings, folder)
    if settings.seed is not None:
        _seed(env, env_seeds)
    policy = policies.make(maker, settings.policy, env, policy_seed)
    buffer, description = _new_buffer(settings, env, policy)
    stack.callback(buffer.close)
    tally = Tally(settings.num_envs)
    if folder.config is not None:
        with warnings.catch_warnings():
            # More steps were asked for than before, so the capacity is another one.
            warnings.filterwarnings("ignore", "The buffer was saved with")
            tally.restore(folder.load(buffer))
    return Equipment(env, env.reset(), policy, buffer, description, tally)


def _seeds(settings: Settings, folder: RunFolder) -> list[Any]:
    """Returns a seed for each environment and one for the policy; or None for each."""
    count = settings.num_envs + 1
    if settings.seed is None:
        return [None] * count
    base = settings.seed
    if folder.num_steps:
        # Or the run would begin with the same episodes again.
        sequence = np.random.SeedSequence([base, folder.num_steps])
        base = int(sequence.generate_state(1)[0])
    return list(seeding.spread_seeds(base, count))


def _seed(env: ParallelPyEnvironment, seeds: list[Any]) -> None:
    try:
        env.seed(seeds)
    except errors.WorkerNotImplementedError:
        usage.say("The environments have no seed(): --seed is for the policy only.")


def _new_buffer(
    settings: Settings, env: ParallelPyEnvironment, policy: py_policy.PyPolicy
) -> tuple[ReplayBuffer, str]:
    """Returns the buffer, and what it will keep in words."""
    row_bytes = capacity.row_bytes(env, policy)
    steps = capacity.steps_per_stream(settings, row_bytes)
    description = capacity.described(settings, row_bytes, steps)
    if env.batch_size != settings.num_envs:
        raise usage.UsageError(
            f"--env: expected single environments, got {env.batch_size} rows from "
            f"{settings.num_envs}; one that is a batch itself is not collected from."
        )
    return ReplayBuffer(steps, settings.num_envs, seed=settings.seed), description
