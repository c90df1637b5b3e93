"""Environments of Gymnasium, 0.29 and 1.x."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs import py_environment
from parallel_envs import time_step as ts
from parallel_envs.adapters import extras
from parallel_envs.specs import array_spec, nest

try:
    import gymnasium
except ModuleNotFoundError as error:
    if error.name != "gymnasium":
        raise
    raise extras.missing("gymnasium", extra="gymnasium") from error

from parallel_envs.adapters import gymnasium_spaces

Nest = nest.Nest


def from_gymnasium(
    env: gymnasium.Env[Any, Any], discount: float = 1.0
) -> GymnasiumEnvironment:
    """Returns an environment of Gymnasium as a `PyEnvironment`, which then owns it.

    Args:
        env: A single environment, with any wrappers but those that reset by themselves.
        discount: That of every step after FIRST but a termination, in [0, 1].

    Raises:
        TypeError: If `env` is something else, a vector environment too, or if one of
            its spaces has no form as arrays.
        ValueError: If it resets itself, or `discount` is out of range.
    """
    return GymnasiumEnvironment(env, discount)


class GymnasiumEnvironment(py_environment.PyEnvironment):
    """An environment of Gymnasium.

    `terminated` becomes LAST with discount 0, also if `truncated` is set as well;
    `truncated` alone LAST with the discount of any other step. The reward is float32
    of shape `()`; an environment with a `reward_space`, as MO-Gymnasium's, gives
    rewards of its shape. Spaces become specs as `gymnasium_spaces` describes.

    Observations get the dtype of their space where no value changes by it. The rest
    stays as it came, for the checks of a batch or of `validate_py_environment` to
    name. Public attributes that only the environment has, `unwrapped` and those of
    inner wrappers among them, are found through this object.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], discount: float = 1.0) -> None:
        """Adapts `env`; arguments and errors are those of `from_gymnasium`."""
        _check_single(env)
        if not 0.0 <= discount <= 1.0:
            raise ValueError(f"discount: expected a number in [0, 1], got {discount}.")
        super().__init__()
        self._env = env
        self._discount = float(discount)
        self._observations = gymnasium_spaces.adapt(
            env.observation_space, "observation"
        )
        self._actions = gymnasium_spaces.adapt(env.action_space, "action")
        self._read, self._write = self._observations.read, self._actions.write
        self._reward_shape = _reward_shape(env)
        # Where the reward is a vector, its shape is not that of a batch.
        self._outer_dims = () if self._reward_shape else None
        self._seed: int | None = None
        self._info: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        """Returns a public attribute of the environment or of its inner wrappers."""
        # `copy` and `pickle` ask for private names before there is an `_env`.
        if name.startswith("_"):
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}"
            )
        return _attribute(self._env, name)

    def wrapped_env(self) -> gymnasium.Env[Any, Any]:
        """Returns the environment of Gymnasium inside, with its wrappers."""
        return self._env

    def observation_spec(self) -> Nest:
        return self._observations.spec

    def action_spec(self) -> Nest:
        return self._actions.spec

    def reward_spec(self) -> Nest:
        return array_spec.ArraySpec(self._reward_shape, np.float32, "reward")

    def seed(self, seed: int | None) -> int | None:
        """Seeds the next reset; the resets after it go on with the same generators.

        Args:
            seed: Handed to the environment's `reset(seed=seed)`. None takes back a
                seed that no reset has used yet.

        Returns:
            The seed.
        """
        # Gymnasium takes Python's integers only.
        self._seed = None if seed is None else operator.index(seed)
        return self._seed

    def render(self, mode: str = "rgb_array") -> npt.NDArray[Any]:
        """Returns a picture, uint8 `[H, W, 3]`.

        Raises:
            NotImplementedError: If `mode` is not "rgb_array", or the environment was
                made for another: Gymnasium fixes it when an environment is made.
        """
        made_for = self._env.render_mode
        if mode != "rgb_array" or made_for != "rgb_array":
            raise NotImplementedError(
                f"render: expected mode 'rgb_array' of an environment made for it, got "
                f"mode {mode!r} of one made with render_mode={made_for!r}. Pass "
                "render_mode='rgb_array' to gymnasium.make."
            )
        return np.asarray(self._env.render())

    def get_info(self) -> dict[str, Any]:
        """Returns the info dict that came with the last step or reset."""
        return self._info

    def close(self) -> None:
        self._env.close()

    def _reset(self) -> ts.TimeStep:
        seed, self._seed = self._seed, None
        returned = self._env.reset(seed=seed)
        try:
            observation, self._info = returned
        except (TypeError, ValueError):
            raise _wrong("reset", "(observation, info)", returned) from None
        observation = self._read(observation)
        if self._reward_shape:
            return ts.restart(observation, reward_spec=self.reward_spec())
        return ts.restart(observation)

    def _step(self, action: Nest) -> ts.TimeStep:
        returned = self._env.step(self._write(action))
        try:
            observation, reward, terminated, truncated, self._info = returned
        except (TypeError, ValueError):
            expected = "(observation, reward, terminated, truncated, info)"
            raise _wrong("step", expected, returned) from None
        observation = self._read(observation)
        if self._reward_shape or not isinstance(reward, float):
            reward = self._checked_reward(reward)
        if terminated:
            return ts.termination(observation, reward, self._outer_dims)
        if truncated:
            return ts.truncation(observation, reward, self._discount, self._outer_dims)
        return ts.transition(observation, reward, self._discount, self._outer_dims)

    def _checked_reward(self, reward: Any) -> npt.NDArray[np.float32]:
        array = _numbers(reward)
        if array.shape != self._reward_shape:
            raise ValueError(
                f"reward: expected shape {self._reward_shape}, got {reward!r} of shape "
                f"{array.shape}. Give the environment an attribute reward_space, a "
                "Box, if its rewards are vectors."
            )
        return array


