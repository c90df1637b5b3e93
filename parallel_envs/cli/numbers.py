"""Numbers as people read them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_UNITS = ("KiB", "MiB", "GiB", "TiB")


def formatted(value: Any) -> str:
    """Returns a number with about four digits, or each of a vector's.

    >>> formatted(22.416), formatted(500.0), formatted(12345.6), formatted([0.5, 2.0])
    ('22.42', '500', '12,346', '[0.5, 2]')
    """
    array = np.asarray(value, np.float64)
    if array.ndim:
        return f"[{', '.join(formatted(each) for each in array)}]"
    number = float(array)
    if math.isnan(number):
        return "-"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def num_bytes(count: float) -> str:
    """Returns a number of bytes in the unit that suits it.

    >>> num_bytes(512), num_bytes(3 * 2**20)
    ('512 bytes', '3.0 MiB')
    """
    if count < 1024:
        return f"{count:.0f} bytes"
    power = min(int(math.log2(count)) // 10, len(_UNITS))
    return f"{count / 1024**power:.1f} {_UNITS[power - 1]}"
