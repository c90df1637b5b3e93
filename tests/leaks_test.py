"""Nothing is left behind, whatever happens to a batch and however it is ended."""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import os
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs.testing import environments

KINDS: list[Callable[..., Any]] = [
    environments.Counting,
    environments.Image,
    environments.VariableSize,
    environments.RaisingInConstructor,
    environments.RaisingInReset,
    environments.RaisingInStep,
    environments.RaisingSystemExit,
    environments.Exiting,
    environments.Dying,
    environments.WrongReward,
]
ENDS = ["with", "exception", "close", "close twice", "drop", "drop in a cycle"]


class LeftError(Exception):
    """Leaves a with block."""


@pytest.mark.parametrize("seed", range(100))
def test_nothing_is_left_behind(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randint(1, 3)
    kind = chance.choice(KINDS)
    usual = environments.Counting if is_vector(kind) else kind
    constructors = [functools.partial(usual, i) for i in range(count - 1)]
    constructors.insert(chance.randrange(count), functools.partial(kind, 7))
    options = random_options(chance, in_process=not ends_its_process(kind))
    num_steps = chance.randrange(5)
    end = chance.choice(ENDS)
    before = possessions()

    with contextlib.suppress(pe.WorkerError, LeftError):
        use(lambda: pe.ParallelPyEnvironment(constructors, **options), num_steps, end)

    # Not equal: a fork ends the idle threads of OpenBLAS.
    more = possessions() - before
    assert not more, (kind.__name__, count, options, num_steps, end)


def is_vector(kind: Callable[..., Any]) -> bool:
    """Returns whether observations are as those of `Counting`."""
    return kind not in (environments.Image, environments.VariableSize)


def ends_its_process(kind: Callable[..., Any]) -> bool:
    return kind in (environments.Exiting, environments.Dying)


def random_options(chance: random.Random, *, in_process: bool) -> dict[str, Any]:
    contexts = [None, "forkserver", "forkserver", "fork", "fork", "spawn"]
    options: dict[str, Any] = {
        "start_serially": chance.random() < 0.5,
        "blocking": chance.random() < 0.3,
        "shared_memory": chance.random() < 0.7,
        "validate": chance.random() < 0.9,
    }
    if in_process and chance.random() < 0.1:
        return {**options, "num_workers": 0}
    num_workers = chance.choice([None, None, 1, 2])
    return {**options, "num_workers": num_workers, "context": chance.choice(contexts)}


def use(make: Callable[[], Any], num_steps: int, end: str) -> None:
    """Steps a batch, resetting it once where it fails, and ends it."""
    if end in ("with", "exception"):
        with make() as env:
            step(env, num_steps)
            if end == "exception":
                raise LeftError
        return
    env = make()
    step(env, num_steps)
    env.envs[0].call("get_info")  # A promise that nobody calls.
    if end.startswith("close"):
        env.close()
    if end == "close twice":
        env.close()
    if end == "drop in a cycle":
        env.itself = env


def step(env: Any, num_steps: int) -> None:
    actions = np.zeros(env.batch_size, np.int64)
    try:
        env.reset()
        for _ in range(num_steps):
            env.step(actions)
    except pe.WorkerError:
        env.reset()


def possessions() -> collections.Counter[str]:
    """Returns what this process holds of the system, with the number of each."""
    gc.collect()
    gc.collect()  # What a finalizer held until it ran is garbage of the next round.
    folders = ["/proc/self/fd", "/dev/shm"]
    held = [
        f"{folder}/{name}"
        for folder in folders
        for name in os.listdir(folder)
        # Of other programs: nothing here uses multiprocessing.
        if not name.startswith(("sem.mp-", "psm_"))
    ]
    return collections.Counter(
        {
            **dict.fromkeys(held, 1),
            "thread": len(os.listdir("/proc/self/task")),
            "thread of Python": threading.active_count(),
            "child process": int(has_child()),
        }
    )


def has_child() -> bool:
    """Returns whether there is a child process, running or not waited for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
