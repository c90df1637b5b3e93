"""Atari games as agents are trained on them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs import py_environment
from parallel_envs import time_step as ts
from parallel_envs.specs import array_spec
from parallel_envs.wrappers import arguments, atari_emulator, atari_protocols


class AtariPreprocessing(py_environment.PyEnvironment):
    """An Atari game in steps of several frames, seen as small grey pictures.

    The action is held for `frame_skip` frames, whose rewards are added. Of the last two
    of them the observation has the brighter pixels, as uint8 `[screen_size,
    screen_size]`, each the mean of its area. It is the caller's own; `FrameStack` makes
    four of them one, as the papers do. An episode that ends before the action was held
    to its end shows its very last frame only.

    The end of a game is LAST with discount 0; being cut by `max_episode_frames` is LAST
    with discount 1. With `terminal_on_life_loss` the loss of a life is LAST with
    discount 0 too, but the game goes on: the reset after it only looks at the screen,
    and returns it as FIRST. A reset at any other time starts a new game. (So it is in
    Dopamine; TF-Agents has `AtariTimeLimit` for it.)

    The emulator is driven directly, past the `step` of the environment around it:
    wrappers inside of this one have no effect, of which a warning is logged, nor has
    its own frame skip. It is set up as asked for here, whatever it was made with, by
    loading its game once more if need be; mode and difficulty are kept.
    """

    def __init__(
        self,
        env: Any,
        frame_skip: int = 4,
        terminal_on_life_loss: bool | None = None,
        screen_size: int = 84,
        *,
        protocol: str = "machado2018",
        repeat_action_probability: float | None = None,
        full_action_set: bool | None = None,
        noop_max: int | None = None,
        clip_rewards: bool | None = None,
        max_episode_frames: int | None = 108_000,
    ) -> None:
        """Sets the emulator up.

        What is None is as `protocol` says: "machado2018" or "dqn2015", see
        `atari_protocols`.

        Args:
            env: An `ale_py.ALEInterface` with its game loaded; or an environment around
                one, of Gymnasium (`gymnasium.make("ALE/Pong-v5")`), also adapted, which
                `close` then closes.
            frame_skip: Frames for each step, at least 1. With 1, observations are
                single frames.
            terminal_on_life_loss: Whether an episode ends with each life.
            screen_size: Height and width of observations, at most those of the screen.
            protocol: Name of what the arguments below, and the one above, default to.
            repeat_action_probability: That of a frame repeating the action of the frame
                before ("sticky actions").
            full_action_set: Whether there are 18 actions, or those the game uses.
            noop_max: A game starts with 1 to this many frames of doing nothing, or
                with none for 0.
            clip_rewards: Whether the sum of a step's rewards becomes -1, 0 or 1.
            max_episode_frames: Frames of a game, those of the start among them, after
                which it is cut; None for no limit. By default half an hour of play.

        Raises:
            TypeError: If `env` is something else, or a number is no integer.
            ValueError: If an argument is out of range, or `env` has no game loaded.
        """
        super().__init__()
        self._protocol = atari_protocols.chosen(
            protocol,
            repeat_action_probability=repeat_action_probability,
            full_action_set=full_action_set,
            terminal_on_life_loss=terminal_on_life_loss,
            noop_max=noop_max,
            clip_rewards=clip_rewards,
        )
        frame_skip = arguments.count("frame_skip", frame_skip, "frame")
        if max_episode_frames is not None:
            arguments.count("max_episode_frames", max_episode_frames, "frame")
        self._env = env
        self._ale = ale = atari_emulator.find(env)
        atari_emulator.warn_of_layers(env)
        size = arguments.count("screen_size", screen_size, "pixel")
        self._screen = atari_emulator.Screen(ale, (size, size))
        self._countdown = range(frame_skip - 1, -1, -1)
        is_single = frame_skip == 1
        self._observe = self._screen.one_frame if is_single else self._screen.two_frames
        self._ends_with_lives = self._protocol.terminal_on_life_loss
        self._clips = self._protocol.clip_rewards
        self._observation_spec = array_spec.BoundedArraySpec(
            (size, size), np.uint8, 0, 255, "observation"
        )
        atari_emulator.set_up(
            ale, self._protocol.repeat_action_probability, max_episode_frames or 0
        )
        self._actions = atari_emulator.actions(ale, self._protocol.full_action_set)
        self._generator = np.random.default_rng()
        self._seeds: np.random.SeedSequence | None = None
        self._lives = 0
        self._is_life_lost = False

    @property
    def ale(self) -> atari_emulator.Emulator:
        """The emulator."""
        return self._ale

    def observation_spec(self) -> array_spec.BoundedArraySpec:
        return self._observation_spec

    def action_spec(self) -> array_spec.BoundedArraySpec:
        last = len(self._actions) - 1
        return array_spec.BoundedArraySpec((), np.int64, 0, last, "action")

    def get_action_meanings(self) -> list[str]:
        """Returns what each action does, "NOOP" and "FIRE" among them."""
        return [action.name for action in self._actions]

    @property
    def game_over(self) -> bool:
        """Whether the game is over, or cut; a lost life is not."""
        return self._ale.game_over()

    @property
    def goes_on(self) -> bool:
        """Whether a reset would go on with the game, as it does after a lost life."""
        return self._is_life_lost

    def end_game(self) -> None:
        """Has the next reset start a new game, after a lost life too."""
        self._is_life_lost = False

    def seed(self, seed: int | None) -> int | None:
        """Seeds the next reset, which then starts a new game.

        The games are those that Gymnasium's `AtariPreprocessing` plays after its
        `reset(seed=seed)`, given the same settings and actions.

        Args:
            seed: At least 0. None takes back a seed that no reset has used yet.

        Returns:
            The seed.
        """
        self._seeds = None
        if seed is not None:
            self._seeds = np.random.SeedSequence(operator.index(seed))
            self.end_game()
        return seed

    def render(self, mode: str = "rgb_array") -> npt.NDArray[np.uint8]:
        """Returns the emulator's screen in color, uint8 `[210, 160, 3]` for most games.

        After `set_state` it is that of before, until the next step.

        Raises:
            NotImplementedError: If `mode` is not "rgb_array".
        """
        if mode != "rgb_array":
            raise NotImplementedError(
                f"render: expected mode 'rgb_array', got {mode!r}. Make the emulator "
                "with render_mode='human' to watch it."
            )
        return self._ale.getScreenRGB()

    def get_info(self) -> dict[str, int]:
        """Returns `lives`, `episode_frame_number` and `frame_number`, as they are now.

        The frames of an episode are those of the game, counted over all its lives.
        """
        return {
            "lives": self._ale.lives(),
            "episode_frame_number": self._ale.getEpisodeFrameNumber(),
            "frame_number": self._ale.getFrameNumber(),
        }

    def get_state(self) -> dict[str, Any]:
        """Returns all that the future depends on, random generators too; it pickles."""
        return {
            "emulator": self._ale.cloneState(include_rng=True),
            "generator": self._generator.bit_generator.state,
            "seeds": self._seeds,
            "lives": self._lives,
            "is_life_lost": self._is_life_lost,
            "time_step": self._current_time_step,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Comes back to a state of this game, also one that another object was in."""
        self._ale.restoreState(state["emulator"])
        self._generator.bit_generator.state = state["generator"]
        self._seeds = state["seeds"]
        self._lives = state["lives"]
        self._is_life_lost = state["is_life_lost"]
        self._current_time_step = state["time_step"]

    def close(self) -> None:
        close = getattr(self._env, "close", None)
        if close is not None:  # An emulator has none.
            close()

    def _reset(self) -> ts.TimeStep:
        if not self._is_life_lost:
            self._start_game()
        self._is_life_lost = False
        self._lives = self._ale.lives()
        return ts.restart(self._screen.one_frame())

    def _start_game(self) -> None:
        if self._seeds is not None:
            self._generator = atari_emulator.seed(self._ale, self._seeds)
            self._seeds = None
        self._ale.reset_game()
        noop, noop_max = self._actions[0], self._protocol.noop_max
        num_noops = self._generator.integers(1, noop_max + 1) if noop_max else 0
        for _ in range(num_noops):
            self._ale.act(noop, _STRENGTH)
            if self._ale.game_over():
                self._ale.reset_game()

    def _step(self, action: Any) -> ts.TimeStep:
        ale, held = self._ale, self._actions[action]
        reward = 0
        for frames_left in self._countdown:
            reward += ale.act(held, _STRENGTH)
            if (self._ends_with_lives and self._loses_life()) or ale.game_over():
                return self._end(reward, frames_left)
            if frames_left == 1:
                self._screen.keep()
        return ts.transition(self._observe(), self._seen(reward))

    def _loses_life(self) -> bool:
        before, self._lives = self._lives, self._ale.lives()
        self._is_life_lost = self._lives < before
        return self._is_life_lost

    def _end(self, reward: int, frames_left: int) -> ts.TimeStep:
        observe = self._screen.one_frame if frames_left else self._observe
        is_over = self._is_life_lost or self._ale.game_over(with_truncation=False)
        if self._ale.game_over():
            self._is_life_lost = False  # The last one, or there is no time for more.
        make = ts.termination if is_over else ts.truncation
        return make(observe(), self._seen(reward))

    def _seen(self, reward: int) -> int:
        return (reward > 0) - (reward < 0) if self._clips else reward


# Of the paddle, which games with one multiply their moves by. Release 0.10.1 has an
# uninitialized number for a default.
_STRENGTH = 1.0
