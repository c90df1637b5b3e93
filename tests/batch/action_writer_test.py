"""What of an action is refused, and what reaches the arrays unchanged."""

from __future__ import annotations

import math
from typing import Any

import hypothesis
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import parallel_envs as pe
from parallel_envs.batch import action_writer

NUMBERS = [
    *(np.dtype(code) for code in "?bhilqBHILQefd"),
    *(np.dtype(code).newbyteorder("S") for code in "hilqHILQefd"),
]
numbers = st.sampled_from(NUMBERS)


def check(spec: pe.ArraySpec, value: Any, *rows: int, validate: bool = True) -> Any:
    return action_writer.leaf_check(spec, "action", rows, validate=validate)(value)


def is_held_by(dtype: np.dtype[Any], value: complex) -> bool:
    """Returns whether a number of Python stays in `dtype`; floats may round."""
    if isinstance(value, int) and dtype.kind in "fc":
        with np.errstate(over="ignore"):
            cast = float(np.real(np.array(value).astype(dtype)))
        return math.isfinite(cast) and int(cast) == value
    if dtype.kind == "c":
        return True
    if isinstance(value, complex):
        return False
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            cast = np.array(value).astype(dtype)
        return bool(np.isfinite(cast)) or not math.isfinite(value)
    if not math.isfinite(value) or value != int(value):
        return False
    low, high = (0, 1)
    if dtype.kind in "iu":
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return low <= int(value) <= high


@hypothesis.given(found=numbers, wanted=numbers, data=st.data())
def test_a_number_is_taken_exactly_where_its_value_stays(
    found: np.dtype[Any], wanted: np.dtype[Any], data: st.DataObject
) -> None:
    given = data.draw(hnp.arrays(found, (2,)))
    spec = pe.ArraySpec((), wanted)

    if all(is_held_by(wanted, value) for value in given.tolist()):
        taken = check(spec, given, 2)

        assert taken.dtype == spec.dtype
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(taken, given.astype(spec.dtype))
    else:
        with pytest.raises(ValueError, match="action: expected values of"):
            check(spec, given, 2)


@pytest.mark.parametrize("value", [np.iinfo(np.int64).min, np.iinfo(np.int64).max])
def test_an_integer_that_would_become_infinite_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match="action: expected values of float16, got"):
        check(pe.ArraySpec((), np.float16), np.array([value, value]), 2)


@hypothesis.given(
    array=hnp.arrays(numbers, hnp.array_shapes(min_side=0, max_dims=3)),
    data=st.data(),
)
def test_strides_and_byte_order_make_no_difference(
    array: npt.NDArray[Any], data: st.DataObject
) -> None:
    axes = data.draw(st.permutations(range(array.ndim)))
    strided = array.transpose(axes)[::-1]
    spec = pe.ArraySpec(strided.shape[1:], array.dtype)

    taken = check(spec, strided, len(strided))

    assert taken.dtype == spec.dtype
    assert taken.tobytes() == strided.astype(spec.dtype).tobytes()


@hypothesis.given(
    dtype=numbers.filter(lambda dtype: dtype.kind in "iu"), data=st.data()
)
def test_an_integer_is_taken_exactly_where_it_is_within_its_bounds(
    dtype: np.dtype[Any], data: st.DataObject
) -> None:
    values = hnp.from_dtype(dtype)
    low, high = sorted(int(data.draw(values)) for _ in range(2))
    given = data.draw(hnp.arrays(dtype, (3,)))
    spec = pe.BoundedArraySpec((), dtype, low, high)
    outside = [value for value in given.tolist() if not low <= value <= high]

    if not outside:
        assert check(spec, given, 3).tolist() == given.tolist()
    else:
        with pytest.raises(
            ValueError, match=rf"expected values from {low} to {high}, got {outside[0]}"
        ):
            check(spec, given, 3)


def test_each_element_has_bounds_of_its_own() -> None:
    spec = pe.BoundedArraySpec((2,), np.int32, [0, 5], [4, 9])

    assert check(spec, [[4, 5], [0, 9]], 2).tolist() == [[4, 5], [0, 9]]
    with pytest.raises(
        ValueError,
        match=r"expected values from \[0, 5\] to \[4, 9\], got 4 in row 1\.",
    ):
        check(spec, [[4, 5], [0, 4]], 2)


