"""Arguments that several wrappers have."""

from __future__ import annotations

import operator
from typing import Any

from parallel_envs import py_environment


def count(name: str, value: Any, unit: str) -> int:
    """Returns `value`, a number of things of which there has to be one at least.

    Args:
        name: The argument, as errors begin.
        value: What was given for it.
        unit: What is counted, for example "step".

    Raises:
        TypeError: If it is no integer.
        ValueError: If it is below 1.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name}: expected a number of {unit}s, got {value!r}."
        ) from None
    if number < 1:
        raise ValueError(f"{name}: expected at least 1 {unit}, got {number}.")
    return number


def check_single(env: py_environment.PyEnvironment) -> None:
    """Checks that `env` is no batch.

    Raises:
        ValueError: If it is one.
    """
    if env.batched:
        raise ValueError(
            f"env: expected a single environment, got the batch {env!r}. Wrap the "
            "environments before they are batched."
        )
