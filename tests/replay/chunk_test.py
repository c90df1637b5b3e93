from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from parallel_envs.replay import chunk
from parallel_envs.specs.array_spec import ArraySpec

SMALL = ArraySpec((2,), np.int64)
LARGE = ArraySpec((40, 40), np.int64)  # Several rows make a long run.
VARIABLE = ArraySpec((None,), np.int64)
CAPACITY = 150  # Two whole chunks of 64 steps and a shorter one, for LARGE rows.


def row(spec: ArraySpec, value: int) -> npt.NDArray[Any]:
    shape = (value % 3,) if None in spec.shape else spec.shape
    return np.full(shape, value, spec.dtype)


def filled(spec: ArraySpec, num_streams: int = 20) -> chunk.Storage:
    """Slot k of stream s holds 1000 s + k."""
    storage = chunk.Storage([spec], num_streams, CAPACITY)
    streams = np.arange(num_streams)
    for slot in range(CAPACITY):
        values = np.empty(num_streams, object)
        for stream in range(num_streams):
            values[stream] = row(spec, 1000 * stream + slot)
        if None not in spec.shape:
            values = np.stack(list(values))
        storage.write(streams, np.full(num_streams, slot), [values])
    return storage


@pytest.mark.parametrize("spec", [SMALL, LARGE, VARIABLE])
@pytest.mark.parametrize("start", [0, 60, 140])
def test_runs_come_back_whole_over_chunks_and_the_rings_seam(
    spec: ArraySpec, start: int
) -> None:
    storage = filled(spec)

    runs = storage.read_runs(0, np.array([3, 7]), np.array([start, 5]), 70)

    for run, stream, first in zip(runs, (3, 7), (start, 5), strict=True):
        for step, value in enumerate(run):
            expected = row(spec, 1000 * stream + (first + step) % CAPACITY)
            np.testing.assert_array_equal(value, expected)


def test_rows_are_read_from_several_chunks_in_the_order_asked_for() -> None:
    storage = filled(LARGE)

    rows = storage.read(0, np.array([4, 0, 4]), np.array([149, 3, 70]))

    assert rows[:, 0, 0].tolist() == [4149, 3, 4070]


def test_a_chunk_is_made_when_its_first_row_comes() -> None:
    storage = chunk.Storage([LARGE], 1, 10_000)
    assert storage.nbytes == 0

    storage.write(np.array([0]), np.array([0]), [np.zeros((1, 40, 40), np.int64)])
    one = storage.nbytes
    storage.write(np.array([0]), np.array([9999]), [np.zeros((1, 40, 40), np.int64)])

    assert 0 < one <= 2**23
    assert one < storage.nbytes < 2 * one


def test_large_reads_begin_where_tensorflow_need_not_copy_them() -> None:
    storage = filled(LARGE)

    reads = [storage.read_runs(0, np.array([3]), np.array([0]), 70) for _ in range(4)]

    assert {read.ctypes.data % 64 for read in reads} == {0}
    assert all(read.flags.c_contiguous and read.flags.writeable for read in reads)