def test_bounds_of_floats_are_not_checked() -> None:
    spec = pe.BoundedArraySpec((), np.float32, -1, 1)

    assert check(spec, [7.5], 1).tolist() == [7.5]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_floats_that_are_no_numbers_stay_what_they_are(value: float) -> None:
    taken = check(pe.ArraySpec((), np.float32), np.array([value]), 1)

    np.testing.assert_array_equal(taken, np.array([value], np.float32))


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        ("f4", [1e300], r"action: expected values of float32, got 1e\+300 in row 0"),
        ("f2", [70000], "expected values of float16, got 70000 in row 0"),
        ("i8", ["1"], "expected values of int64, got '1' in row 0"),
        ("U2", ["abc"], "expected values of <U2, got 'abc' in row 0"),
        ("f4", [1j], r"expected float32 of shape \(1,\), got complex128"),
        ("i8", [2**70], r"expected int64 of shape \(1,\), got object"),
        ("f4", [None], r"expected float32 of shape \(1,\), got object"),
    ],
)
def test_what_cannot_be_held_is_said(dtype: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(pe.ArraySpec((), dtype), value, 1)


def test_an_unchecked_action_is_cast_and_still_has_its_shape() -> None:
    spec = pe.BoundedArraySpec((), np.int64, 0, 9)

    assert check(spec, [1.7, -3.0], 2, validate=False).tolist() == [1, -3]
    with pytest.raises(ValueError, match=r"action: expected int64 of shape \(3,\)"):
        check(spec, [1, 2], 3, validate=False)


def test_nothing_is_written_unless_all_of_it_fits() -> None:
    spec = {"a": pe.ArraySpec((), np.int64), "b": pe.BoundedArraySpec((), "i8", 0, 9)}
    arrays = [np.zeros(2, np.int64), np.zeros(2, np.int64)]
    writer = action_writer.ActionWriter(spec, arrays, 2, validate=True)

    with pytest.raises(ValueError, match=r"action\['b'\]: expected values from 0 to 9"):
        writer.write({"a": [1, 2], "b": [3, 10]})
    assert [array.tolist() for array in arrays] == [[0, 0], [0, 0]]

    writer.write({"a": [1, 2], "b": [3, 4]})
    assert [array.tolist() for array in arrays] == [[1, 2], [3, 4]]


def test_leaves_whose_size_varies_are_returned_as_copies() -> None:
    spec = {"fixed": pe.ArraySpec((), "i8"), "path": pe.ArraySpec((None, 2), "f4")}
    array = np.zeros(2, np.int64)
    writer = action_writer.ActionWriter(spec, [array], 2, validate=True)
    path = np.ones((3, 2), np.float32)

    extras = writer.write({"fixed": [1, 2], "path": [path, np.zeros((0, 2))]})
    path[:] = 7

    assert extras is not None
    assert [values.tolist() for values in extras[1]] == [[[1, 1]] * 3, []]
    assert [values.dtype for values in extras[1]] == [np.float32] * 2


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[1.0]], r"action: expected 2 arrays, one for each row.*got 1\."),
        (3, r"action: expected 2 arrays, one for each row.*got 3\."),
        (np.array(3), r"expected 2 arrays, one for each row.*got array\(3\)\."),
        ([[1], [[1]]], r"expected float32 of shape \(None,\), got int64 of .*\(1, 1\)"),
    ],
)
def test_a_leaf_whose_size_varies_needs_a_value_for_each_row(
    value: Any, message: str
) -> None:
    spec = pe.ArraySpec((None,), np.float32)
    writer = action_writer.ActionWriter(spec, [], 2, validate=True)

    with pytest.raises(ValueError, match=message):
        writer.write(value)


@pytest.mark.parametrize("dtype", ["<i4", ">i4", "<i8", ">i8"])
def test_bounds_hold_in_any_byte_order(dtype: str) -> None:
    spec = pe.BoundedArraySpec((), np.dtype(dtype), 0, 5, "action")
    check = action_writer.leaf_check(spec, "action", (2,), validate=True)

    assert check(np.array([0, 5], dtype)).tolist() == [0, 5]
    for wrong in (-1, 6, 1 << 24):
        with pytest.raises(ValueError, match=f"action: expected values .* got {wrong}"):
            check(np.array([1, wrong], dtype))
