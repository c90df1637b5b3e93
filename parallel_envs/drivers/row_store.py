"""What each row of a batch said last, kept so that some rows can be taken out."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from parallel_envs.specs import nest

Nest = nest.Nest
Rows = npt.NDArray[np.intp]


class RowStore:
    """A nest with B rows; what is taken out is a copy, and what is put in is copied.

    A leaf is an array `[B, ...]`, or a list of B where its size varies.
    """

    def __init__(
        self,
        structure: nest.Structure,
        values: Nest,
        num_rows: int,
        *,
        keeps_others: bool = False,
    ) -> None:
        """Takes in all rows.

        Args:
            structure: Made of specs, or of values where there are none.
            values: With B rows in each leaf.
            num_rows: B.
            keeps_others: Whether a leaf may be something else than rows, which is then
                handed out as it was put in last.

        Raises:
            ValueError: If the structure differs, or a leaf has another number of rows.
        """
        self._structure = structure
        self._leaves = [
            _leaf(spec, value, path, num_rows, keeps_others)
            for spec, value, path in zip(
                structure.specs, structure.flatten(values), structure.paths, strict=True
            )
        ]

    def take(self, rows: Rows) -> Nest:
        """Returns some rows, in their order."""
        return self._structure.pack([leaf.take(rows) for leaf in self._leaves])

    def put(self, rows: Rows, values: Nest) -> None:
        """Takes in some rows.

        Raises:
            ValueError: If the structure, a shape or the number of rows differs.
        """
        leaves = self._structure.flatten(values)
        for leaf, value in zip(self._leaves, leaves, strict=True):
            leaf.put(rows, value)

    def put_from(self, rows: Rows, values: Nest) -> None:
        """Takes in some rows of values that have all B; what is no rows stays."""
        leaves = self._structure.flatten(values)
        for leaf, value in zip(self._leaves, leaves, strict=True):
            if not isinstance(leaf, _Other):
                leaf.put(rows, np.asarray(value)[rows])

    def all(self) -> Nest:
        """Returns all rows: the store's own arrays, to be handed out at the end."""
        return self._structure.pack([leaf.value for leaf in self._leaves])


class _Leaf(Protocol):
    value: Any

    def take(self, rows: Rows) -> Any: ...

    def put(self, rows: Rows, value: Any) -> None: ...


class _Array:
    """One array for all rows."""

    def __init__(self, array: npt.NDArray[Any], path: str) -> None:
        self.value, self._path = array.copy(), path

    def take(self, rows: Rows) -> npt.NDArray[Any]:
        return self.value.take(rows, 0)

    def put(self, rows: Rows, value: Any) -> None:
        array = np.asarray(value)
        store = self.value
        if array.shape[:1] != rows.shape or array.shape[1:] != store.shape[1:]:
            expected = (len(rows), *store.shape[1:])
            raise ValueError(
                f"{self._path}: expected {store.dtype} of shape {expected}, a row for "
                f"each that was asked about, got {nest.describe(array)}."
            )
        if array.dtype != store.dtype:
            # Rows that have come as another type keep their values.
            wider = np.promote_types(array.dtype, store.dtype)
            self.value = store = store.astype(wider, copy=False)
        store[rows] = array


class _List:
    """A list of values, one for each row."""

    def __init__(self, values: Any) -> None:
        self.value = list(values)

    def take(self, rows: Rows) -> list[Any]:
        return [self.value[row] for row in rows]

    def put(self, rows: Rows, value: Any) -> None:
        for row, own in zip(rows, value, strict=True):
            self.value[row] = own


class _Other:
    """Something that has no rows."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def take(self, rows: Rows) -> Any:
        return self.value

    def put(self, rows: Rows, value: Any) -> None:
        self.value = value


def _leaf(spec: Any, value: Any, path: str, num_rows: int, keeps_others: bool) -> _Leaf:
    if _varies(spec):
        return _List(value)
    if keeps_others and getattr(value, "shape", ())[:1] != (num_rows,):
        return _Other(value)
    array = np.asarray(value)
    if array.shape[:1] != (num_rows,):
        raise ValueError(
            f"{path}: expected a row for each of {num_rows} environments, got "
            f"{nest.describe(array)}."
        )
    return _Array(array, path)


def _varies(spec: Any) -> bool:
    """Whether rows are told as a list; by the fields, since a spec may be another's."""
    if isinstance(spec, np.ndarray) or not hasattr(spec, "dtype"):
        return False  # It is a value.
    return None in tuple(spec.shape) or getattr(spec.dtype, "hasobject", False)
