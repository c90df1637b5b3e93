"""Specs of batches from specs of single arrays."""

from __future__ import annotations

from collections.abc import Iterable

from parallel_envs.specs import array_spec, checks, nest


def add_outer_dim(spec: nest.Nest, n: int | None) -> nest.Nest:
    """Returns a nest of specs with a dimension of size `n` put before each shape.

    >>> import numpy as np
    >>> add_outer_dim(array_spec.ArraySpec((3,), np.int32), 8)
    ArraySpec(shape=(8, 3), dtype=int32, name=None)

    Args:
        spec: A nest of specs.
        n: The size, or None for one that may vary.
    """
    return add_outer_dims_nest(spec, (n,))


def add_outer_dims_nest(
    structure: nest.Nest, outer_dims: Iterable[int | None]
) -> nest.Nest:
    """Returns a nest of specs with `outer_dims` put before each shape.

    Bounds stay in the shape they were given and apply to each element of the batch.
    """
    outer_shape = tuple(outer_dims)

    def add(spec: array_spec.ArraySpec) -> array_spec.ArraySpec:
        return spec.replace(shape=outer_shape + spec.shape)

    compiled = checks.spec_structure(structure, "spec")
    return compiled.pack([add(spec) for spec in compiled.specs])
