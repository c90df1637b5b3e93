"""Values as arrays of a wanted dtype, where nothing is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# A scalar may rise to a later class and never falls to an earlier one.
_NUMBER_CLASSES = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def as_dtype(value: Any, dtype: np.dtype[Any]) -> Array:
    """Returns `value` as an array, of `dtype` where no information is lost.

    That is so for another byte order, for shorter strings, and for scalars of Python
    and NumPy whose value stays, but for rounding of floats. Anything else keeps the
    dtype that `np.asarray` gives it; an array that has `dtype` already is not copied.

    >>> as_dtype(3, np.dtype(np.int8)), as_dtype(300, np.dtype(np.int8)).dtype
    (array(3, dtype=int8), dtype('int64'))

    Raises:
        ValueError: If `value` is a sequence whose items differ in shape.
    """
    array = np.asarray(value)
    if array.dtype == dtype:
        return array
    casting = "safe" if dtype.kind in "SU" else "equiv"
    same_kind = array.dtype.kind == dtype.kind
    if same_kind and np.can_cast(array.dtype, dtype, casting):
        return array.astype(dtype)
    is_scalar = isinstance(value, (bool, int, float, complex, np.generic))
    return array.astype(dtype) if is_scalar and _holds(dtype, array) else array


def _holds(dtype: np.dtype[Any], scalar: Array) -> bool:
    """Returns whether `scalar` in `dtype` is the same, but for rounding of floats."""
    found = _NUMBER_CLASSES.get(scalar.dtype.kind)
    wanted = _NUMBER_CLASSES.get(dtype.kind)
    if found is None or wanted is None or found > wanted:
        return False
    with np.errstate(over="ignore"):
        cast = scalar.astype(dtype)
    if dtype.kind in "fc":
        return bool(np.isfinite(cast) == np.isfinite(scalar))
    return bool(cast == scalar)
