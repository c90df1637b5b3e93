"""Shapes, dtypes and bounds of arrays that have not been made yet."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from parallel_envs.specs import bounds, casting

Array = npt.NDArray[Any]
_Spec = TypeVar("_Spec", bound="ArraySpec")


class ArraySpec:
    """The shape and dtype of an array.

    Specs are immutable, hash and pickle, so they can key a cache and travel to a
    worker. Two specs are equal when shape and dtype agree; the name only labels. A spec
    with bounds never equals one without.

    >>> camera = ArraySpec((84, 84, 3), np.uint8, name="camera")
    >>> camera == ArraySpec((84, 84, 3), np.uint8)
    True
    >>> ArraySpec((None, 2), np.float32).is_variable
    True
    """

    __slots__ = ("_dtype", "_name", "_shape")

    def __init__(
        self,
        shape: Iterable[int | None],
        dtype: npt.DTypeLike,
        name: str | None = None,
    ) -> None:
        """Describes an array.

        Args:
            shape: Size of each dimension, `()` for a scalar. None marks a size that
                may differ from one array to the next.
            dtype: Anything that `np.dtype` takes, but None, which NumPy would take for
                float64.
            name: Label, or None.

        Raises:
            TypeError: If an argument is not of its kind.
            ValueError: If a size is negative.
        """
        self._shape = _checked_shape(shape)
        self._dtype = _checked_dtype(dtype)
        self._name = _checked_name(name)

    @classmethod
    def from_array(
        cls: type[_Spec], array: npt.ArrayLike, name: str | None = None
    ) -> _Spec:
        """Returns the spec that `array` fits; bounds are the dtype's extremes."""
        array = np.asarray(array)
        return cls(array.shape, array.dtype, name=name)

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> ArraySpec:
        """Returns an `ArraySpec` of `spec`, without bounds.

        Args:
            spec: Any object with `shape` and `dtype`, also of another library.
            name: Label; None takes over that of `spec`, if it has one.
        """
        return ArraySpec(spec.shape, spec.dtype, name or getattr(spec, "name", None))

    # Not `int | None`, so that NumPy's functions take the shape as it is.
    @property
    def shape(self) -> tuple[Any, ...]:
        """Size of each dimension, None where it may vary."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self._dtype

    @property
    def name(self) -> str | None:
        """Label, or None."""
        return self._name

    @property
    def is_variable(self) -> bool:
        """Whether a size may differ from one array to the next."""
        return None in self._shape

    def check_array(self, array: Any) -> bool:
        """Returns whether `array`, an array or a number, fits as it is.

        As in TF-Agents, a Python number has the dtype NumPy gives its type (float64 for
        a float) and a list never fits. `validate` tells what is wrong.
        """
        if not isinstance(array, (np.ndarray, np.generic, int, float, complex)):
            return False
        array = np.asarray(array)
        return bool(array.dtype == self._dtype) and self._misfit(array) is None

    def validate(self, value: Any, name: str | None = None) -> Array:
        """Returns `value` as an array of this spec, without copying one that fits.

        Anything `np.asarray` takes is taken. Scalars of Python and NumPy become the
        spec's dtype where that keeps their value (floats are rounded), as does another
        byte order. Arrays are not cast: float64 for a float32 spec is most often a
        mistake that a cast would hide.

        >>> ArraySpec((), np.float32).validate(1)
        array(1., dtype=float32)
        >>> BoundedArraySpec((2,), np.int64, 0, 9).validate([3, 10], name="action")
        Traceback (most recent call last):
        ...
        ValueError: action does not fit its spec: ...most 9, got 10 at index (1,).

        Args:
            value: The array or number.
            name: What to call it in errors; None takes the spec's name.

        Raises:
            ValueError: If shape, dtype or bounds do not fit.
        """
        label = name or self._name or "value"
        try:
            array = casting.as_dtype(value, self._dtype)
        except ValueError as error:  # For example a list of lists of many lengths.
            raise ValueError(
                f"{label} does not fit its spec: expected {describe(self)}, got what "
                f"NumPy cannot take for an array: {error}"
            ) from error
        misfit = self._misfit(array)
        if misfit is not None:
            raise ValueError(f"{label} does not fit its spec: {misfit}.")
        return array

    def replace(self: _Spec, **changes: Any) -> _Spec:
        """Returns this spec with some of its constructor's arguments changed.

        >>> ArraySpec((2,), np.int32, "a").replace(name="b")
        ArraySpec(shape=(2,), dtype=int32, name='b')
        """
        return type(self)(**{**self._arguments(), **changes})

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, ArraySpec)
        return self._shape == other._shape and self._dtype == other._dtype

    def __hash__(self) -> int:
        return hash((self._shape, self._dtype))

    def __repr__(self) -> str:
        arguments = self._arguments()
        text = ", ".join(f"{key}={_short(arguments[key])}" for key in arguments)
        return f"{type(self).__name__}({text})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self._arguments().values())

    def _arguments(self) -> dict[str, Any]:
        """Returns the constructor's arguments, in its order."""
        return {"shape": self._shape, "dtype": self._dtype, "name": self._name}

    def _misfit(self, array: Array) -> str | None:
        """Returns what keeps `array` from fitting, or None."""
        if array.dtype == self._dtype and _shape_fits(array.shape, self._shape):
            return None
        return f"expected {describe(self)}, got {describe(array)}"


