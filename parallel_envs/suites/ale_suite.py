"""Atari games of the Arcade Learning Environment, by their names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from parallel_envs import py_environment, wrappers
from parallel_envs.adapters import extras
from parallel_envs.suites import nearest

try:
    import ale_py
    from ale_py import roms
except ModuleNotFoundError as error:
    if error.name != "ale_py":
        raise
    raise extras.missing("ale_py", extra="atari") from error


@dataclasses.dataclass(frozen=True)
class AtariConstructor:
    """Makes an Atari game, preprocessed and stacked.

    Attributes:
        rom: Id of the game's ROM, which comes with `ale_py`.
        kwargs: Arguments of `make`.
    """

    rom: str
    kwargs: Mapping[str, Any] = dataclasses.field(hash=False)

    def __call__(self) -> py_environment.PyEnvironment:
        """Returns the environment; errors are those of `make`."""
        return make(self.rom, **self.kwargs)


def constructor(game: str, kwargs: Mapping[str, Any]) -> AtariConstructor:
    """Returns the constructor of the game called `game`.

    Args:
        game: "Pong" or "SpaceInvaders", as in the names of Gymnasium's environments.
        kwargs: Arguments of `make`.

    Raises:
        ValueError: If there is no such game. Says which names are nearest.
    """
    known = {_game_name(rom): rom for rom in roms.get_all_rom_ids()}
    if game not in known:
        raise ValueError(
            f"name: there is no game {game!r} in ale_py{nearest.hint(game, known)}."
        )
    return AtariConstructor(known[game], dict(kwargs))


def make(
    rom: str,
    *,
    num_frames: int = 4,
    stack_axis: int = -1,
    fire_on_reset: bool = False,
    mode: int | None = None,
    difficulty: int | None = None,
    **preprocessing: Any,
) -> py_environment.PyEnvironment:
    """Returns a game, its observations uint8 `[84, 84, num_frames]`.

    Args:
        rom: Id of the ROM, for example "space_invaders".
        num_frames: Observations in each stack; see `wrappers.FrameStack`.
        stack_axis: Likewise.
        fire_on_reset: Whether episodes begin with `wrappers.FireOnReset`.
        mode: Of the game, of those that the emulator knows; None for its first.
        difficulty: Likewise.
        **preprocessing: Arguments of `wrappers.AtariPreprocessing`, `protocol` above
            all.
    """
    env: py_environment.PyEnvironment = wrappers.AtariPreprocessing(
        _emulator(rom, mode, difficulty), **preprocessing
    )
    if fire_on_reset:
        env = wrappers.FireOnReset(env)
    return wrappers.FrameStack(env, num_frames, stack_axis)


def _game_name(rom: str) -> str:
    return "".join(word.capitalize() for word in rom.split("_"))


def _emulator(rom: str, mode: int | None, difficulty: int | None) -> Any:
    """Returns an emulator as the default protocol wants it, so that it loads once."""
    library: Any = ale_py  # Its annotations name a module that it does not have.
    # A new one greets on standard error, and so does each game. Gymnasium's environment
    # sets this too, for all of the process.
    library.ALEInterface.setLoggerMode(library.LoggerMode.Error)
    ale = library.ALEInterface()
    (entropy,) = np.random.SeedSequence().generate_state(1).astype(np.int32)
    ale.setInt("random_seed", int(entropy))
    ale.setFloat("repeat_action_probability", 0.25)
    ale.setInt("max_num_frames_per_episode", 108_000)
    ale.loadROM(roms.get_rom_path(rom))
    if mode is not None:
        ale.setMode(mode)
    if difficulty is not None:
        ale.setDifficulty(difficulty)
    return ale
