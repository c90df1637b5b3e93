"""One environment of a batch, spoken to alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parallel_envs import time_step as ts
from parallel_envs.specs import nest

Promise = Callable[[], Any]


class EnvironmentHandle:
    """The environment that one constructor made, wherever it lives.

    As TF-Agents' `ProcessPyEnvironment`, but answers have numbers: promises may be
    asked in any order. Public names that are not defined here are attributes of the
    environment; a method of it comes as a function that calls it there.
    """

    def __init__(
        self,
        ask: Callable[..., Promise],
        tell_specs: Callable[[], tuple[nest.Nest, ts.TimeStep]],
        make_time_step: Callable[..., ts.TimeStep],
    ) -> None:
        """Wraps `ask(name, *arguments)`, which returns a promise.

        Args:
            ask: Asks the environment, by name, for what a handle is asked for.
            tell_specs: Returns the specs of an action and of a time step.
            make_time_step: Makes a time step of its four fields.
        """
        self._ask = ask
        self._make_time_step = make_time_step
        self._tell_specs = tell_specs

    def action_spec(self) -> nest.Nest:
        """Returns the spec of an action."""
        return self._tell_specs()[0]

    def time_step_spec(self) -> ts.TimeStep:
        """Returns the spec of a time step."""
        return self._tell_specs()[1]

    def observation_spec(self) -> nest.Nest:
        """Returns the spec of an observation."""
        return self.time_step_spec().observation

    def reward_spec(self) -> nest.Nest:
        """Returns the spec of a reward."""
        return self.time_step_spec().reward

    def discount_spec(self) -> nest.Nest:
        """Returns the spec of a discount."""
        return self.time_step_spec().discount

    def call(self, name: str, *args: Any, **kwargs: Any) -> Promise:
        """Calls a method of the environment; the promise, called, returns the result.

        The promise blocks until the environment has answered, and raises what
        `ParallelPyEnvironment.call` raises.
        """
        return self._ask_for_answer("call", name, args, kwargs)

    def access(self, name: str) -> Any:
        """Returns an attribute of the environment."""
        return self._ask("get_attr", name)()

    def step(self, action: nest.Nest, blocking: bool = True) -> Any:
        """Steps this environment alone.

        Args:
            action: As in `action_spec()`; handed on as it is.
            blocking: False returns a promise.

        Returns:
            What the environment returned. The batch does not see it: its own last time
            step stays what it was.
        """
        return _now_or_later(self._ask_for_answer("step", action), blocking)

    def reset(self, blocking: bool = True) -> Any:
        """Resets this environment alone; see `step`."""
        return _now_or_later(self._ask_for_answer("reset"), blocking)

    def render(self, mode: str = "rgb_array", blocking: bool = True) -> Any:
        """Returns a picture of this environment, uint8 `[H, W, 3]`."""
        return _now_or_later(self._ask("render", mode), blocking)

    def _ask_for_answer(self, name: str, *arguments: Any) -> Promise:
        promise = self._ask(name, *arguments)

        def time_step() -> Any:
            answer = promise()
            # What an environment returns here is checked by nobody.
            return self._make_time_step(*answer) if _is_time_step(answer) else answer

        return time_step

    def __getattr__(self, name: str) -> Any:
        # Private names stay here: pickle, copy and tools look for many of them.
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        is_method, value = self._ask("look_up", name)()
        if not is_method:
            return value

        def call_method(*args: Any, **kwargs: Any) -> Any:
            return self.call(name, *args, **kwargs)()

        return call_method


def _is_time_step(answer: Any) -> bool:
    return isinstance(answer, ts.TimeStep)


def _now_or_later(promise: Promise, blocking: bool) -> Any:
    return promise() if blocking else promise
