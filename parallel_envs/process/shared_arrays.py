"""Arrays on one memory file that several processes map.

The file has no name: nothing to collide, nothing to leak, and no limit from
`/dev/shm`, which is 64 MB in many containers. Who inherits its descriptor maps it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import itertools
import math
import mmap
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

PAGE_SIZE = mmap.ALLOCATIONGRANULARITY  # bytes; where a mapping may start
_ALIGNMENT = 64  # bytes; a cache line, so that two rows' owners do not share one


class MemoryFile:
    """A file in memory, without a name, that grows to what is asked of it."""

    def __init__(self, descriptor: int) -> None:
        """Takes over a descriptor, for example an inherited one."""
        self.descriptor = descriptor

    @classmethod
    def create(cls, *, in_memory: bool = True) -> MemoryFile:
        """Returns a new, empty file; an unlinked one if it is not to be `in_memory`."""
        if in_memory:
            return cls(os.memfd_create("parallel_envs", os.MFD_CLOEXEC))
        descriptor, path = tempfile.mkstemp(prefix="parallel_envs")
        os.unlink(path)
        return cls(descriptor)

    def reserve(self, size: int) -> None:
        """Grows the file to `size` bytes, and makes sure that the memory is there.

        Raises:
            MemoryError: If it is not. Without this the first write to a page that
                cannot be had ends a process by SIGBUS.
        """
        try:
            if size > _available():
                raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self.descriptor, 0, size)
            else:
                os.ftruncate(self.descriptor, size)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
                raise
            raise too_large(size) from error

    def map(self, size: int, offset: int = 0) -> mmap.mmap:
        """Returns `size` bytes at `offset`, shared with all who map them.

        Raises:
            MemoryError: If this process may not map as much.
        """
        try:
            return mmap.mmap(self.descriptor, size, offset=offset)
        except OSError as error:
            if error.errno != errno.ENOMEM:
                raise
            raise too_large(size) from error

    def close(self) -> None:
        """Frees the descriptor; what is mapped stays until nothing refers to it."""
        os.close(self.descriptor)


@dataclasses.dataclass(frozen=True)
class ArrayLayout:
    """Where each of several arrays lies in a block of memory.

    Attributes:
        shapes: Shape of each array.
        dtypes: Type of the elements of each array; none holds Python objects.
    """

    shapes: Sequence[tuple[int, ...]]
    dtypes: Sequence[np.dtype[Any]]

    @property
    def size(self) -> int:
        """Bytes of the whole block, at least one."""
        return max(1, sum(self._sizes()))

    def with_ring(self, first: int, num_buffers: int) -> ArrayLayout:
        """Returns a layout in which the arrays from `first` on come several times."""
        return ArrayLayout(
            [*self.shapes[:first], *list(self.shapes[first:]) * num_buffers],
            [*self.dtypes[:first], *list(self.dtypes[first:]) * num_buffers],
        )

    def new_arrays(self) -> list[npt.NDArray[Any]]:
        """Returns the arrays in memory of this process alone.

        Raises:
            MemoryError: If there is not enough.
        """
        try:
            return self.arrays(bytearray(self.size))
        except (MemoryError, OverflowError) as error:
            raise too_large(self.size) from error

    def arrays(self, buffer: Any) -> list[npt.NDArray[Any]]:
        """Returns the arrays as views of `buffer`, which holds `size` bytes."""
        starts = itertools.accumulate(self._sizes(), initial=0)
        return [
            np.ndarray(shape, dtype, buffer, start)
            for shape, dtype, start in zip(
                self.shapes, self.dtypes, starts, strict=False
            )
        ]

    def _sizes(self) -> list[int]:
        """Returns the bytes that each array takes up, whole cache lines."""
        return [
            _aligned(math.prod(shape) * dtype.itemsize)
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        ]


def whole_pages(size: int) -> int:
    """Returns the bytes of as many whole pages as hold `size` bytes."""
    return -(-size // PAGE_SIZE) * PAGE_SIZE


def too_large(size: int) -> MemoryError:
    """Returns the error for a batch that needs more memory than there is."""
    return MemoryError(
        f"expected {size} bytes for the arrays of the batch, but the machine does not "
        "have them. Use fewer environments or smaller observations."
    )


def _available() -> float:
    """Returns how many bytes of memory the machine can still give.

    A memory file may grow beyond them: then the kernel ends processes to make room.
    """
    with contextlib.suppress(OSError), open("/proc/meminfo") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return int(value.split()[0]) * 1024
    return math.inf


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT
