"""Specs and time steps there and back."""

from __future__ import annotations

import collections
import warnings
from typing import Any

import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import array_spec, tensor_spec
from tf_agents.trajectories import time_step as tf_time_step

import parallel_envs as pe
from parallel_envs.adapters import tf_agents as adapter

NUMBERS = [
    np.dtype(kind + size)
    for kind, sizes in {"i": "1248", "u": "1248", "f": "248"}.items()
    for size in sizes
]
OTHERS = [np.dtype(name) for name in ("bool", "complex64", "U", "S")]
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
names = st.none() | st.text("abc_", max_size=5)


@st.composite
def bounded(draw: Any) -> pe.BoundedArraySpec:
    """Draws bounds for all elements or for each, infinite ones among them, or none."""
    dtype, shape = draw(st.sampled_from(NUMBERS)), draw(shapes)
    bounds = []
    for _ in range(2):
        elements = hnp.from_dtype(dtype, allow_nan=False)
        bound_shape = draw(st.sampled_from([(), shape, shape[-1:]]))
        bounds.append(draw(hnp.arrays(dtype, bound_shape, elements=elements)))
    if draw(st.booleans()):
        return pe.BoundedArraySpec(shape, dtype, None, None, draw(names))
    low, high = np.minimum(*bounds), np.maximum(*bounds)
    return pe.BoundedArraySpec(shape, dtype, low, high, draw(names))


unbounded = st.builds(pe.ArraySpec, shapes, st.sampled_from([*NUMBERS, *OTHERS]), names)
nests = st.recursive(
    bounded() | unbounded,
    lambda parts: (
        st.dictionaries(st.text("xyz", min_size=1), parts, max_size=3)
        | st.lists(parts, max_size=2)
        | st.lists(parts, max_size=2).map(tuple)
    ),
    max_leaves=5,
)


@hypothesis.given(nests)
@hypothesis.settings(deadline=None)
def test_specs_there_and_back_are_the_same(spec: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theirs = adapter.to_tf_agents_spec(spec)
        back = adapter.from_tf_agents_spec(theirs)

    assert_same(back, spec)
    tf.nest.map_structure(check_is_theirs, theirs)


def check_is_theirs(leaf: Any) -> None:
    assert isinstance(leaf, array_spec.ArraySpec)


def assert_same(found: Any, expected: Any) -> None:
    assert found == expected
    assert type(found) is type(expected)
    for one, other in zip(
        tf.nest.flatten(found), tf.nest.flatten(expected), strict=True
    ):
        assert (type(one), one.name) == (type(other), other.name)


@pytest.mark.parametrize(
    ("minimum", "maximum"),
    [
        (None, None),
        (-np.inf, np.inf),
        ([-np.inf, -1, 0, 0, 0, 0, 0], np.inf),
        (np.full(7, -2.5), np.arange(7.0)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_bounds_of_floats_convert_without_a_warning(
    minimum: Any, maximum: Any, dtype: Any
) -> None:
    ours = pe.BoundedArraySpec((7,), dtype, minimum, maximum)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theirs = adapter.to_tf_agents_spec(ours)
        tensors = tensor_spec.from_spec(theirs)

    for spec in (theirs, tensors):
        np.testing.assert_array_equal(spec.minimum, ours.minimum)
        np.testing.assert_array_equal(spec.maximum, ours.maximum)
    assert adapter.from_tf_agents_spec(tensors) == ours


def test_booleans_have_no_bounds_in_tf_agents() -> None:
    theirs = adapter.to_tf_agents_spec(pe.BoundedArraySpec((2,), np.bool_, name="jump"))

    assert type(theirs) is array_spec.ArraySpec
    assert (theirs.dtype, theirs.name) == (np.bool_, "jump")
    assert adapter.from_tf_agents_spec(theirs) == pe.ArraySpec((2,), np.bool_)


def test_tensor_specs_become_ours() -> None:
    spec = {
        "a": tf.TensorSpec((2,), tf.float32, "a"),
        "b": tensor_spec.BoundedTensorSpec((), tf.int64, 0, 3),
    }

    assert adapter.from_tf_agents_spec(spec) == {
        "a": pe.ArraySpec((2,), np.float32),
        "b": pe.BoundedArraySpec((), np.int64, 0, 3),
    }


def test_specs_that_a_module_of_tensorflow_holds_keep_their_containers() -> None:
    module: Any = tf.Module()
    # Dicts and lists make proxies of what is around them.
    spec = collections.namedtuple("Pair", "one two")
    module.spec = spec({"a": tf.TensorSpec((), tf.int32)}, [tf.TensorSpec((), tf.int8)])

    found = adapter.from_tf_agents_spec(module.spec)

    expected = spec({"a": pe.ArraySpec((), np.int32)}, [pe.ArraySpec((), np.int8)])
    assert found == expected
    assert [type(part) for part in (found, *found)] == [spec, dict, list]


def test_time_steps_are_relabelled_and_keep_their_arrays() -> None:
    ours = pe.restart({"x": np.zeros((2, 3))}, batch_size=2)

    theirs = adapter.to_tf_agents_time_step(ours)
    back = adapter.from_tf_agents_time_step(theirs)

    assert type(theirs) is tf_time_step.TimeStep
    assert type(back) is pe.TimeStep
    assert all(one is other for one, other in zip(back, ours, strict=True))


def test_specs_of_time_steps_are_time_steps() -> None:
    ours = pe.time_step_spec({"x": pe.ArraySpec((2,), np.float32)})

    theirs = adapter.to_tf_agents_spec(ours)

    expected = tf_time_step.time_step_spec({"x": array_spec.ArraySpec((2,), "f4")})
    assert type(theirs) is tf_time_step.TimeStep
    assert theirs == expected
    assert_same(adapter.from_tf_agents_spec(theirs), ours)


def test_a_leaf_whose_size_varies_is_refused_by_path() -> None:
    spec = {"a": (pe.ArraySpec((), "f4"), pe.ArraySpec((None, 2), "f4"))}

    message = r"spec\['a'\]\[1\]: expected a fixed shape, got \(None, 2\)"
    with pytest.raises(ValueError, match=message):
        adapter.to_tf_agents_spec(spec)


@pytest.mark.parametrize("function", ["to_tf_agents_spec", "from_tf_agents_spec"])
def test_a_leaf_that_is_no_spec_is_refused_by_path(function: str) -> None:
    with pytest.raises(TypeError, match=r"spec\['a'\]: expected .* 3"):
        getattr(adapter, function)({"a": 3})
