"""The batch in this process as a real environment of TF-Agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parallel_envs import batched_py_environment
from parallel_envs.adapters.tf_agents import grafted, library

_Base: Any = library.part("environments.py_environment").PyEnvironment


class BatchedPyEnvironment(
    grafted.GraftedBatch, batched_py_environment.BatchedPyEnvironment, _Base
):
    """`parallel_envs.BatchedPyEnvironment`, which TF-Agents takes for its own.

    Environments may be ours, TF-Agents' or Gymnasium's, batched ones among them.
    Arguments, methods and errors are ours; specs and time steps are TF-Agents'.
    """

    def __init__(self, envs: Sequence[Any], multithreading: bool = False) -> None:
        """Takes over environments, as `parallel_envs.BatchedPyEnvironment` does."""
        super().__init__(envs, multithreading)
        self._envs = list(envs)

    @property
    def envs(self) -> list[Any]:
        """The environments as they were given, in the order of their rows."""
        return list(self._envs)
