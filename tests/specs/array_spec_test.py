"""Tests for specs/array_spec.py."""

from __future__ import annotations

import copy
import pickle
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
_ANY_DTYPES = st.one_of(
    _NUMBERS,
    hnp.complex_number_dtypes(),
    hnp.unicode_string_dtypes(),
    hnp.byte_string_dtypes(),
    hnp.datetime64_dtypes(),
    st.just(np.dtype(object)),
)
_SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
_SIZES = st.lists(st.none() | st.integers(0, 3), max_size=3)
_NAMES = st.none() | st.text(max_size=3)


@st.composite
def _bounded_specs(draw: st.DrawFn) -> BoundedArraySpec:
    dtype = draw(_NUMBERS)
    shape = draw(_SHAPES)
    elements = hnp.from_dtype(dtype, allow_nan=False)
    given = draw(st.sampled_from([(), shape, (1,) * len(shape)]))
    first = draw(hnp.arrays(dtype, given, elements=elements))
    second = draw(hnp.arrays(dtype, given, elements=elements))
    return BoundedArraySpec(
        shape, dtype, np.minimum(first, second), np.maximum(first, second), "x"
    )


@hypothesis.given(shape=_SIZES, dtype=_ANY_DTYPES, name=_NAMES)
def test_spec_survives_pickling_and_copying(
    shape: list[int | None], dtype: np.dtype[Any], name: str | None
) -> None:
    spec = ArraySpec(shape, dtype, name)

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        twin = pickle.loads(pickle.dumps(spec, protocol))
        assert twin == spec
        assert hash(twin) == hash(spec)
        assert twin.name == name
    assert copy.deepcopy(spec) == spec


@hypothesis.given(spec=_bounded_specs())
def test_bounds_survive_pickling_unchanged_and_read_only(
    spec: BoundedArraySpec,
) -> None:
    twin = pickle.loads(pickle.dumps(spec))

    assert twin == spec
    assert hash(twin) == hash(spec)
    for bound, original in (
        (twin.minimum, spec.minimum),
        (twin.maximum, spec.maximum),
    ):
        assert bound.dtype == original.dtype == spec.dtype
        assert bound.shape == original.shape
        assert not bound.flags.writeable
        np.testing.assert_array_equal(bound, original)


@hypothesis.given(spec=_bounded_specs())
def test_spec_equals_the_one_with_its_bounds_written_out(
    spec: BoundedArraySpec,
) -> None:
    written_out = BoundedArraySpec(
        spec.shape,
        spec.dtype,
        np.broadcast_to(spec.minimum, spec.shape),
        np.broadcast_to(spec.maximum, spec.shape),
        name="another",
    )

    assert written_out == spec
    assert hash(written_out) == hash(spec)


@hypothesis.given(first=_bounded_specs(), second=_bounded_specs())
def test_specs_are_equal_exactly_when_shape_dtype_and_bounds_are(
    first: BoundedArraySpec, second: BoundedArraySpec
) -> None:
    same = (
        first.shape == second.shape
        and first.dtype == second.dtype
        and bool(np.all(first.minimum == second.minimum))
        and bool(np.all(first.maximum == second.maximum))
    ) or (
        first.shape == second.shape and first.dtype == second.dtype and 0 in first.shape
    )

    assert (first == second) is same
    assert (first != second) is not same
    if same:
        assert hash(first) == hash(second)


def test_unequal_specs_differ_in_shape_dtype_minimum_or_maximum() -> None:
    spec = BoundedArraySpec((2,), np.int32, 0, [3, 4])

    assert spec != spec.replace(shape=(1, 2))
    assert spec != spec.replace(dtype=np.int64)
    assert spec != spec.replace(minimum=[0, 1])
    assert spec != spec.replace(maximum=[3, 5])
    assert spec != "spec"
    assert spec == spec.replace(name="y", minimum=[0, 0])


def test_spec_with_bounds_never_equals_one_without() -> None:
    plain, bounded = ArraySpec((), np.int32), BoundedArraySpec((), np.int32)

    assert plain != bounded
    assert bounded != plain
    assert len({plain, bounded}) == 2


def test_zeros_of_either_sign_are_one_bound() -> None:
    positive = BoundedArraySpec((), np.float32, 0.0, 1)
    negative = BoundedArraySpec((), np.float32, -0.0, 1)

    assert positive == negative
    assert hash(positive) == hash(negative)


