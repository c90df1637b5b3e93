from __future__ import annotations

import itertools
import multiprocessing
import os
import resource
from typing import Any

import hypothesis
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from parallel_envs.process.shared_arrays import PAGE_SIZE, ArrayLayout, MemoryFile

MAX_ENDED_BY = 1 << 20  # bytes

shapes = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
dtypes = st.sampled_from(
    [np.dtype(name) for name in ("?", "i1", "<u2", ">i4", "f2", "f8", "c16", "M8[s]")]
)
layouts = st.lists(st.tuples(shapes, dtypes), max_size=6).map(
    lambda arrays: ArrayLayout([s for s, _ in arrays], [d for _, d in arrays])
)


def addresses(array: npt.NDArray[Any]) -> range:
    start = array.__array_interface__["data"][0]
    return range(start, start + array.nbytes)


def mapped(layout: ArrayLayout, memory: MemoryFile) -> list[npt.NDArray[Any]]:
    return layout.arrays(memory.map(layout.size))


@hypothesis.given(layouts)
def test_arrays_have_their_shapes_and_types(layout: ArrayLayout) -> None:
    arrays = layout.arrays(bytearray(layout.size))

    assert [array.shape for array in arrays] == list(layout.shapes)
    assert [array.dtype for array in arrays] == list(layout.dtypes)
    assert all(array.flags.writeable for array in arrays)


@hypothesis.given(layouts)
def test_arrays_lie_apart_each_on_a_cache_line(layout: ArrayLayout) -> None:
    memory = MemoryFile.create()
    memory.reserve(layout.size)
    block = np.frombuffer(memory.map(layout.size), np.uint8)
    memory.close()

    arrays = layout.arrays(block)

    spans = [addresses(array) for array in arrays]
    assert all(span.start % 64 == 0 for span in spans)
    for before, after in itertools.pairwise(sorted(spans, key=lambda span: span.start)):
        assert before.stop <= after.start
    assert all(span.stop <= addresses(block).stop for span in spans)


@hypothesis.given(layouts)
def test_all_arrays_are_kept_when_each_is_filled(layout: ArrayLayout) -> None:
    arrays = layout.arrays(bytearray(layout.size))

    for number, array in enumerate(arrays, 1):
        array.view(np.uint8 if array.ndim else array.dtype)[...] = 0
        array[...] = np.array(number).astype(array.dtype)

    for number, array in enumerate(arrays, 1):
        assert (array == np.array(number).astype(array.dtype)).all()


@hypothesis.settings(max_examples=15)
@hypothesis.given(layouts)
def test_what_a_forked_process_writes_is_read_here(layout: ArrayLayout) -> None:
    memory = MemoryFile.create()
    memory.reserve(layout.size)
    arrays = mapped(layout, memory)

    def write() -> None:
        for number, array in enumerate(mapped(layout, memory), 1):
            array[...] = np.array(number).astype(array.dtype)

    process = multiprocessing.get_context("fork").Process(target=write)
    process.start()
    process.join()
    memory.close()

    for number, array in enumerate(arrays, 1):
        assert (array == np.array(number).astype(array.dtype)).all()


def test_a_part_of_the_file_can_be_mapped() -> None:
    memory = MemoryFile.create()
    memory.reserve(3 * PAGE_SIZE)
    whole, part = memory.map(3 * PAGE_SIZE), memory.map(PAGE_SIZE, PAGE_SIZE)

    part[:5] = b"hello"

    assert whole[PAGE_SIZE : PAGE_SIZE + 5] == b"hello"
    memory.close()
    assert part[:5] == b"hello"


def test_a_file_keeps_its_content_when_it_grows() -> None:
    memory = MemoryFile.create()
    memory.reserve(PAGE_SIZE)
    memory.map(PAGE_SIZE)[:5] = b"hello"

    memory.reserve(10 * PAGE_SIZE)

    assert memory.map(10 * PAGE_SIZE)[:5] == b"hello"
    memory.close()


def test_memory_is_there_once_it_is_reserved() -> None:
    memory = MemoryFile.create()

    memory.reserve(100 * PAGE_SIZE)

    assert os.fstat(memory.descriptor).st_blocks * 512 >= 100 * PAGE_SIZE
    memory.close()


def test_the_file_has_no_name_and_programs_do_not_inherit_it() -> None:
    memory = MemoryFile.create()

    assert os.fstat(memory.descriptor).st_nlink == 0
    assert not os.get_inheritable(memory.descriptor)
    memory.close()


def reserve_beyond(limit: int, size: int) -> None:
    """Runs in a process of its own: the limit is one of the process."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    memory = MemoryFile.create()
    memory.reserve(limit)
    memory.reserve(size)


def test_memory_that_cannot_be_had_is_an_error_and_not_a_signal() -> None:
    spawn = multiprocessing.get_context("fork")
    with spawn.Pool(1) as pool:
        outcome = pool.apply_async(reserve_beyond, (1 << 20, 1 << 21))

        with pytest.raises(MemoryError, match="expected 2097152 bytes for the arrays"):
            outcome.get(30)
