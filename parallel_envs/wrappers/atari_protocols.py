"""In what the published ways to play Atari games differ."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class AtariProtocol:
    """How a game starts and ends, and what the agent may do in it.

    Attributes:
        repeat_action_probability: That of a frame repeating the action of the frame
            before instead of the agent's ("sticky actions"), in [0, 1].
        full_action_set: Whether all 18 actions are there, or those the game uses.
        terminal_on_life_loss: Whether an episode ends with each life.
        noop_max: A game starts with 1 to this many frames of doing nothing, or with
            none for 0.
        clip_rewards: Whether rewards become -1, 0 or 1, by their sign.
    """

    repeat_action_probability: float
    full_action_set: bool
    terminal_on_life_loss: bool
    noop_max: int
    clip_rewards: bool


PROTOCOLS = {
    # Machado et al. (2018), "Revisiting the Arcade Learning Environment".
    "machado2018": AtariProtocol(
        repeat_action_probability=0.25,
        full_action_set=True,
        terminal_on_life_loss=False,
        noop_max=0,
        clip_rewards=False,
    ),
    # Mnih et al. (2015), "Human-level control through deep reinforcement learning".
    "dqn2015": AtariProtocol(
        repeat_action_probability=0.0,
        full_action_set=False,
        terminal_on_life_loss=True,
        noop_max=30,
        clip_rewards=True,
    ),
}


def chosen(name: str, **changes: Any) -> AtariProtocol:
    """Returns the protocol called `name` with those `changes` that are not None.

    Raises:
        ValueError: If there is no such protocol, or a value is out of range.
    """
    if name not in PROTOCOLS:
        known = ", ".join(map(repr, PROTOCOLS))
        raise ValueError(f"protocol: expected one of {known}, got {name!r}.")
    wanted = {key: value for key, value in changes.items() if value is not None}
    protocol = dataclasses.replace(PROTOCOLS[name], **wanted)
    if not 0.0 <= protocol.repeat_action_probability <= 1.0:
        raise ValueError(
            "repeat_action_probability: expected a number in [0, 1], got "
            f"{protocol.repeat_action_probability}."
        )
    if protocol.noop_max < 0:
        raise ValueError(f"noop_max: expected at least 0, got {protocol.noop_max}.")
    return protocol
