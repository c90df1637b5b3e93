"""Checks actions and writes them into the batch's arrays, once for each leaf."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from parallel_envs.batch.row_writer import rows_of, split_variable, without_mask
from parallel_envs.specs import array_spec, nest

Array = npt.NDArray[Any]
_Checked = tuple[int, Callable[[Any], Array], Array]  # Position, check, and where to.


class ActionWriter:
    """Takes the actions of B rows, checks all of them, and only then writes them."""

    def __init__(
        self,
        action_spec: nest.Nest,
        arrays: Sequence[Array],
        num_rows: int,
        *,
        validate: bool,
    ) -> None:
        """Prepares a check for each leaf.

        Args:
            action_spec: For one row.
            arrays: For each leaf of one size an array `[num_rows, ...]`.
            num_rows: B.
            validate: False checks structure and shape only, and casts anything.
        """
        structure = nest.Structure(action_spec, "action")
        self._structure, self._validate = structure, validate
        self._flatten = structure.flatten
        fixed, variable = split_variable(structure.specs)
        self._arrays = list(zip(fixed, arrays, strict=True))
        self._fixed = self._checks_of(num_rows)
        self._some: dict[int, list[_Checked]] = {}  # The same for fewer rows.
        rows = [
            leaf_check(spec, path, (), validate=validate)
            for spec, path in zip(structure.specs, structure.paths, strict=True)
        ]
        self._variable = [
            (position, rows[position], structure.paths[position])
            for position in variable
        ]
        self._num_rows = num_rows

    def write(
        self, action: nest.Nest, rows: Sequence[int] | None = None
    ) -> dict[int, list[Array]] | None:
        """Writes the actions; returns those that fit into no array, by position.

        Args:
            action: Leaves `[B, ...]`, or with as many rows as are given.
            rows: Which rows they are of; None for all, in order.

        Raises:
            ValueError: If structure, shape, a value or the batch does not fit, with the
                path. Nothing was written then.
        """
        leaves = self._flatten(action)
        fixed, num_rows, place = self._fixed, self._num_rows, ...
        if rows is not None:
            num_rows, place = len(rows), list(rows)
            if num_rows not in self._some:
                self._some[num_rows] = self._checks_of(num_rows)
            fixed = self._some[num_rows]
        checked = [check(leaves[position]) for position, check, _ in fixed]
        extras = None
        if self._variable:
            extras = {
                position: self._rows_of(leaves[position], check, path, num_rows)
                for position, check, path in self._variable
            }
        for value, (_, _, array) in zip(checked, fixed, strict=True):
            array[place] = value
        return extras

    def _checks_of(self, num_rows: int) -> list[_Checked]:
        specs, paths = self._structure.specs, self._structure.paths
        return [
            (
                position,
                leaf_check(
                    specs[position],
                    paths[position],
                    (num_rows,),
                    validate=self._validate,
                ),
                array,
            )
            for position, array in self._arrays
        ]

    def _rows_of(
        self, leaf: Any, check: Callable[[Any], Array], path: str, num_rows: int
    ) -> list[Array]:
        rows = rows_of(leaf, num_rows, path)
        # Copies, since environments in this process may keep them.
        return [np.array(check(row)) for row in rows]


def leaf_check(
    spec: array_spec.ArraySpec, path: str, outer: tuple[int, ...], *, validate: bool
) -> Callable[[Any], Array]:
    """Returns a function that returns its argument as an array for a leaf.

    The function takes lists, tensors, any strides and any byte order, casts where no
    value changes, and raises ValueError otherwise, or if an integer is out of bounds.
    """
    shape, dtype = (*outer, *spec.shape), spec.dtype
    check_bounds = _bounds_check(spec, path) if validate else None

    def check(value: Any) -> Array:
        array = value if type(value) is np.ndarray else _as_array(value, shape, path)
        if array.shape != shape and not _shape_fits(array.shape, shape):
            raise _misfit(path, dtype, shape, array)
        if array.dtype != dtype:
            array = _cast(array, dtype, shape, path, validate)
        if check_bounds is not None:
            check_bounds(array)
        return array

    return check


def _as_array(value: Any, shape: tuple[int | None, ...], path: str) -> Array:
    try:
        return np.asarray(without_mask(value))
    except ValueError as error:  # A ragged list, or masked.
        raise ValueError(
            f"{path}: expected an array of shape {shape}, got {value!r:.200} ({error})."
        ) from None


def _shape_fits(found: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    return len(found) == len(expected) and all(
        size in (None, other) for size, other in zip(expected, found, strict=True)
    )


def _cast(
    array: Array,
    dtype: np.dtype[Any],
    shape: tuple[int | None, ...],
    path: str,
    validate: bool,
) -> Array:
    is_wider = array.dtype.kind == "c" and dtype.kind != "c"
    if is_wider or (array.dtype.hasobject and not dtype.hasobject):
        raise _misfit(path, dtype, shape, array)
    try:
        with np.errstate(all="ignore"):
            cast = array.astype(dtype)
    except (TypeError, ValueError):
        raise _misfit(path, dtype, shape, array) from None
    if not validate:
        return cast
    if array.dtype.kind in "fc" and dtype.kind in "fc":
        # A float32 is as near to a float64 as the environment can know it.
        changed = np.isfinite(cast) != np.isfinite(array)
    elif array.dtype.kind in "iu" and dtype.kind in "fc":
        with np.errstate(all="ignore"):  # There and back, as comparing rounds too.
            back: Array = np.real(cast).astype(array.dtype)
        # What has become infinite may come back as the least integer, which it was.
        changed = np.asarray((back != array) | ~np.isfinite(cast))
    else:
        changed = np.asarray(cast != array)
    if changed.any():
        raise ValueError(
            f"{path}: expected values of {dtype}, got {array[changed][0].item()!r}"
            f"{_in_row(changed)} ({array.dtype}), which it cannot hold."
        )
    return cast


def _bounds_check(
    spec: array_spec.ArraySpec, path: str
) -> Callable[[Array], None] | None:
    """Returns a check of integer bounds; None where every value is within them."""
    if not isinstance(spec, array_spec.BoundedArraySpec) or spec.dtype.kind not in "iu":
        return None
    limits = np.iinfo(spec.dtype)
    low, high = spec.minimum, spec.maximum
    if (low == limits.min).all() and (high == limits.max).all():
        return None

    # Seen as unsigned what is below 0 is above all: half the work where that is the
    # least, as it mostly is, and there is one number for all that is the most.
    is_simple = spec.dtype.kind == "i" and not low.any() and high.ndim == 0
    unsigned = np.dtype(f"u{spec.dtype.itemsize}").newbyteorder(spec.dtype.byteorder)
    most = high.astype(unsigned)

    def check(array: Array) -> None:
        if is_simple:
            outside: Any = array.view(unsigned) > most
        else:
            outside = (array < low) | (array > high)
        if 1 in outside.tobytes():  # A third of the time of `any` where rows are few.
            raise ValueError(
                f"{path}: expected values from {_short(low)} to {_short(high)}, got "
                f"{array[outside][0]}{_in_row(outside)}."
            )

    return check


def _in_row(which: npt.NDArray[np.bool_]) -> str:
    return f" in row {int(np.argwhere(which)[0, 0])}" if which.ndim else ""


def _short(bound: Array) -> str:
    return str(bound) if bound.ndim == 0 else str(bound.tolist())


def _misfit(
    path: str, dtype: np.dtype[Any], shape: tuple[int | None, ...], array: Array
) -> ValueError:
    return ValueError(
        f"{path}: expected {dtype} of shape {shape}, got {array.dtype} of shape "
        f"{array.shape}."
    )