class BoundedArraySpec(ArraySpec):
    """An `ArraySpec` whose values lie between `minimum` and `maximum`, both included.

    Equality and hash take the bounds broadcast to the shape.

    >>> steering = BoundedArraySpec((2,), np.float32, -1, [1, 2], name="steering")
    >>> steering.minimum
    array(-1., dtype=float32)
    >>> steering == BoundedArraySpec((2,), np.float32, [-1, -1], [1, 2])
    True
    >>> BoundedArraySpec((), np.uint8).maximum
    array(255, dtype=uint8)
    """

    __slots__ = ("_maximum", "_minimum")

    def __init__(
        self,
        shape: Iterable[int | None],
        dtype: npt.DTypeLike,
        minimum: npt.ArrayLike | None = None,
        maximum: npt.ArrayLike | None = None,
        name: str | None = None,
    ) -> None:
        """Describes an array with bounds.

        Args:
            shape: Size of each dimension, None where it may vary.
            dtype: A boolean, integer or floating dtype.
            minimum: Smallest values, broadcast to `shape` (a size that may vary needs
                a 1). None and infinite ones are the dtype's finite extremes.
            maximum: Largest values, likewise.
            name: Label, or None.

        Raises:
            TypeError: If an argument is not of its kind.
            ValueError: If the dtype has no order, or a bound is not a number, does
                not broadcast to `shape`, lies outside of the dtype or is a fraction
                where the dtype has none, or if a minimum is above its maximum.
        """
        super().__init__(shape, dtype, name)
        low, high = self._extremes()
        self._minimum = self._bound("minimum", low if minimum is None else minimum)
        self._maximum = self._bound("maximum", high if maximum is None else maximum)
        if np.any(self._minimum > self._maximum):
            raise ValueError(
                f"{self._label()}: expected a minimum of at most the maximum, got "
                f"minimum {_short(self._minimum)} and maximum {_short(self._maximum)}."
            )

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> BoundedArraySpec:
        """Returns a `BoundedArraySpec` of `spec`.

        Args:
            spec: Any object with `shape` and `dtype`, also of another library. If it
                has no `minimum` and `maximum`, the bounds are the dtype's extremes.
            name: Label; None takes over that of `spec`, if it has one.
        """
        return BoundedArraySpec(
            spec.shape,
            spec.dtype,
            getattr(spec, "minimum", None),
            getattr(spec, "maximum", None),
            name or getattr(spec, "name", None),
        )

    @property
    def minimum(self) -> Array:
        """Smallest values: read-only, of the spec's dtype, in the shape given."""
        return self._minimum

    @property
    def maximum(self) -> Array:
        """Largest values: read-only, of the spec's dtype, in the shape given."""
        return self._maximum

    @property
    def num_values(self) -> Array | None:
        """How many values each element can take, or None for a floating dtype.

        An array of the spec's shape (1 for sizes that may vary) of int64, or of Python
        integers where those are too small.

        >>> int(BoundedArraySpec((), np.uint8).num_values)
        256
        """
        if not is_discrete(self):
            return None
        counts = np.empty(_fixed(self._shape), object)
        low, high = self._minimum.astype(object), self._maximum.astype(object)
        counts[...] = high - low + 1
        try:
            return counts.astype(np.int64)
        except OverflowError:
            return counts

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, BoundedArraySpec)
        return (
            super().__eq__(other)
            and self._same(self._minimum, other._minimum)
            and self._same(self._maximum, other._maximum)
        )

    def __hash__(self) -> int:
        # The extremes of the bounds do not change when the bounds are broadcast.
        if 0 in self._shape:
            return super().__hash__()
        return hash(
            (super().__hash__(), self._minimum.min().item(), self._maximum.max().item())
        )

    def _arguments(self) -> dict[str, Any]:
        return {
            "shape": self._shape,
            "dtype": self._dtype,
            "minimum": self._minimum,
            "maximum": self._maximum,
            "name": self._name,
        }

    def _misfit(self, array: Array) -> str | None:
        misfit = super()._misfit(array)
        if misfit is not None:
            return misfit
        # Written so that NaN, which compares as False with everything, is out.
        for outside, relation, bound in (
            (~(array >= self._minimum), "at least", self._minimum),
            (~(array <= self._maximum), "at most", self._maximum),
        ):
            if outside.any():
                return _first_outside(array, outside, relation, bound)
        return None

    def _extremes(self) -> tuple[Any, Any]:
        try:
            return bounds.dtype_range(self._dtype)
        except ValueError as error:
            raise ValueError(f"{self._label()}: {error}") from None

    def _bound(self, which: str, value: npt.ArrayLike) -> Array:
        try:
            bound = bounds.bound_of_dtype(value, self._dtype)
            np.broadcast_to(bound, _fixed(self._shape))
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(
                f"{self._label()}: the {which} does not fit {describe(self)}: {error}."
            ) from None
        bound.setflags(write=False)
        return bound

    def _label(self) -> str:
        return self._name or type(self).__name__

    def _same(self, left: Array, right: Array) -> bool:
        shape = _fixed(self._shape)
        return np.array_equal(
            np.broadcast_to(left, shape), np.broadcast_to(right, shape)
        )


