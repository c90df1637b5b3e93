"""What the environments of the drill say, as pure functions of where a row is.

The environments compute it where they live, and the checker computes it again.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from parallel_envs.specs import array_spec, nest

Structure = Literal["plain", "nest", "variable"]
STRUCTURES: tuple[Structure, ...] = ("plain", "nest", "variable")

MAX_NUMBER = 2**18
MAX_LENGTH = 12


class Who(NamedTuple):
    """Where a row is.

    Attributes:
        row: Its number in the batch.
        life: How many environments its constructor had begun to make before this one.
        episode: How often this environment had been reset before.
        t: Steps since.
        seed: What its `seed` was last given; -1 for nothing.
    """

    row: int
    life: int
    episode: int
    t: int
    seed: int


def reward_of(who: Who) -> np.float32:
    """Returns the reward of the step that led there; never 0."""
    return np.float32(1 + _hash("reward", who) % 1000)


def discount_of(who: Who, is_last: bool) -> np.float32:
    """Returns the discount that comes with it; never 1."""
    if is_last:
        return np.float32(0.0)
    return np.float32((1 + _hash("discount", who) % 3) / 4)


def length_of(who: Who) -> int:
    """Returns the number of steps in the episode, of which the last is LAST."""
    return 1 + _hash("length", who._replace(t=0)) % MAX_LENGTH


def action_spec(structure: Structure) -> nest.Nest:
    """Returns the spec of a row's action, and of what the row says it was given."""
    number = array_spec.BoundedArraySpec((), np.int64, 0, MAX_NUMBER, "number")
    if structure == "plain":
        return number
    arms = array_spec.ArraySpec((2,), np.float32, "arms")
    if structure == "nest":
        return {"number": number, "arms": (arms,)}
    tail = array_spec.ArraySpec((None,), np.float32, "tail")
    return {"number": number, "arms": (arms,), "tail": tail}


def observation_spec(structure: Structure) -> nest.Nest:
    """Returns the spec of a row's observation."""
    who = array_spec.ArraySpec((len(Who._fields),), np.int64, "who")
    return {"who": who, "heard": action_spec(structure)}


def actions_of(structure: Structure, numbers: Sequence[int]) -> nest.Nest:
    """Returns a batch of actions, each made of one number."""
    return stacked(structure, [_action_of(structure, number) for number in numbers])


def action_of_row(structure: Structure, actions: Any, row: int) -> Any:
    """Returns one action of a batch."""
    if structure == "plain":
        return actions[row]
    action = {"number": actions["number"][row], "arms": (actions["arms"][0][row],)}
    return action if structure == "nest" else {**action, "tail": actions["tail"][row]}


def stacked(structure: Structure, actions: Sequence[Any]) -> nest.Nest:
    """Returns a batch of some actions."""
    if structure == "plain":
        return np.array(actions, np.int64)
    batch: dict[str, Any] = {
        "number": np.array([action["number"] for action in actions], np.int64),
        "arms": (np.stack([action["arms"][0] for action in actions]),),
    }
    if structure == "variable":
        batch["tail"] = [np.array(action["tail"]) for action in actions]
    return batch


def frozen_action(structure: Structure, number: int) -> Any:
    """Returns the action made of a number as what `frozen` returns of it."""
    return frozen(_action_of(structure, number))


def frozen(value: Any) -> Any:
    """Returns a nest as values that can be compared, to the bit."""
    if isinstance(value, dict):
        items: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return {name: frozen(item) for name, item in items.items()}
    if isinstance(value, tuple):
        return tuple(frozen(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    array: npt.NDArray[Any] = np.asarray(value)
    return array.dtype.str, array.shape, array.tobytes()


def _action_of(structure: Structure, number: int) -> nest.Nest:
    if structure == "plain":
        return np.int64(number)
    action: dict[str, Any] = {
        "number": np.int64(number),
        "arms": (np.array([number / 4, -number], np.float32),),
    }
    if structure == "variable":
        action["tail"] = np.full(number % 4, number, np.float32)
    return action


def _hash(what: str, who: Who) -> int:
    return zlib.crc32(repr((what, *who[:4])).encode())
