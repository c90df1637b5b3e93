"""What a buffer holds: rows, the index of them, and what items of them look like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs.replay import n_step, nest_description, row_arrays, windows
from parallel_envs.replay.checkpoint import Pieces, whole
from parallel_envs.replay.chunk import Storage
from parallel_envs.replay.layout import Field, Layout
from parallel_envs.replay.streams import Streams, in_turns
from parallel_envs.specs.nest import Nest

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


class Content:
    """Rows in, samples out. Where samples start is for the caller to choose.

    Attributes:
        index: Which rows there are.
    """

    def __init__(self, num_streams: int, capacity: int) -> None:
        self.index = Streams(num_streams, capacity)
        self._learn(None)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that rows and index take."""
        return self._storage.nbytes + self.index.nbytes

    @property
    def item_spec(self) -> Nest | None:
        """An item with an `ArraySpec` for each array; None before the first."""
        return self._layout and self._layout.nest

    @property
    def num_rows(self) -> int:
        """Rows stored, of all streams."""
        return int(self.index.lengths.sum())

    @property
    def num_episodes(self) -> int:
        """Complete episodes stored."""
        return len(windows.episodes(self.index, complete=True)[1])

    def append(
        self,
        items: Nest,
        streams: Integers,
        *,
        num_rows: int | None,
        keys: Integers | None = None,
    ) -> Integers:
        """Adds rows to streams and returns their keys, int64 `[B]`.

        Args:
            items: A batch of `num_rows`; one item if that is None.
            streams: `[B]`, the stream of each row.
            num_rows: B, or None.
            keys: `[B]`, keys of the caller; None for new ones.

        Raises:
            ValueError: If the items differ from the first ones. Nothing is added then.
        """
        layout = self._layout or Layout.of(items, num_rows)
        rows = layout.rows(items, num_rows)
        kinds = layout.kinds(rows)
        if self._layout is None:
            self._learn(layout)
        new_keys = np.empty(len(streams), np.int64)
        for turn in in_turns(streams):
            slots = self.index.next_slots(streams[turn])
            self._storage.write(streams[turn], slots, [leaf[turn] for leaf in rows])
            own = None if keys is None else keys[turn]
            new_keys[turn] = self.index.append(streams[turn], kinds[turn], own)
        return new_keys

    def read_windows(
        self, starts: windows.Starts, num_steps: int, *, batched: bool = True
    ) -> Nest:
        """Returns windows, leaves `[N, T, ...]`; the only one, `[T, ...]`, if asked."""
        layout = self._known_layout()
        slots = self.index.slots(*starts)
        return layout.pack(
            [
                _delivered(
                    self._storage.read_runs(leaf, starts.streams, slots, num_steps),
                    batched,
                )
                for leaf in range(len(layout.specs))
            ]
        )

    def read_n_step(
        self, starts: windows.Starts, n: int, gamma: float, *, batched: bool = True
    ) -> dict[str, Nest]:
        """Returns n-step items, leaves `[N, ...]`; the only one without N if asked."""
        streams, rows = starts
        steps = windows.horizons(self.index, streams, rows, n)
        # A time step holds the reward that came with it, a trajectory the next one.
        ahead = np.arange(n) + (0 if self._known_layout().is_trajectory else 1)
        paid = rows[:, np.newaxis] + np.minimum(ahead, steps[:, np.newaxis])
        rewards = self._read_series("reward", streams, paid)
        discounts = self._read_series("discount", streams, paid)
        if discounts.ndim != 2:
            raise ValueError(
                "items: n-step items need discount to be one number a row."
            )
        returns, bootstrap = n_step.n_step_returns(rewards, discounts, steps, gamma)
        observation = self._required_field("observation")
        action = self._known_layout().field("action")
        items = {"observation": self._read_field(observation, streams, rows, batched)}
        if action is not None:
            items["action"] = self._read_field(action, streams, rows, batched)
        items["return"] = _delivered(returns, batched)
        items["bootstrap"] = _delivered(bootstrap, batched)
        items["next_observation"] = self._read_field(
            observation, streams, rows + steps, batched
        )
        return items

    def read_stream(self, stream: int) -> Nest:
        """Returns all rows of a stream that has some, leaves `[T, ...]`."""
        start = windows.Starts(np.array([stream]), self.index.first[[stream]])
        length = int(self.index.lengths[stream])
        return self.read_windows(start, length, batched=False)

    def clear(self) -> None:
        """Forgets all rows and what items look like."""
        self.index.clear()
        self._learn(None)

    def describe(self) -> nest_description.Description | None:
        """Returns what items look like as JSON can hold it; None before the first."""
        return self._layout and nest_description.describe(self._layout.nest)

    def arrays(self) -> dict[str, Pieces]:
        """Returns rows and index as arrays for a checkpoint."""
        specs = self._layout.specs if self._layout else ()
        arrays = row_arrays.arrays_of(specs, self._storage, self.index)
        for name, column in self.index.state().items():
            arrays[f"index-{name}"] = whole(column)
        return arrays

    def restore(
        self,
        description: nest_description.Description | None,
        arrays: Mapping[str, Array],
    ) -> None:
        """Fills a new content with what `describe` and `arrays` gave.

        Raises:
            ValueError: If it does not fit.
        """
        index = {
            name.removeprefix("index-"): array
            for name, array in arrays.items()
            if name.startswith("index-")
        }
        self.index.restore(index)
        if description is not None:
            layout = Layout(nest_description.restore(description))
            self._learn(layout)
            row_arrays.fill(layout.specs, self._storage, self.index, arrays)

    def _learn(self, layout: Layout | None) -> None:
        self._layout = layout
        specs = layout.specs if layout else ()
        self._storage = Storage(specs, self.index.num_streams, self.index.capacity)

    def _known_layout(self) -> Layout:
        assert self._layout is not None, "rows are read, so there was a first one"
        return self._layout

    def _required_field(self, name: str) -> Field:
        field = self._known_layout().field(name)
        if field is None:
            raise ValueError(f"items: n-step items need a field {name!r}.")
        return field

    def _read_series(self, name: str, streams: Integers, rows: Integers) -> Array:
        """Returns a field that is one array, `[N, n, ...]`, of rows `[N, n]`."""
        leaves = self._required_field(name).leaves
        if len(leaves) != 1 or None in self._known_layout().specs[leaves[0]].shape:
            raise ValueError(
                f"items: n-step items need {name} to be one array of fixed size."
            )
        each = np.repeat(streams, rows.shape[1])
        slots = self.index.slots(each, rows.reshape(-1))
        values = self._storage.read(leaves[0], each, slots)
        return values.reshape(*rows.shape, *values.shape[1:])

    def _read_field(
        self, field: Field, streams: Integers, rows: Integers, batched: bool
    ) -> Nest:
        slots = self.index.slots(streams, rows)
        return field.pack(
            [
                _delivered(self._storage.read(leaf, streams, slots), batched)
                for leaf in field.leaves
            ]
        )


def _delivered(leaf: Array, batched: bool) -> Any:
    """Returns a leaf as the caller gets it: lists in the place of object arrays."""
    value = leaf if batched else leaf[0]
    return _copies(value) if leaf.dtype.hasobject else value


def _copies(rows: Array) -> Any:
    if not rows.dtype.hasobject:
        return rows.copy()
    each: Iterable[Array] = rows
    return [_copies(row) for row in each]