def is_bounded(spec: ArraySpec) -> bool:
    """Returns whether `spec` has bounds."""
    return isinstance(spec, BoundedArraySpec)


def is_discrete(spec: ArraySpec) -> bool:
    """Returns whether the values of `spec` are integers or booleans."""
    return spec.dtype.kind in "biu"


def is_continuous(spec: ArraySpec) -> bool:
    """Returns whether the values of `spec` are floating point numbers."""
    return spec.dtype.kind == "f"


def describe(thing: ArraySpec | Array) -> str:
    """Returns dtype and shape as errors write them.

    >>> describe(ArraySpec((5, None), np.float32))
    'float32 of shape (5, None)'
    """
    return f"{thing.dtype} of shape {thing.shape}"


def _checked_shape(shape: Iterable[int | None]) -> tuple[int | None, ...]:
    try:
        sizes = tuple(None if size is None else operator.index(size) for size in shape)
    except TypeError:
        raise TypeError(
            f"shape: expected a sequence of integers or None, got {shape!r}."
        ) from None
    if any(size is not None and size < 0 for size in sizes):
        raise ValueError(f"shape: expected sizes of at least 0, got {sizes}.")
    return sizes


def _checked_dtype(dtype: Any) -> np.dtype[Any]:
    if dtype is None:
        raise TypeError("dtype: expected what np.dtype takes, got None.")
    return np.dtype(dtype)


def _checked_name(name: Any) -> str | None:
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name: expected a string or None, got {name!r}.")
    return name


def _shape_fits(found: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    return found == expected or (
        len(found) == len(expected)
        and all(b is None or a == b for a, b in zip(found, expected, strict=True))
    )


def _fixed(shape: tuple[int | None, ...]) -> tuple[int, ...]:
    """Returns the shape that bounds broadcast to: 1 for a size that may vary."""
    return tuple(1 if size is None else size for size in shape)


def _first_outside(
    array: Array, outside: npt.NDArray[np.bool_], relation: str, bound: Array
) -> str:
    index = tuple(int(i) for i in np.argwhere(outside)[0])
    limit = np.broadcast_to(bound, array.shape)[index]
    where = f" at index {index}" if index else ""
    return f"expected values of {relation} {limit}, got {array[index]}{where}"


def _short(value: Any) -> str:
    if issubclass(type(value), np.dtype):
        return str(value)
    if not issubclass(type(value), np.ndarray):
        return repr(value)
    text = np.array2string(value, separator=", ", threshold=8)
    return " ".join(text.split())
