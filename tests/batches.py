"""The implementations of a batch, for tests that run on every one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import parallel_envs as pe
from parallel_envs.batch.environment_batch import EnvironmentBatch
from parallel_envs.process import facilities

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
    "blocking sockets": _parallel(blocking=True, shared_memory=False),
}

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
