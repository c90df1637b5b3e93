"""The rows of a buffer as plain arrays, for a checkpoint, and back.

Rows are in the order of the streams, oldest first, wherever they lay in memory: what is
saved does not depend on capacity or chunks. A leaf of variable size becomes two arrays:
the values of all rows after each other, and the shape of each row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs.replay.checkpoint import Pieces, whole
from parallel_envs.replay.chunk import Storage
from parallel_envs.replay.streams import Streams
from parallel_envs.specs.array_spec import ArraySpec

Array = npt.NDArray[Any]


def arrays_of(
    specs: Sequence[ArraySpec], storage: Storage, streams: Streams
) -> dict[str, Pieces]:
    """Returns all rows, leaf by leaf, as pieces that lie in the storage."""
    num_rows = int(streams.lengths.sum())
    arrays: dict[str, Pieces] = {}
    for leaf, spec in enumerate(specs):
        pieces = _pieces(storage, streams, leaf)
        if None not in spec.shape:
            arrays[f"leaf-{leaf}"] = Pieces((num_rows, *spec.shape), spec.dtype, pieces)
            continue
        rows: list[Array] = [row for piece in pieces for row in piece]
        shapes = np.array([row.shape for row in rows], np.int64)
        size = sum(row.size for row in rows)
        arrays[f"leaf-{leaf}"] = Pieces((size,), spec.dtype, rows)
        arrays[f"leaf-{leaf}-shapes"] = whole(shapes.reshape(num_rows, len(spec.shape)))
    return arrays


def fill(
    specs: Sequence[ArraySpec],
    storage: Storage,
    streams: Streams,
    arrays: Mapping[str, Array],
) -> None:
    """Writes rows that were saved to where `streams` says that they belong.

    Raises:
        ValueError: If an array is not of the shape or dtype that its leaf has.
    """
    rows = [_rows(spec, leaf, arrays) for leaf, spec in enumerate(specs)]
    ends = np.cumsum(streams.lengths)
    for leaf, values in enumerate(rows):
        if len(values) != ends[-1]:
            raise ValueError(
                f"leaf-{leaf}: expected {ends[-1]} rows, got {len(values)}."
            )
    for stream in np.flatnonzero(streams.lengths).tolist():
        own = slice(int(ends[stream] - streams.lengths[stream]), int(ends[stream]))
        length = int(streams.lengths[stream])
        which = np.full(length, stream)
        slots = streams.slots(which, streams.first[which] + np.arange(length))
        storage.write(which, slots, [values[own] for values in rows])


def _pieces(storage: Storage, streams: Streams, leaf: int) -> Iterator[Array]:
    for stream in np.flatnonzero(streams.lengths).tolist():
        at = np.array([stream])
        slot = int(streams.slots(at, streams.first[at])[0])
        yield from storage.pieces(leaf, stream, slot, int(streams.lengths[stream]))


def _rows(spec: ArraySpec, leaf: int, arrays: Mapping[str, Array]) -> Array:
    values = arrays[f"leaf-{leaf}"]
    row_shape = () if None in spec.shape else spec.shape
    if values.dtype != spec.dtype or values.shape[1:] != row_shape:
        raise ValueError(
            f"leaf-{leaf}: expected {spec.dtype} rows of shape {row_shape}, got "
            f"{values.dtype} of shape {values.shape[1:]}."
        )
    if None not in spec.shape:
        return values
    shapes = arrays[f"leaf-{leaf}-shapes"]
    rows = np.empty(len(shapes), object)
    begin = 0
    every: list[list[int]] = shapes.tolist()
    for index, shape in enumerate(every):
        end = begin + math.prod(shape)
        rows[index] = values[begin:end].reshape(shape).copy()
        begin = end
    return rows