def _wrong(method: str, expected: str, returned: Any) -> TypeError:
    return TypeError(
        f"{method}: expected the environment to return {expected}, got "
        f"{returned!r:.200}."
    )


def _numbers(reward: Any) -> npt.NDArray[np.float32]:
    array = np.asarray(reward)
    # NumPy would make numbers of texts, dates, complex numbers and None too.
    is_object = array.dtype.kind == "O"
    if array.dtype.kind in "biuf" or (is_object and None not in array.flat):
        with contextlib.suppress(TypeError, ValueError):
            return array.astype(np.float32)
    raise ValueError(
        f"reward: expected a number, got {reward!r} of {type(reward)}. Let step() "
        "return a float."
    )


_SELF_RESETTING = frozenset({"Autoreset", "AutoResetWrapper"})  # In 1.x and in 0.29.


def _check_single(env: Any) -> None:
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise TypeError(
            f"env: expected a single environment of Gymnasium, got the vector "
            f"environment {env!r}. Give ParallelPyEnvironment the constructors of its "
            "environments instead."
        )
    if not isinstance(env, gymnasium.Env):
        raise TypeError(f"env: expected an environment of Gymnasium, got {env!r}.")
    for layer in _layers(env):
        if type(layer).__name__ in _SELF_RESETTING:
            raise ValueError(
                f"env: expected an environment that leaves resets to its caller, got "
                f"{env!r} with the wrapper {type(layer).__name__}. Take it off: step() "
                "resets after the end of an episode."
            )


def _layers(env: Any) -> Iterator[Any]:
    """Yields the wrappers, the outermost first, and the environment inside."""
    while _is_wrapper(env):
        yield env
        env = env.env
    yield env


def _is_wrapper(env: Any) -> bool:
    return isinstance(env, gymnasium.Wrapper)


def _reward_shape(env: gymnasium.Env[Any, Any]) -> tuple[int, ...]:
    try:
        space = _attribute(env, "reward_space")
    except AttributeError:
        return ()
    return tuple(space.shape)


def _attribute(env: gymnasium.Env[Any, Any], name: str) -> Any:
    """Returns an attribute of the outermost layer that has it."""
    *wrappers, inside = _layers(env)
    for wrapper in wrappers:
        # In 0.29 a wrapper's `__getattr__`, and so `get_wrapper_attr`, looks further
        # in and warns at each layer.
        with contextlib.suppress(AttributeError):
            return object.__getattribute__(wrapper, name)
    return inside.get_wrapper_attr(name)
