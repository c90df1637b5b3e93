"""The Arcade Learning Environment's emulator: found, set up, seeded, looked at.

Nothing is imported for it: whoever hands over an emulator has imported `ale_py`.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from parallel_envs.wrappers import area_resize

_LOGGER = logging.getLogger(__name__)

# Checks of Gymnasium's, and the adapter that a constructor may have put around.
_WITHOUT_EFFECT_ANYWAY = frozenset(
    {"GymnasiumEnvironment", "OrderEnforcing", "PassiveEnvChecker"}
)


class Emulator(Protocol):
    """What is used of `ale_py.ALEInterface`, 0.10 or later."""

    def act(self, action: Any, strength: float, /) -> int: ...
    def reset_game(self) -> None: ...
    def game_over(self, *, with_truncation: bool = True) -> bool: ...
    def lives(self) -> int: ...
    def getEpisodeFrameNumber(self) -> int: ...  # noqa: N802
    def getFrameNumber(self) -> int: ...  # noqa: N802
    def getLegalActionSet(self) -> list[Any]: ...  # noqa: N802
    def getMinimalActionSet(self) -> list[Any]: ...  # noqa: N802
    def getScreenDims(self) -> tuple[int, int]: ...  # noqa: N802
    def getScreenGrayscale(self, out: npt.NDArray[np.uint8], /) -> None: ...  # noqa: N802
    def getScreenRGB(self) -> npt.NDArray[np.uint8]: ...  # noqa: N802
    def cloneState(self, *, include_rng: bool = False) -> Any: ...  # noqa: N802
    def restoreState(self, state: Any, /) -> None: ...  # noqa: N802
    def loadROM(self, path: str, /) -> None: ...  # noqa: N802
    def setMode(self, mode: int, /) -> None: ...  # noqa: N802
    def setDifficulty(self, difficulty: int, /) -> None: ...  # noqa: N802
    def getInt(self, key: str, /) -> int: ...  # noqa: N802
    def getFloat(self, key: str, /) -> float: ...  # noqa: N802
    def getString(self, key: str, /) -> str: ...  # noqa: N802
    def setInt(self, key: str, value: int, /) -> None: ...  # noqa: N802
    def setFloat(self, key: str, value: float, /) -> None: ...  # noqa: N802


def find(env: Any) -> Emulator:
    """Returns the emulator that `env` is, or is around.

    Raises:
        TypeError: If there is none.
        ValueError: If it has no game loaded, in which case anything asked of it would
            end the process.
    """
    inside = getattr(env, "unwrapped", env)
    ale = getattr(inside, "ale", inside)
    if not (hasattr(ale, "getScreenGrayscale") and hasattr(ale, "loadROM")):
        raise TypeError(
            "env: expected an ALEInterface of ale_py or an environment around one, as "
            f"gymnasium.make('ALE/Pong-v5') is, got {env!r}."
        )
    if not ale.getString("rom_file"):
        raise ValueError(
            "env: expected an ALEInterface with a game, got one without. Call "
            "ale.loadROM(ale_py.roms.get_rom_path('pong')) before."
        )
    return ale


def warn_of_layers(env: Any) -> None:
    """Logs which layers around the emulator have no effect, as nobody steps them."""
    names: list[str] = []
    inside = getattr(env, "unwrapped", env)
    while env is not inside and env is not None:
        if type(env).__name__ not in _WITHOUT_EFFECT_ANYWAY:
            names.append(type(env).__name__)
        own: dict[str, Any] = getattr(env, "__dict__", {})
        env = own.get("env", own.get("_env"))
    if names:
        _LOGGER.warning(
            "AtariPreprocessing drives the emulator itself: %s inside of it will have "
            "no effect. Put around it what should have one.",
            ", ".join(names),
        )


def set_up(
    ale: Emulator, repeat_action_probability: float, max_episode_frames: int
) -> None:
    """Has `ale` play single frames with these settings, and loads its game anew for it.

    Loading takes a tenth of a second, so it is left out where all is as it should be.

    Args:
        ale: The emulator.
        repeat_action_probability: In [0, 1].
        max_episode_frames: Frames after which a game is cut; 0 for no limit.
    """
    integers = {"frame_skip": 1, "max_num_frames_per_episode": max_episode_frames}
    probability = np.float32(repeat_action_probability)
    if probability == ale.getFloat("repeat_action_probability") and all(
        ale.getInt(key) == value for key, value in integers.items()
    ):
        return
    for key, value in integers.items():
        ale.setInt(key, value)
    ale.setFloat("repeat_action_probability", float(probability))
    _load_again(ale)


def seed(ale: Emulator, seeds: np.random.SeedSequence) -> np.random.Generator:
    """Seeds `ale`, and returns a generator for what is random around it.

    Both are what Gymnasium's environment makes of the same seed, in `reset(seed=...)`.
    """
    outside, inside = seeds.generate_state(2)
    ale.setInt("random_seed", int(inside.astype(np.int32)))
    _load_again(ale)
    return np.random.default_rng(int(outside))


def actions(ale: Emulator, is_full_set: bool) -> list[Any]:
    """Returns what `act` takes: all 18, or those that the game uses; NOOP is first."""
    return list(ale.getLegalActionSet() if is_full_set else ale.getMinimalActionSet())


class Screen:
    """The emulator's grey screen, made smaller.

    A sprite that the console draws in every other frame is in one of two frames that
    follow each other, so a picture has the brighter one of each pixel.
    """

    def __init__(self, ale: Emulator, shape: tuple[int, int]) -> None:
        """Keeps the memory for two frames.

        Args:
            ale: The emulator, with its game loaded.
            shape: Height and width of the pictures.

        Raises:
            ValueError: If the screen is smaller.
        """
        self._ale = ale
        self._shape = shape
        old_shape = ale.getScreenDims()
        if shape[0] > old_shape[0] or shape[1] > old_shape[1]:
            raise ValueError(
                f"screen_size: expected at most the screen, {old_shape}, got {shape}."
            )
        self._frames = np.empty((2, *old_shape), np.uint8)
        self._even, self._odd = self._frames
        self._resize = area_resize.AreaResize(old_shape, shape)

    def keep(self) -> None:
        """Keeps the present frame, the first of two."""
        self._ale.getScreenGrayscale(self._even)

    def two_frames(self) -> npt.NDArray[np.uint8]:
        """Returns the picture of the frame that was kept and the present one."""
        self._ale.getScreenGrayscale(self._odd)
        np.maximum(self._even, self._odd, out=self._odd)
        return self._picture(self._odd)

    def one_frame(self) -> npt.NDArray[np.uint8]:
        """Returns the picture of the present frame alone."""
        self._ale.getScreenGrayscale(self._odd)
        return self._picture(self._odd)

    def _picture(self, frame: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        picture = np.empty(self._shape, np.uint8)
        self._resize(frame, picture)
        return picture


def _load_again(ale: Emulator) -> None:
    # Settings count from the loading of a game on, which forgets mode and difficulty.
    state = ale.cloneState()
    ale.loadROM(ale.getString("rom_file"))
    ale.setMode(state.getCurrentMode())
    ale.setDifficulty(state.getDifficulty())
