"""Where rows lie in memory: chunks of time, made when the first row reaches them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs.specs.array_spec import ArraySpec

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]

# A chunk is as long as fits in so many bytes, but not so short that a window of usual
# length would be cut into many pieces.
_CHUNK_BYTES = 8 * 2**20
_MIN_CHUNK_STEPS = 64

# Copying a run with one slice beats gathering its rows from about here on; below, the
# Python around each copy costs more than the copy.
_LONG_RUN_BYTES = 4096

# TensorFlow takes an array that begins at a multiple of so many bytes as it is, and
# copies any other: for batches of images a third of the time of a draw.
_ALIGNMENT = 64  # bytes
_MIN_ALIGNED_BYTES = 2**16


class Chunk:
    """Some consecutive steps of every stream, contiguous for each stream.

    One array of all streams, so that rows of streams that are in step are written at
    once. A row of variable size is an array of its own, kept in an object array.

    Attributes:
        leaves: For each leaf an array `[num_streams, num_steps, ...]`.
        nbytes: Bytes that the arrays hold, variable rows included.
    """

    def __init__(
        self, specs: Sequence[ArraySpec], num_streams: int, num_steps: int
    ) -> None:
        self.leaves = [
            np.empty((num_streams, num_steps, *spec.shape), spec.dtype)
            if None not in spec.shape
            else np.empty((num_streams, num_steps), object)
            for spec in specs
        ]
        self.nbytes = sum(leaf.nbytes for leaf in self.leaves)

    def write(
        self, streams: Integers, offsets: Integers, rows: Sequence[Array]
    ) -> None:
        """Puts row i of each leaf at step `offsets[i]` of stream `streams[i]`."""
        for leaf, values in zip(self.leaves, rows, strict=True):
            if leaf.dtype.hasobject:
                self.nbytes += _num_bytes(values) - _num_bytes(leaf[streams, offsets])
            leaf[streams, offsets] = values


class Storage:
    """The rows of all streams, in chunks.

    Each stream is a ring of `capacity` slots. Slot k of every stream lies in chunk
    `k // chunk_steps`. Chunks are made when they are first written and then used again,
    so the memory never exceeds that of `capacity` rows for each stream.
    """

    def __init__(
        self, specs: Sequence[ArraySpec], num_streams: int, capacity: int
    ) -> None:
        self._specs = specs
        self._num_streams = num_streams
        self._capacity = capacity
        row_bytes = num_streams * sum(map(_row_bytes, specs))
        fitting = max(_MIN_CHUNK_STEPS, _CHUNK_BYTES // max(1, row_bytes))
        self._chunk_steps = min(capacity, fitting)
        self._chunks: dict[int, Chunk] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the chunks made so far."""
        return sum(chunk.nbytes for chunk in self._chunks.values())

    def write(self, streams: Integers, slots: Integers, rows: Sequence[Array]) -> None:
        """Puts row i of each leaf into slot `slots[i]` of stream `streams[i]`."""
        numbers, offsets = np.divmod(slots, self._chunk_steps)
        for number, at in _grouped(numbers):
            chunk = self._chunks.get(number) or self._new_chunk(number)
            chunk.write(streams[at], offsets[at], [values[at] for values in rows])

    def read(self, leaf: int, streams: Integers, slots: Integers) -> Array:
        """Returns copies `[N, ...]` of one row for each of N slots."""
        out = self._empty(leaf, slots.shape)
        numbers, offsets = np.divmod(slots, self._chunk_steps)
        for number, at in _grouped(numbers):
            out[at] = self._chunks[number].leaves[leaf][streams[at], offsets[at]]
        return out

    def read_runs(
        self, leaf: int, streams: Integers, slots: Integers, num_steps: int
    ) -> Array:
        """Returns copies `[N, num_steps, ...]` of runs that begin at N slots."""
        out = self._empty(leaf, (len(slots), num_steps))
        if _row_bytes(self._specs[leaf]) * num_steps < _LONG_RUN_BYTES:
            later = (slots[:, None] + np.arange(num_steps)) % self._capacity
            rows = self.read(leaf, np.repeat(streams, num_steps), later.reshape(-1))
            return rows.reshape(out.shape)
        for run, stream, slot in zip(
            out, streams.tolist(), slots.tolist(), strict=True
        ):
            written = 0
            for piece in self.pieces(leaf, stream, slot, num_steps):
                run[written : written + len(piece)] = piece
                written += len(piece)
        return out

    def pieces(
        self, leaf: int, stream: int, slot: int, num_steps: int
    ) -> Iterator[Array]:
        """Yields a run as views on the chunks that it lies in, in order."""
        while num_steps:
            number, offset = divmod(slot, self._chunk_steps)
            end = min(
                self._chunk_steps, offset + num_steps, offset + self._capacity - slot
            )
            yield self._chunks[number].leaves[leaf][stream, offset:end]
            num_steps -= end - offset
            slot = (slot + end - offset) % self._capacity

    def _new_chunk(self, number: int) -> Chunk:
        num_steps = min(self._chunk_steps, self._capacity - number * self._chunk_steps)
        chunk = Chunk(self._specs, self._num_streams, num_steps)
        self._chunks[number] = chunk
        return chunk

    def _empty(self, leaf: int, shape: tuple[int, ...]) -> Array:
        spec = self._specs[leaf]
        if None in spec.shape:
            return np.empty(shape, object)
        return _aligned_empty((*shape, *spec.shape), spec.dtype)


def _grouped(numbers: Integers) -> Iterator[tuple[int, Integers | EllipsisType]]:
    """Yields each number with where it stands; "everywhere" when there is only one."""
    first = int(numbers[0])
    if (numbers == first).all():
        yield first, ...
        return
    for number in np.unique(numbers).tolist():
        yield number, np.flatnonzero(numbers == number)


def _aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Returns a new array; a large one begins at a multiple of `_ALIGNMENT`."""
    num_bytes = math.prod(shape) * dtype.itemsize
    if num_bytes < _MIN_ALIGNED_BYTES:
        return np.empty(shape, dtype)
    memory = np.empty(num_bytes + _ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin : begin + num_bytes].view(dtype).reshape(shape)


def _row_bytes(spec: ArraySpec) -> int:
    if None in spec.shape:
        return np.dtype(object).itemsize
    return math.prod(spec.shape) * spec.dtype.itemsize


def _num_bytes(rows: Array) -> int:
    return sum(row.nbytes for row in rows if row is not None)
