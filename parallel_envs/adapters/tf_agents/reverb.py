"""TF-Agents' observer that writes to Reverb, for batches."""

from __future__ import annotations

import contextlib
import importlib
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs.adapters import extras
from parallel_envs.adapters.tf_agents import library, trajectories
from parallel_envs.specs import nest

try:
    importlib.import_module("reverb")
except ModuleNotFoundError as error:
    if error.name != "reverb":
        raise
    raise extras.missing("reverb", extra="reverb") from error

_Observer: Any = library.part("replay_buffers.reverb_utils").ReverbAddTrajectoryObserver

_ALONE = 0  # The writer of an environment that is no batch.


class ReverbAddTrajectoryObserver:
    """Writes what a driver tells of a batch to Reverb, each row by a writer of its own.

    TF-Agents' observer of this name refuses batches. This one has such an observer for
    each row: what arrives in Reverb is what theirs would write if it were told of that
    row alone. A single environment is taken as well. Rows are known by their place in
    the batch, or by the `env_ids` that `AsyncDriver` gives. As theirs, it waits without
    end for a server that is gone. In use:

        client = reverb_replay.py_client
        with ReverbAddTrajectoryObserver(client, "table", sequence_length=2) as write:
            pe.PyDriver(env, policy, [write], max_steps=1_000).run()
    """

    def __init__(
        self,
        py_client: Any,
        table_name: str | Sequence[str],
        sequence_length: int,
        stride_length: int = 1,
        priority: float = 1,
        pad_end_of_episodes: bool = False,
        tile_end_of_episodes: bool = False,
    ) -> None:
        """Makes the first writer; the others come with the first trajectory.

        Args:
            py_client: The `reverb.Client` of the server.
            table_name: One or several tables that items are written to.
            sequence_length: Steps of an item.
            stride_length: Steps between the beginnings of two items.
            priority: Of new items.
            pad_end_of_episodes: Whether an item that an episode's end makes too short
                is filled up with zeros, not dropped.
            tile_end_of_episodes: Whether each of the last steps begins such an item.

        Raises:
            TypeError: If `py_client` is none.
            ValueError: If `tile_end_of_episodes` is set without `pad_end_of_episodes`.
        """
        if not hasattr(py_client, "trajectory_writer"):
            raise TypeError(
                f"py_client: expected a reverb.Client, got {py_client!r:.200}. A "
                "ReverbReplayBuffer has one as its py_client."
            )
        self._py_client = py_client
        self._arguments = (
            py_client,
            table_name,
            sequence_length,
            stride_length,
            priority,
            pad_end_of_episodes,
            tile_end_of_episodes,
        )
        self._batch_size: int | None = None
        self._observers = {_ALONE: _Observer(*self._arguments)}

    def __call__(self, trajectory: Any, env_ids: npt.ArrayLike | None = None) -> None:
        """Writes one step of each row.

        Args:
            trajectory: A `Trajectory` of either library, of arrays, leaves `[B, ...]`,
                or `[...]` of a single environment.
            env_ids: The number of each row, integers `[B]`; None where they are all
                rows in order.

        Raises:
            ValueError: If `env_ids` are not one integer for each row, or a batch
                without them has not as many rows as the one before; nothing is written.
        """
        trajectory = trajectories.to_tf_agents_trajectory(trajectory)
        if np.ndim(trajectory.step_type) == 0:
            self._observer(_ALONE)(trajectory)
            return
        ids = self._row_numbers(trajectory, env_ids)
        for row, step in zip(ids, _unstacked(trajectory), strict=True):
            self._observer(row)(step)

    @property
    def py_client(self) -> Any:
        """The client that was given."""
        return self._py_client

    def get_table_signature(self) -> Any:
        """Returns the signature of the (first) table."""
        return self._observers[_ALONE].get_table_signature()

    def flush(self) -> None:
        """Waits until the server has all items that were made."""
        self._for_each("flush")

    def reset(self, write_cached_steps: bool = True) -> None:
        """Forgets the steps that are not written, as when collection has ended.

        Args:
            write_cached_steps: Whether to write them before, filled up where
                `pad_end_of_episodes` is set.

        Raises:
            ValueError: If they are to be written and a row has too few. The rows that
                have enough are done all the same.
        """
        self._for_each("reset", write_cached_steps)

    def open(self) -> None:
        """Makes new writers after `close`."""
        self._for_each("open")

    def close(self) -> None:
        """Ends the writers, after what they have to send. May be called again."""
        self._for_each("close")

    def __enter__(self) -> ReverbAddTrajectoryObserver:
        return self

    def __exit__(self, *unused_error: object) -> None:
        self.close()

    def _observer(self, row: int) -> Any:
        observer = self._observers.get(row)
        if observer is None:
            observer = self._observers[row] = _Observer(*self._arguments)
        return observer

    def _row_numbers(
        self, trajectory: Any, env_ids: npt.ArrayLike | None
    ) -> Iterable[int]:
        found = len(trajectory.step_type)
        if env_ids is not None:
            rows = np.asarray(env_ids)
            if rows.shape != (found,) or rows.dtype.kind not in "iu":
                raise ValueError(
                    f"env_ids: expected {found} integers, one for each row, got "
                    f"{env_ids!r:.200}."
                )
            numbers: list[int] = rows.tolist()
            return numbers
        if self._batch_size not in (None, found):
            raise ValueError(
                f"trajectory: expected {self._batch_size} rows as before, got {found}. "
                "An environment of another size needs an observer of its own."
            )
        self._batch_size = found
        return range(found)

    def _for_each(self, name: str, *arguments: Any) -> None:
        """Calls a method of each observer, also if one raises."""
        with contextlib.ExitStack() as stack:
            for observer in self._observers.values():
                stack.callback(getattr(observer, name), *arguments)


def _unstacked(trajectory: Any) -> Iterable[Any]:
    """Yields the rows of a batch."""
    batch = nest.map_structure(np.asarray, trajectory)
    for row in range(len(batch.step_type)):
        yield nest.map_structure(operator.itemgetter(row), batch)