@pytest.mark.parametrize(
    "attribute", ["shape", "dtype", "name", "minimum", "maximum", "anything"]
)
def test_spec_cannot_be_changed(attribute: str) -> None:
    spec = BoundedArraySpec((), np.int32, 0, 1)

    with pytest.raises(AttributeError):
        setattr(spec, attribute, 1)


def test_bounds_cannot_be_written_and_do_not_follow_their_source() -> None:
    source = np.zeros(2, np.float32)
    spec = BoundedArraySpec((2,), np.float32, source, 1)

    source[:] = -5

    np.testing.assert_array_equal(spec.minimum, [0, 0])
    with pytest.raises(ValueError, match="read-only"):
        spec.minimum[0] = -5


def test_spec_has_no_truth_value_of_its_own_and_no_length() -> None:
    spec = ArraySpec((0,), np.int32)

    assert spec
    assert not hasattr(spec, "__len__")


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u1", ">i4", "i8", "u8", "f2", "f4", "f8"]
)
@pytest.mark.parametrize("bounds", [(None, None), (-np.inf, np.inf)])
def test_bounds_left_out_or_infinite_are_the_finite_extremes_of_the_dtype(
    dtype: str, bounds: tuple[Any, Any]
) -> None:
    kind = np.dtype(dtype)
    extremes = {
        "b": lambda: (False, True),
        "f": lambda: (np.finfo(kind).min, np.finfo(kind).max),
    }.get(kind.kind, lambda: (np.iinfo(kind).min, np.iinfo(kind).max))()

    spec = BoundedArraySpec((3,), dtype, *bounds)

    assert (spec.minimum.item(), spec.maximum.item()) == extremes
    assert spec.minimum.shape == spec.maximum.shape == ()
    assert spec.minimum.dtype == kind


def test_infinite_elements_among_bounds_become_extremes() -> None:
    floats = BoundedArraySpec((2,), np.float32, [-np.inf, 0], [1, np.inf])
    integers = BoundedArraySpec((2,), np.int8, [-np.inf, 0], [1, np.inf])

    np.testing.assert_array_equal(floats.minimum, [np.finfo(np.float32).min, 0])
    np.testing.assert_array_equal(floats.maximum, [1, np.finfo(np.float32).max])
    np.testing.assert_array_equal(integers.minimum, [-128, 0])
    np.testing.assert_array_equal(integers.maximum, [1, 127])


def test_the_printed_maximum_of_float32_is_a_bound_of_float32() -> None:
    spec = BoundedArraySpec((), np.float32, -3.4028235e38, 3.4028235e38)

    assert spec == BoundedArraySpec((), np.float32)


def test_extremes_of_64_bits_are_exact_bounds() -> None:
    signed = BoundedArraySpec((2,), np.int64, -(2**63), [2**63 - 1, 0])
    unsigned = BoundedArraySpec((), np.uint64, 0, 2**64 - 1)

    assert signed.maximum[0] == 2**63 - 1
    assert unsigned.maximum == 2**64 - 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((), "u1", -1, 5), "a: the minimum does not fit uint8 of shape (): -1 is "
         "outside of the range of uint8, 0 to 255."),
        (((), "u1", 0, 256), "a: the maximum does not fit uint8 of shape (): 256 is "
         "outside of the range of uint8, 0 to 255."),
        (((), "u8", 0, 2**64), "18446744073709551616 is outside of the range of uint"),
        (((), "u8", -1, 5), "-1 is outside of the range of uint64"),
        (((), "i8", 0, 2.0**63), "9223372036854775808 is outside of the range of int"),
        (((), "?", 0, 2), "2 is outside of the range of bool, False to True."),
        (((), "f4", 0, 1e39), "1e+39 is outside of the range of float32"),
        (((), "f4", 0, 10**400), "the maximum does not fit float32"),
        (((), "i4", 0.5, 1), "a: the minimum does not fit int32 of shape (): 0.5 has "
         "fractions, which int32 has not."),
        (((), "f4", np.nan, 1), "the minimum does not fit float32 of shape (): it is "
         "not a number."),
        (((), "i4", "low", 1), "expected numbers, got <U3"),
        (((2,), "i4", [None, 1], 1), "the minimum does not fit int32 of shape (2,)"),
        (((2,), "i4", 0, [1, 2, 3]), "the maximum does not fit int32 of shape (2,)"),
        (((None,), "i4", 0, [1, 2]), "the maximum does not fit int32 of shape (None,)"),
        (((2,), "i4", [0, 3], [1, 2]), "a: expected a minimum of at most the maximum, "
         "got minimum [0, 3] and maximum [1, 2]."),
        (((), "c8", 0, 1), "a: expected a boolean, integer or floating dtype, got "
         "complex64."),
        (((), "U3"), "expected a boolean, integer or floating dtype, got <U3."),
    ],
)  # fmt: skip
def test_impossible_bounds_are_refused(
    arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ValueError) as caught:
        BoundedArraySpec(*arguments, name="a")

    assert message in str(caught.value)


