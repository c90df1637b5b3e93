"""Tests for specs/batching.py."""

from __future__ import annotations

import numpy as np
import pytest

from parallel_envs import specs
from parallel_envs.specs import ArraySpec, BoundedArraySpec


def test_an_outer_dimension_is_put_before_each_shape() -> None:
    spec = {"a": ArraySpec((2, 3), np.int8, "a"), "b": (ArraySpec((), bool),)}

    batched = specs.add_outer_dim(spec, 4)

    assert batched == {
        "a": ArraySpec((4, 2, 3), np.int8),
        "b": (ArraySpec((4,), bool),),
    }
    assert batched["a"].name == "a"


def test_bounds_by_element_hold_for_each_row() -> None:
    spec = BoundedArraySpec((2,), np.float32, [0, 1], [1, 2])

    batched = specs.add_outer_dims_nest(spec, (4, 3))

    assert batched.shape == (4, 3, 2)
    assert batched.minimum.shape == (2,)
    assert batched.check_array(np.ones((4, 3, 2), np.float32))
    assert not batched.check_array(np.zeros((4, 3, 2), np.float32))
    assert specs.add_outer_dims_nest(spec, ()) == spec


def test_the_outer_dimension_may_vary() -> None:
    assert specs.add_outer_dim(ArraySpec((2,), np.int8), None).shape == (None, 2)


def test_leaves_that_are_no_specs_are_refused_by_path() -> None:
    with pytest.raises(
        TypeError, match=r"^spec\['a'\]: expected an ArraySpec, got int"
    ):
        specs.add_outer_dim({"a": 1}, 2)
