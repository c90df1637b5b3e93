"""Arrays on one memory file that several processes map.

The file has no name: nothing to collide, nothing to leak, and no limit from
`/dev/shm`, which is 64 MB in many containers. Who inherits its descriptor maps it.
"""

from __future__ import annotations

import dataclasses
import errno
import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
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
    def create(cls) -> MemoryFile:
        """Returns a new, empty file; an unlinked one where memory files are not."""
        if hasattr(os, "memfd_create"):
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
            os.posix_fallocate(self.descriptor, 0, size)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
                raise
            raise MemoryError(
                f"expected {size} bytes of shared memory for the batch, but the "
                "machine does not have them. Use fewer environments, smaller "
                "observations or shared_memory=False."
            ) from error

    def map(self, size: int, offset: int = 0) -> mmap.mmap:
        """Returns `size` bytes at `offset`, shared with all who map them."""
        return mmap.mmap(self.descriptor, size, offset=offset)

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
        return self._ends()[-1] if self.shapes else 1

    def arrays(self, buffer: Any) -> list[npt.NDArray[Any]]:
        """Returns the arrays as views of `buffer`, which holds `size` bytes."""
        starts = [_aligned(end) for end in (0, *self._ends()[:-1])]
        return [
            np.ndarray(shape, dtype, buffer, start)
            for shape, dtype, start in zip(
                self.shapes, self.dtypes, starts, strict=False
            )
        ]

    def _ends(self) -> list[int]:
        return list(self._iterate_ends()) or [0]

    def _iterate_ends(self) -> Iterator[int]:
        end = 0
        for shape, dtype in zip(self.shapes, self.dtypes, strict=True):
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            end = _aligned(end) + max(size, 1)
            yield end


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT
