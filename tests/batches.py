"""The implementations of a batch, and kinds of rows, for tests that run on all."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import parallel_envs as pe
from parallel_envs.batch.environment_batch import EnvironmentBatch
from parallel_envs.process import facilities
from parallel_envs.testing import environments
from parallel_envs.testing.random_py_environment import RandomPyEnvironment

Constructors = Sequence[Callable[[], Any]]


def _here(constructors: Constructors, **options: Any) -> EnvironmentBatch:
    return pe.BatchedPyEnvironment([make() for make in constructors], **options)


def _parallel(**options: Any) -> Callable[[Constructors], EnvironmentBatch]:
    return lambda constructors: pe.ParallelPyEnvironment(constructors, **options)


def frozen(value: Any) -> Any:
    """Returns containers by their names and leaves as bytes, to be compared."""
    if hasattr(value, "tobytes"):
        if value.shape == ():  # Scalars of NumPy have this machine's order of bytes.
            value = value.astype(value.dtype.newbyteorder("="))
        return value.dtype.str, value.shape, value.tobytes()
    if hasattr(value, "items"):
        return type(value).__name__, [(k, frozen(v)) for k, v in value.items()]
    return type(value).__name__, [frozen(item) for item in value]


def _portable(constructors: Constructors) -> EnvironmentBatch:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(facilities.VARIABLE, "1")
        return pe.ParallelPyEnvironment(constructors, num_workers=2)


# Every way in which values and wishes travel.
MODES: dict[str, Callable[[Constructors], EnvironmentBatch]] = {
    "batched": _here,
    "batched with threads": lambda constructors: _here(
        constructors, multithreading=True
    ),
    "no workers": _parallel(num_workers=0),
    "a worker each": _parallel(),
    "two workers": _parallel(num_workers=2),
    "sockets": _parallel(shared_memory=False, num_workers=2),
    "portable": _portable,
    "blocking": _parallel(blocking=True),
}

# Those in which rows travel by ways of their own.
FEW = ["batched", "a worker each", "two workers", "sockets", "portable"]

# The other options, which change how workers start or nothing at all.
STARTS: dict[str, Callable[[Constructors], EnvironmentBatch]] = {
    "all at once": _parallel(start_serially=False),
    "flatten": _parallel(flatten=True),
    "forkserver": _parallel(context="forkserver", preload=["json"]),
    "spawn": _parallel(context="spawn", num_workers=2),
    "fork": _parallel(context="fork"),
    "unchecked": _parallel(validate=False),
    "everything": _parallel(
        start_serially=False,
        blocking=True,
        flatten=True,
        num_workers=1,
        shared_memory=False,
        context="spawn",
        validate=False,
    ),
}


class Tree(environments.Nested):
    """A nested environment with a variable leaf, whose action shows in what follows."""

    def observation_spec(self) -> Any:
        spec = super().observation_spec()
        return {**spec, "seen": pe.ArraySpec((None, 2), np.float32)}

    def _observation(self) -> Any:
        action = self.last_action or {"move": np.zeros(2), "jump": False}
        moved = np.tile(np.asarray(action["move"], np.float32), (self.t, 1))
        goal = np.int32(self.episode * 2 + int(action["jump"]))
        return {**super()._observation(), "goal": goal, "seen": moved.reshape(-1, 2)}


def random_rows(batch_size: int) -> Any:
    """Returns batched rows that end at random."""
    return RandomPyEnvironment(
        {"x": pe.BoundedArraySpec((2,), np.float32, -1, 1)},
        pe.BoundedArraySpec((), np.int32, 0, 3),
        episode_end_probability=0.3,
        batch_size=batch_size,
        seed=0,
    )


# Every kind of rows.
KINDS: dict[str, list[Callable[[], Any]]] = {
    "drawing": [functools.partial(environments.Drawing, i) for i in range(4)],
    "tree": [functools.partial(Tree, i, length=2 + i) for i in range(3)],
    "image": [functools.partial(environments.Image, i) for i in range(2)],
    "batched": [functools.partial(random_rows, count) for count in (2, 3)],
}
