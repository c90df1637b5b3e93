"""The form that every contestant is brought into, so that one loop measures all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, cast


class UnsuitedError(Exception):
    """A contestant cannot do what is asked of it; the message says why."""


def unchanged(actions: Any) -> Any:
    """Returns what it is given."""
    return actions


@dataclasses.dataclass(frozen=True)
class Vector:
    """Environments that step as a batch.

    Attributes:
        reset: Begins an episode in every row.
        step: Takes a batch of actions, steps, and reads what came with `read`.
        close: Ends it.
        num_workers: Processes that the rows are spread over; 0 if they are in this one.
        as_actions: Turns a nest of arrays `[B, ...]` into actions for `step`; it runs
            outside of what is measured.
    """

    reset: Callable[[], object]
    step: Callable[[Any], object]
    close: Callable[[], object]
    num_workers: int
    as_actions: Callable[[Any], Any] = unchanged


def read(observation: Any) -> list[Any]:
    """Returns one element of every row of a batched observation.

    Of a nest it is the first leaf that is read. So what a contestant leaves undone
    until somebody looks is done, and counted.
    """
    leaf = first_leaf(observation)
    return leaf[(slice(None), *(0,) * (leaf.ndim - 1))].tolist()


def first_leaf(observation: Any) -> Any:
    """Returns the first array of a nest, keys of dicts being sorted."""
    value = observation
    while isinstance(value, (dict, tuple, list)):
        value = _first_branch(cast("Any", value))
    return value


def _first_branch(branches: Any) -> Any:
    return branches[min(branches) if hasattr(branches, "keys") else 0]
