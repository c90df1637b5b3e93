"""Bounds as arrays of the dtype that they bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def dtype_range(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Returns the smallest and the largest finite value of `dtype`.

    Raises:
        ValueError: If `dtype` is neither boolean nor integer nor floating.
    """
    if dtype.kind == "b":
        return False, True
    if dtype.kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    if dtype.kind == "f":
        return np.finfo(dtype).min, np.finfo(dtype).max
    raise ValueError(f"expected a boolean, integer or floating dtype, got {dtype}.")


def bound_of_dtype(value: npt.ArrayLike, dtype: np.dtype[Any]) -> Array:
    """Returns `value` as a new array of `dtype`.

    Infinite elements become the finite extremes of the dtype. Floats are rounded.

    Raises:
        ValueError: If a value is not a number, lies outside of the dtype, or is a
            fraction where the dtype has none.
        TypeError: If NumPy finds no numbers in `value`.
    """
    given = np.asarray(value)
    if given.dtype.kind not in "biufO":
        raise ValueError(f"expected numbers, got {given.dtype}")
    if given.dtype.kind == "f" and np.isnan(given).any():
        raise ValueError("it is not a number")
    if dtype.kind == "f":
        return _float_bound(given, dtype)
    return _integer_bound(given, dtype)


def _float_bound(given: Array, dtype: np.dtype[Any]) -> Array:
    with np.errstate(over="ignore"):
        bound = np.array(given, dtype)
    infinite = np.isinf(given) if given.dtype.kind == "f" else False
    # Asked after rounding: float32's maximum is printed as a number just above it.
    if (np.isinf(bound) & ~np.asarray(infinite)).any():
        raise ValueError(f"{given} is outside of {_range_text(dtype)}")
    low, high = dtype_range(dtype)
    bound[bound == -np.inf] = low
    bound[bound == np.inf] = high
    return bound


def _integer_bound(given: Array, dtype: np.dtype[Any]) -> Array:
    low, high = dtype_range(dtype)
    if given.dtype.kind != "f":
        _check_range(given, dtype)
        return np.array(given, dtype)
    finite = np.where(np.isfinite(given), given, 0)
    if (finite != np.trunc(finite)).any():
        raise ValueError(f"{given} has fractions, which {dtype} has not")
    _check_range(finite, dtype)
    bound = np.array(finite, dtype)
    bound[given == -np.inf] = low
    bound[given == np.inf] = high
    return bound


def _check_range(given: Array, dtype: np.dtype[Any]) -> None:
    low, high = dtype_range(dtype)
    if not given.size:
        return
    # Python's integers compare exactly; NumPy would go through float64 for some pairs.
    for value in (int(given.min()), int(given.max())):
        if not low <= value <= high:
            raise ValueError(f"{value} is outside of {_range_text(dtype)}")


def _range_text(dtype: np.dtype[Any]) -> str:
    low, high = dtype_range(dtype)
    return f"the range of {dtype}, {low} to {high}"
