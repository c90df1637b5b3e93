"""A limit on the length of games that have several lives."""

from __future__ import annotations

from typing import Any

from parallel_envs import py_environment
from parallel_envs import time_step as ts
from parallel_envs.wrappers import arguments, base

Nest = Any


class AtariTimeLimit(base.PyEnvironmentBaseWrapper):
    """Ends games after `duration` steps, as truncations, whatever their lives.

    Where each life is an episode (`terminal_on_life_loss`), the steps are counted on
    over the lives of a game; `TimeLimit` would count those of each life. The step at
    the limit becomes LAST and keeps its reward and discount; the reset after it starts
    a new game. `AtariPreprocessing` has a limit of its own, in frames.
    """

    def __init__(
        self,
        env: py_environment.PyEnvironment,
        duration: int,
        handle_auto_reset: bool | None = None,
    ) -> None:
        """Limits the games of `env`.

        Args:
            env: `AtariPreprocessing`, with any wrappers.
            duration: Steps of a game, at least 1.
            handle_auto_reset: As in `PyEnvironmentBaseWrapper`.

        Raises:
            TypeError: If `env` is something else, or `duration` is no integer.
            ValueError: If `duration` is below 1, or `env` is batched.
        """
        super().__init__(env, handle_auto_reset)
        self._duration = arguments.count("duration", duration, "step")
        arguments.check_single(env)
        _check_is_game(env)
        self._game: Any = env  # Wrappers in between hand on what is asked of it.
        self._num_steps = 0

    @property
    def duration(self) -> int:
        """Steps at which a game ends at the latest."""
        return self._duration

    @property
    def game_over(self) -> bool:
        """Whether the game is over, or cut; a lost life is not."""
        return self._is_cut() or self._game.game_over

    def get_state(self) -> tuple[Any, int, ts.TimeStep | None]:
        """Returns the state of the environment inside, and the count."""
        return self._env.get_state(), self._num_steps, self._current_time_step

    def set_state(self, state: tuple[Any, int, ts.TimeStep | None]) -> None:
        inside, self._num_steps, self._current_time_step = state
        self._env.set_state(inside)

    def _reset(self) -> ts.TimeStep:
        if self._is_cut():
            self._game.end_game()
        if not self._game.goes_on:
            self._num_steps = 0
        return self._env.reset()

    def _step(self, action: Nest) -> ts.TimeStep:
        time_step = self._env.step(action)
        self._num_steps += 1
        if self._is_cut():
            return time_step._replace(step_type=ts.StepType.LAST)
        return time_step

    def _is_cut(self) -> bool:
        return self._num_steps >= self._duration


def _check_is_game(env: Any) -> None:
    if not hasattr(env, "goes_on"):
        raise TypeError(
            "env: expected AtariPreprocessing, which says whether a reset goes on with "
            f"a game, got {env!r}. Other environments have TimeLimit."
        )