def test_arguments_of_the_wrong_kind_are_refused() -> None:
    nothing: Any = None

    with pytest.raises(TypeError, match=r"^shape: expected a sequence .* got 3\.$"):
        ArraySpec(3, np.int32)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^shape: .* got \(1\.5,\)\.$"):
        ArraySpec((1.5,), np.int32)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"sizes of at least 0, got \(2, -1\)\.$"):
        ArraySpec((2, -1), np.int32)
    with pytest.raises(TypeError, match=r"^dtype: .* got None\.$"):
        ArraySpec((2,), nothing)
    with pytest.raises(TypeError, match=r"^name: expected a string or None, got 0\.$"):
        ArraySpec((), np.int32, 0)  # type: ignore[arg-type]


@hypothesis.given(data=st.data(), dtype=_NUMBERS, shape=_SHAPES)
def test_spec_of_an_array_is_fitted_by_that_array(
    data: st.DataObject, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> None:
    array = data.draw(hnp.arrays(dtype, shape))

    spec = ArraySpec.from_array(array, "x")

    assert (spec.shape, spec.dtype, spec.name) == (shape, dtype, "x")
    assert spec.check_array(array)
    assert spec.validate(array) is array


def test_spec_is_taken_over_from_anything_that_looks_like_one() -> None:
    class Foreign:
        shape, dtype, name = (2,), np.float32, "foreign"
        minimum, maximum = -1.0, 1.0

    bounded = BoundedArraySpec.from_spec(Foreign())

    assert bounded == BoundedArraySpec((2,), np.float32, -1, 1)
    assert bounded.name == "foreign"
    assert ArraySpec.from_spec(bounded, "mine") == ArraySpec((2,), np.float32)
    assert ArraySpec.from_spec(bounded, "mine").name == "mine"
    plain = ArraySpec((2,), np.float32)
    assert BoundedArraySpec.from_spec(plain) == BoundedArraySpec((2,), np.float32)


def test_replace_changes_what_it_is_told_and_checks_it() -> None:
    spec = BoundedArraySpec((2,), np.int32, 0, 9, "x")

    assert spec.replace(name=None).name is None
    assert spec.replace(shape=(3,)).shape == (3,)
    with pytest.raises(ValueError, match="minimum of at most the maximum"):
        spec.replace(minimum=10)
    with pytest.raises(TypeError, match="size"):
        spec.replace(size=1)


def test_check_array_takes_values_as_they_are() -> None:
    assert ArraySpec((), np.float64).check_array(1.0)
    assert not ArraySpec((), np.float32).check_array(1.0)
    assert ArraySpec((), np.float32).check_array(np.float32(1))
    assert ArraySpec((), bool).check_array(True)
    assert not ArraySpec((1,), np.float64).check_array([1.0])
    assert not ArraySpec((), np.dtype(">f4")).check_array(np.float32(1))
    assert not ArraySpec((2,), np.int32).check_array(np.zeros(3, np.int32))


@hypothesis.given(data=st.data(), spec=_bounded_specs())
def test_check_and_validate_agree_with_the_bounds(
    data: st.DataObject, spec: BoundedArraySpec
) -> None:
    array = data.draw(hnp.arrays(spec.dtype, spec.shape))
    inside = bool(np.all((array >= spec.minimum) & (array <= spec.maximum)))

    assert spec.check_array(array) is inside
    if inside:
        assert spec.validate(array) is array
    else:
        with pytest.raises(ValueError, match="does not fit its spec: expected values"):
            spec.validate(array)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1, "f4"), (1.5, "f4"), (True, "i4"), (3, "i1"), (np.int64(3), "u1"),
        (np.float64(0.1), "f4"), (np.inf, "f4"), (2, "c8"), ("ab", "U5"),
        (np.zeros((), ">f4"), "f4"), (np.nan, "f2"),
    ],
)  # fmt: skip
def test_validate_gives_scalars_the_dtype_of_the_spec(value: Any, dtype: str) -> None:
    array = ArraySpec((), dtype).validate(value)

    assert array.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(array, np.asarray(value, dtype))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.5, "i4"), (300, "u1"), (np.uint64(2**64 - 1), "i8"), (-1, "u8"),
        (np.int64(-1), "u8"), (2**70, "i8"),
        (1, "?"), (1j, "f4"), (1e300, "f4"), ("abc", "U2"), (None, "f4"), ({}, "f4"),
        (np.zeros(()), "f4"),
    ],
)  # fmt: skip
def test_validate_refuses_values_that_would_change(value: Any, dtype: str) -> None:
    with pytest.raises(ValueError, match=r"^value does not fit its spec: expected "):
        ArraySpec((), dtype).validate(value)


