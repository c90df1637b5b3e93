"""Grey pictures made smaller."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


class AreaResize:
    """Makes uint8 pictures of one size smaller, each new pixel the mean of its area.

    What OpenCV's `INTER_AREA` does, rounded exactly (halves to the even number), where
    OpenCV's is off by one now and then. Most sizes have a common divisor: 210 rows
    become 84 as 42 blocks, in each of which 5 become 2. Either direction is then a
    product with one small matrix, which takes a third of OpenCV's time for the screen
    of an Atari. The weights are integers, and float32 holds their sums as they are.
    """

    def __init__(self, old_shape: tuple[int, int], new_shape: tuple[int, int]) -> None:
        """Keeps the memory that a picture takes on its way.

        Args:
            old_shape: Height and width, of at most 65,536 pixels.
            new_shape: Height and width, neither larger.
        """
        (height, width), (new_height, _) = old_shape, new_shape
        self._down = _weights(height, new_shape[0])
        self._across = np.ascontiguousarray(_weights(width, new_shape[1]).T)
        self._weight = np.float32(self._down[0].sum() * self._across[:, 0].sum())
        self._old = np.empty(old_shape, np.float32)
        self._lower = np.empty((new_height, width), np.float32)
        self._new = np.empty(new_shape, np.float32)
        # The same memory as the blocks that the matrices are for.
        new_rows, old_rows = self._down.shape
        old_columns, new_columns = self._across.shape
        self._old_rows = self._old.reshape(-1, old_rows, width)
        self._lower_rows = self._lower.reshape(-1, new_rows, width)
        self._lower_columns = self._lower.reshape(-1, old_columns)
        self._new_columns = self._new.reshape(-1, new_columns)

    def __call__(
        self, picture: npt.NDArray[np.uint8], out: npt.NDArray[np.uint8]
    ) -> None:
        """Writes `picture`, of the old shape, into `out`, of the new."""
        np.copyto(self._old, picture)
        np.matmul(self._down, self._old_rows, out=self._lower_rows)
        np.matmul(self._lower_columns, self._across, out=self._new_columns)
        # A product with the inverse would not be exact, and tip halves either way.
        np.divide(self._new, self._weight, out=self._new)
        np.rint(self._new, out=self._new)
        np.copyto(out, self._new, casting="unsafe")


def _weights(old: int, new: int) -> npt.NDArray[np.float32]:
    """Returns how much of each old pixel is in each new one, for the smallest block.

    Shape `[new, old]`, both divided by their common divisor, in shares of a pixel so
    small that each is an integer.
    """
    divisor = math.gcd(old, new)
    old, new = old // divisor, new // divisor
    # Both in units of which an old pixel has `new` and a new pixel `old`.
    starts, new_starts = np.arange(old) * new, np.arange(new)[:, np.newaxis] * old
    overlap = np.minimum(starts + new, new_starts + old) - np.maximum(
        starts, new_starts
    )
    return np.maximum(overlap, 0).astype(np.float32)
