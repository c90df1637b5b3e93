"""Arrays made from their specs: random ones, and zeros."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from parallel_envs.specs import array_spec, checks, nest

Array = npt.NDArray[Any]
Random: TypeAlias = np.random.Generator | np.random.RandomState

_LARGEST_VARIABLE_SIZE = 4


def sample(spec: nest.Nest, rng: Random, outer_dims: Iterable[int] = ()) -> nest.Nest:
    """Returns random arrays that fit a nest of specs.

    Integers and booleans are uniform between their bounds, both included. Floats are
    uniform between theirs as well; without bounds that is the whole finite range of
    the dtype, so nearly all of them are huge, as in TF-Agents. A size that may vary is
    drawn from 1 to 4, once for all of `outer_dims`.

    >>> spec = array_spec.BoundedArraySpec((2,), np.int32, 0, [0, 255])
    >>> sample(spec, np.random.default_rng(0), outer_dims=(5,)).shape
    (5, 2)

    Args:
        spec: A nest of specs, of boolean, integer or floating dtypes.
        rng: Source of randomness. From a RandomState a seed is drawn at each call.
        outer_dims: Sizes to put before each shape.

    Returns:
        A nest of new arrays of shape `[*outer_dims, *spec.shape]`.

    Raises:
        TypeError: If `rng` is neither a Generator nor a RandomState.
        ValueError: If a dtype has no bounds to sample between.
    """
    generator = _generator(rng)
    outer_shape = tuple(outer_dims)
    structure = checks.spec_structure(spec, "spec")
    return structure.pack(
        [_sample_leaf(leaf, generator, outer_shape) for leaf in structure.specs]
    )


sample_spec_nest = sample


def sample_bounded_spec(spec: array_spec.BoundedArraySpec, rng: Random) -> Array:
    """Returns one random array that fits `spec`, as `sample` draws it."""
    return _sample_leaf(spec, _generator(rng), ())


def zeros(spec: nest.Nest, outer_dims: Iterable[int] = ()) -> nest.Nest:
    """Returns arrays of zeros of a nest of specs, whatever their bounds.

    A size that may vary is 0.

    Args:
        spec: A nest of specs.
        outer_dims: Sizes to put before each shape.

    Returns:
        A nest of new arrays of shape `[*outer_dims, *spec.shape]`.
    """
    outer_shape = tuple(outer_dims)

    def make(leaf: array_spec.ArraySpec) -> Array:
        shape = tuple(size or 0 for size in leaf.shape)
        return np.zeros(outer_shape + shape, leaf.dtype)

    structure = checks.spec_structure(spec, "spec")
    return structure.pack([make(leaf) for leaf in structure.specs])


def _generator(rng: Any) -> np.random.Generator:
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, np.random.RandomState):
        # A RandomState has no integers of the full range with bounds by element.
        return np.random.default_rng(rng.randint(0, 2**32, size=4, dtype=np.uint64))
    raise TypeError(
        "rng: expected a numpy.random.Generator or RandomState, got "
        f"{type(rng).__name__}. Make one with numpy.random.default_rng(seed)."
    )


def _sample_leaf(
    spec: array_spec.ArraySpec,
    generator: np.random.Generator,
    outer_shape: tuple[int, ...],
) -> Array:
    bounded = array_spec.BoundedArraySpec.from_spec(spec)
    inner_shape = tuple(
        int(generator.integers(1, _LARGEST_VARIABLE_SIZE, endpoint=True))
        if size is None
        else size
        for size in spec.shape
    )
    draw = _floats if array_spec.is_continuous(spec) else _integers
    array = draw(bounded.minimum, bounded.maximum, outer_shape + inner_shape, generator)
    # A scalar of NumPy, where there are no dimensions, becomes an array.
    return np.asarray(array, spec.dtype)


def _integers(
    low: Array, high: Array, shape: tuple[int, ...], generator: np.random.Generator
) -> Array:
    native: Any = low.dtype.type  # The generator refuses another byte order.
    drawn: Any = generator.integers(
        low.astype(native), high.astype(native), shape, native, endpoint=True
    )
    return drawn


def _floats(
    low: Array, high: Array, shape: tuple[int, ...], generator: np.random.Generator
) -> Array:
    # Mixed rather than scaled, because `high - low` may be beyond the dtype.
    weight = generator.random(shape).astype(np.result_type(low.dtype, np.float64))
    with np.errstate(over="ignore"):  # Rounding may lead past an extreme.
        mixed = np.asarray(low * (1 - weight) + high * weight).astype(low.dtype)
    return np.minimum(np.maximum(mixed, low), high)