def test_validate_says_what_is_wrong() -> None:
    camera = ArraySpec((5, 5), np.float32, "rgb")
    action = BoundedArraySpec((), np.int64, 0, 9, "action")
    limits = BoundedArraySpec((2, 2), np.float32, [[0], [1]], 2)

    with pytest.raises(ValueError) as shape:
        camera.validate(np.zeros((1, 5, 5), np.float32), "observation['rgb']")
    with pytest.raises(ValueError) as bound:
        action.validate(10)
    with pytest.raises(ValueError) as element:
        limits.validate(np.full((2, 2), 0.5, np.float32))
    with pytest.raises(ValueError) as nan:
        limits.validate(np.full((2, 2), np.nan, np.float32))
    with pytest.raises(ValueError) as ragged:
        camera.validate([[1], [1, 2]])

    assert str(shape.value) == (
        "observation['rgb'] does not fit its spec: expected float32 of shape (5, 5), "
        "got float32 of shape (1, 5, 5)."
    )
    assert str(bound.value) == (
        "action does not fit its spec: expected values of at most 9, got 10."
    )
    assert str(element.value) == (
        "value does not fit its spec: expected values of at least 1.0, got 0.5 at "
        "index (1, 0)."
    )
    assert "expected values of at least 0.0, got nan at index (0, 0)" in str(nan.value)
    assert str(ragged.value).startswith(
        "rgb does not fit its spec: expected float32 of shape (5, 5), got what NumPy"
    )


def test_sizes_of_none_fit_any_size() -> None:
    spec = BoundedArraySpec((None, 2), np.float32, [0, 1], 3)

    assert spec.is_variable
    assert not ArraySpec((0, 2), np.float32).is_variable
    for size in range(3):
        assert spec.check_array(np.ones((size, 2), np.float32))
    assert not spec.check_array(np.ones((2, 3), np.float32))
    assert not spec.check_array(np.ones(2, np.float32))
    assert not spec.check_array(np.zeros((1, 2), np.float32))
    assert spec != spec.replace(shape=(1, 2))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (BoundedArraySpec((), np.uint8), 256),
        (BoundedArraySpec((), bool), 2),
        (BoundedArraySpec((2,), np.int8, [-128, 0], 127), [256, 128]),
        (BoundedArraySpec((2,), np.int64, 3, 5), [3, 3]),
        (BoundedArraySpec((), np.int64), 2**64),
        (BoundedArraySpec((None,), np.int32, 0, 4), [5]),
    ],
)
def test_num_values_is_exact(spec: BoundedArraySpec, expected: Any) -> None:
    counts = spec.num_values

    assert counts is not None
    assert counts.tolist() == expected


def test_num_values_of_floats_is_none() -> None:
    assert BoundedArraySpec((), np.float32, 0, 1).num_values is None


def test_kinds_of_specs_are_told_apart() -> None:
    flag, real = ArraySpec((), bool), BoundedArraySpec((), np.float16)

    assert specs.is_discrete(flag)
    assert not specs.is_continuous(flag)
    assert not specs.is_bounded(flag)
    assert specs.is_continuous(real)
    assert not specs.is_discrete(real)
    assert specs.is_bounded(real)
    assert not specs.is_discrete(ArraySpec((), "U3"))
    assert not specs.is_continuous(ArraySpec((), np.complex64))


def test_repr_shows_all_that_makes_the_spec() -> None:
    spec = BoundedArraySpec((2, None), np.int32, [[0], [1]], 9, "x")

    assert repr(spec) == (
        "BoundedArraySpec(shape=(2, None), dtype=int32, minimum=[[0], [1]], "
        "maximum=9, name='x')"
    )


def test_repr_of_many_bounds_is_short() -> None:
    spec = BoundedArraySpec((84, 84), np.int64, np.arange(84), 99)

    assert "minimum=[ 0, 1, 2, ..., 81, 82, 83]" in repr(spec)
