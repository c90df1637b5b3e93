"""A batch of environments in this process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent import futures
from typing import Any

from parallel_envs.batch.environment_batch import EnvironmentBatch
from parallel_envs.batch.environment_rows import EnvironmentRows, as_py_environment
from parallel_envs.batch.local_rows import LocalRows
from parallel_envs.py_environment import PyEnvironment


class BatchedPyEnvironment(EnvironmentBatch):
    """Steps environments in this process, one after another or with threads.

    It gives the same as `ParallelPyEnvironment` to the bit, so it is the place to
    debug an environment, and the faster choice for environments that do little.
    """

    def __init__(self, envs: Sequence[Any], multithreading: bool = False) -> None:
        """Takes over environments; they are closed with the batch.

        Args:
            envs: At least one; also batched ones, whose rows lie side by side.
            multithreading: Steps them at the same time. This helps environments that
                wait or compute outside of Python.

        Raises:
            TypeError: If `envs` holds something else, naming the position.
            ValueError: If `envs` is empty, has an environment twice, or specs differ.
        """
        self._environments = _checked(envs)

        def make_rows() -> LocalRows:
            workers = min(len(self._environments), 4 * (os.cpu_count() or 1))
            threads = None
            if multithreading and workers > 1:
                threads = futures.ThreadPoolExecutor(workers)
            return LocalRows(
                EnvironmentRows.holding(self._environments, threads), threads
            )

        super().__init__(
            make_rows, num_constructors=len(self._environments), validate=True
        )

    @property
    def envs(self) -> list[PyEnvironment]:
        """The environments, in the order of their rows."""
        return list(self._environments)


def _checked(envs: Any) -> list[PyEnvironment]:
    if not isinstance(envs, (list, tuple)):
        raise TypeError(
            f"envs: expected a list of environments, got {type(envs).__name__}."
        )
    if not envs:
        raise ValueError("envs: expected at least one environment, got none.")
    checked: list[PyEnvironment] = []
    for position, env in enumerate(envs):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        try:
            checked.append(as_py_environment(env))
        except TypeError as error:
            raise TypeError(f"envs[{position}]: {error}") from None
    positions = {id(env): position for position, env in enumerate(checked)}
    for position, env in enumerate(checked):
        if positions[id(env)] != position:
            raise ValueError(
                f"envs[{positions[id(env)]}] is the same object as envs[{position}]: "
                "expected an environment of its own for each row."
            )
    return checked
