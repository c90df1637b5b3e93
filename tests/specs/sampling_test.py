"""Tests for specs/sampling.py."""

from __future__ import annotations

from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from parallel_envs import specs
from parallel_envs.specs import ArraySpec, BoundedArraySpec

_NUMBERS = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?"),
)
_DIMS = hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3)
_SOURCES = [np.random.default_rng, np.random.RandomState]


@pytest.fixture(params=_SOURCES, ids=["Generator", "RandomState"])
def rng(request: pytest.FixtureRequest) -> Any:
    return request.param(0)


@hypothesis.given(
    data=st.data(),
    dtype=_NUMBERS,
    shape=_DIMS,
    outer_dims=_DIMS,
    source=st.sampled_from(_SOURCES),
)
def test_samples_lie_in_bounds_and_have_outer_dims(
    data: st.DataObject,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    outer_dims: tuple[int, ...],
    source: Any,
) -> None:
    elements = hnp.from_dtype(dtype, allow_nan=False)
    given_shape = data.draw(st.sampled_from([(), shape]))
    one, two = (
        data.draw(hnp.arrays(dtype, given_shape, elements=elements)) for _ in range(2)
    )
    spec = BoundedArraySpec(shape, dtype, np.minimum(one, two), np.maximum(one, two))

    sample = specs.sample(spec, source(0), outer_dims)

    assert sample.shape == outer_dims + shape
    assert sample.dtype == dtype
    assert specs.add_outer_dims_nest(spec, outer_dims).check_array(sample)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("u1", 250, 255),
        ("u1", [250, 255], 255),
        ("i1", -128, -125),
        ("?", None, None),
        ("?", [False, True], True),
        ("i8", 2**63 - 3, 2**63 - 1),
        ("i8", -(2**63), [-(2**63) + 2, -(2**63)]),
        ("u8", 2**64 - 3, 2**64 - 1),
        (">i4", -1, [1, 2]),
    ],
)
def test_every_integer_within_bounds_is_drawn_and_no_other(
    rng: Any, dtype: str, low: Any, high: Any
) -> None:
    spec = BoundedArraySpec((2,), dtype, low, high)

    sample = specs.sample(spec, rng, outer_dims=(400,))

    for column in range(2):
        lowest = np.broadcast_to(spec.minimum, (2,))[column].item()
        highest = np.broadcast_to(spec.maximum, (2,))[column].item()
        drawn = set(sample[:, column].tolist())
        assert drawn == set(range(int(lowest), int(highest) + 1))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("bounded", [False, True])
def test_integers_without_bounds_use_the_whole_range(
    rng: Any, dtype: str, bounded: bool
) -> None:
    spec = BoundedArraySpec((), dtype) if bounded else ArraySpec((), dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    quarter = (high - low) // 4

    drawn = [int(value) for value in specs.sample(spec, rng, (500,))]

    assert min(drawn) < low + quarter
    assert max(drawn) > high - quarter


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8"])
def test_floats_without_bounds_use_the_whole_range_and_stay_finite(
    rng: Any, dtype: str
) -> None:
    sample = specs.sample(ArraySpec((500,), dtype), rng)

    assert sample.dtype == np.dtype(dtype)
    assert np.isfinite(sample).all()
    assert sample.min() < np.finfo(dtype).min / 2
    assert sample.max() > np.finfo(dtype).max / 2


def test_floats_are_spread_evenly_between_bounds_by_element(rng: Any) -> None:
    spec = BoundedArraySpec((2,), np.float32, [-1, 10], [1, 30])

    sample = specs.sample(spec, rng, (4000,))

    np.testing.assert_allclose(sample.mean(axis=0), [0, 20], atol=0.5)
    np.testing.assert_allclose(sample.min(axis=0), [-1, 10], atol=0.1)
    np.testing.assert_allclose(sample.max(axis=0), [1, 30], atol=0.1)


def test_equal_bounds_leave_one_value(rng: Any) -> None:
    largest = float(np.finfo(np.float64).max)

    sample = specs.sample(BoundedArraySpec((9,), "f8", largest, largest), rng)

    assert (sample == largest).all()


def test_samples_depend_on_the_seed_alone_and_move_on() -> None:
    spec = {"a": ArraySpec((3,), np.int64), "b": BoundedArraySpec((), "f4", 0, 1)}
    for source in _SOURCES:
        rng, twin = source(7), source(7)

        first, second = specs.sample(spec, rng), specs.sample(spec, rng)
        again = specs.sample(spec, twin)

        np.testing.assert_array_equal(first["a"], again["a"])
        assert first["b"] == again["b"]
        assert (first["a"] != second["a"]).any()


def test_nests_are_sampled_leaf_by_leaf(rng: Any) -> None:
    spec = {"b": (ArraySpec((2,), bool), ()), "a": [ArraySpec((), np.uint8)]}

    sample = specs.sample_spec_nest(spec, rng, outer_dims=[5])

    assert list(sample) == ["b", "a"]
    assert sample["b"][0].shape == (5, 2)
    assert sample["b"][1] == ()
    assert sample["a"][0].shape == (5,)


def test_scalars_are_sampled_as_arrays_without_dimensions(rng: Any) -> None:
    for dtype in ("?", "i4", "u8", "f4", "f8"):
        sample = specs.sample_bounded_spec(BoundedArraySpec((), dtype), rng)

        assert isinstance(sample, np.ndarray)
        assert sample.shape == ()


def test_sizes_that_may_vary_are_drawn_from_one_to_four(rng: Any) -> None:
    spec = BoundedArraySpec((None, 2), np.float32, [0, 5], [1, 6])

    samples = [specs.sample(spec, rng, (3,)) for _ in range(100)]

    assert {sample.shape for sample in samples} == {(3, n, 2) for n in (1, 2, 3, 4)}
    assert all(spec.check_array(row) for sample in samples for row in sample)


def test_what_cannot_be_sampled_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"Generator or RandomState, got int\. Make one"
    ):
        specs.sample(ArraySpec((), np.int32), 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"floating dtype, got <U3\.$"):
        specs.sample(ArraySpec((), "U3"), np.random.default_rng(0))
    with pytest.raises(
        TypeError, match=r"^spec\['a'\]: expected an ArraySpec, got int"
    ):
        specs.sample({"a": 3}, np.random.default_rng(0))


@hypothesis.given(dtype=_NUMBERS, shape=_DIMS, outer_dims=_DIMS)
def test_zeros_are_zeros_of_the_spec(
    dtype: np.dtype[Any], shape: tuple[int, ...], outer_dims: tuple[int, ...]
) -> None:
    array = specs.zeros({"a": ArraySpec(shape, dtype)}, outer_dims)["a"]

    assert array.dtype == dtype
    assert array.shape == outer_dims + shape
    assert not array.any()


def test_zeros_of_sizes_that_may_vary_are_empty() -> None:
    assert specs.zeros(ArraySpec((None, 2), np.int8)).shape == (0, 2)
