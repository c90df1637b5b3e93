"""One environment in a process of its own, as TF-Agents' class of that name."""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from typing import Any

from parallel_envs.adapters.tf_agents.parallel_py_environment import (
    ParallelPyEnvironment,
)
from parallel_envs.batch import arguments
from parallel_envs.batch.environment_handle import EnvironmentHandle, Promise
from parallel_envs.specs import nest

Nest = nest.Nest


class ProcessPyEnvironment:
    """An environment that lives in another process, and is spoken to alone.

    It is `ParallelPyEnvironment([env_constructor])` and its `envs[0]`, with TF-Agents'
    two steps of making and starting it. Neither actions nor time steps have a batch
    dimension. What the environment returns is handed on as it is.

    Public names that are not defined here are attributes of the environment; a method
    of it comes as a function that calls it there.
    """

    def __init__(
        self, env_constructor: Callable[[], Any], flatten: bool = False
    ) -> None:
        """Starts nothing yet: `start` does.

        Args:
            env_constructor: As in `ParallelPyEnvironment`; runs in the other process.
            flatten: Taken for TF-Agents' users, and without effect.

        Raises:
            TypeError: If `env_constructor` cannot be called.
        """
        self._constructors = arguments.checked_constructors([env_constructor])
        arguments.check_bool("flatten", flatten)
        self._starting: futures.Future[ParallelPyEnvironment] | None = None

    def start(self, wait_to_start: bool = True) -> None:
        """Starts the process and makes the environment in it.

        Args:
            wait_to_start: Whether to block until it is there, as `wait_start` does. If
                False it starts in the background, so that several start side by side.

        Raises:
            RuntimeError: If it was started before.
            WorkerError: If the environment could not be made.
        """
        if self._starting is not None:
            raise RuntimeError("start: the environment was started before.")
        if wait_to_start:
            env = ParallelPyEnvironment(self._constructors)
            self._starting = futures.Future()
            self._starting.set_result(env)
            return
        threads = futures.ThreadPoolExecutor(max_workers=1)
        self._starting = threads.submit(ParallelPyEnvironment, self._constructors)
        threads.shutdown(wait=False)

    def wait_start(self) -> None:
        """Blocks until the environment is there.

        Raises:
            RuntimeError: If it was not started.
            WorkerError: If the environment could not be made.
        """
        self._started()

    def action_spec(self) -> Nest:
        """Returns the spec of an action."""
        return self._handle().action_spec()

    def observation_spec(self) -> Nest:
        """Returns the spec of an observation."""
        return self._handle().observation_spec()

    def reward_spec(self) -> Nest:
        """Returns the spec of a reward."""
        return self._handle().reward_spec()

    def discount_spec(self) -> Nest:
        """Returns the spec of a discount."""
        return self._handle().discount_spec()

    def time_step_spec(self) -> Any:
        """Returns the specs of a time step, a `TimeStep` of TF-Agents."""
        return self._handle().time_step_spec()

    def call(self, name: str, *args: Any, **kwargs: Any) -> Promise:
        """Calls a method; what is returned, called, waits for the result."""
        return self._handle().call(name, *args, **kwargs)

    def access(self, name: str) -> Any:
        """Returns an attribute of the environment."""
        return self._handle().access(name)

    def step(self, action: Nest, blocking: bool = True) -> Any:
        """Steps the environment; see `EnvironmentHandle.step`."""
        return self._handle().step(action, blocking)

    def reset(self, blocking: bool = True) -> Any:
        """Resets the environment; see `EnvironmentHandle.reset`."""
        return self._handle().reset(blocking)

    def render(self, mode: str = "rgb_array", blocking: bool = True) -> Any:
        """Returns a picture of the environment, uint8 `[H, W, 3]`."""
        return self._handle().render(mode, blocking)

    def close(self) -> None:
        """Closes the environment and ends its process; may be called several times.

        Raises nothing. Waits for a start that is under way.
        """
        starting = self._starting
        if starting is not None and starting.exception() is None:
            starting.result().close()

    def __getattr__(self, name: str) -> Any:
        """Returns a public attribute of the environment, which must be started."""
        # `copy` and `pickle` ask for private names before there is anything.
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self._handle(), name)

    def _handle(self) -> EnvironmentHandle:
        return self._started().envs[0]

    def _started(self) -> ParallelPyEnvironment:
        if self._starting is None:
            raise RuntimeError("the environment was not started: call start() first.")
        return self._starting.result()
