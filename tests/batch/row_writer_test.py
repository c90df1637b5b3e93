"""What an environment may return, and what of it stands in the rows."""

from __future__ import annotations

from typing import Any

import hypothesis
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import parallel_envs as pe
from parallel_envs import time_step as ts
from parallel_envs.batch import row_writer

# NumPy's scalars and those of Python, by how much their kind of number can say.
RANKS = {"b": 0, "i": 1, "u": 1, "f": 2}
NATIVE = [np.dtype(code) for code in "?bhilqBHILQefd"]
SWAPPED = [np.dtype(code).newbyteorder("S") for code in "hilqHILQefd"]


class Rows:
    """Three rows for one observation, and the writer that fills them."""

    def __init__(
        self, spec: Any, *, validate: bool = True, remembers: bool = False
    ) -> None:
        structure = row_writer.TimeStepStructure(ts.time_step_spec(spec))
        self.arrays: list[npt.NDArray[Any]] = [
            np.zeros((3, *structure.specs[n].shape), structure.specs[n].dtype)
            for n in structure.fixed
        ]
        self.writer = row_writer.RowWriter(
            structure, [self.arrays], 3, validate=validate, remembers=remembers
        )

    def write(self, row: int, observation: Any) -> npt.NDArray[Any]:
        """Writes the first step of an episode, and returns the observation's row."""
        self.writer.write(row, ts.restart(observation))
        return self.arrays[-1][row]


@hypothesis.given(
    array=hnp.arrays(
        st.sampled_from([*NATIVE, *SWAPPED]), hnp.array_shapes(min_side=0, max_dims=3)
    ),
    data=st.data(),
)
def test_arrays_of_any_strides_and_byte_order_are_written_as_they_are(
    array: npt.NDArray[Any], data: st.DataObject
) -> None:
    axes = data.draw(st.permutations(range(array.ndim)))
    strided = array.transpose(axes)[::-1]
    native = array.dtype.newbyteorder("=")
    rows = Rows(pe.ArraySpec(strided.shape, native))

    written = rows.write(1, strided)

    assert written.tobytes() == strided.astype(native).tobytes()
    assert not rows.arrays[-1][[0, 2]].any()


@hypothesis.given(
    dtype=st.sampled_from(NATIVE),
    scalar=st.one_of(
        st.booleans(),
        st.integers(-(2**65), 2**65),
        st.floats(),
        *(hnp.from_dtype(found) for found in NATIVE),
    ),
)
def test_a_scalar_is_written_exactly_where_its_value_stays(
    dtype: np.dtype[Any], scalar: Any
) -> None:
    rows = Rows(pe.ArraySpec((), dtype))

    if fits(dtype, scalar):
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(
                rows.write(1, scalar), np.array(scalar).astype(dtype)
            )
    else:
        with pytest.raises(
            row_writer.MisfitError,
            match=rf"observation does not fit its spec: expected {dtype} of shape \(\)",
        ):
            rows.write(1, scalar)


def fits(dtype: np.dtype[Any], scalar: Any) -> bool:
    """Returns whether `scalar` stays in `dtype`; floats may round, kinds not fall."""
    if isinstance(scalar, int) and not -(2**63) <= scalar < 2**64:
        return False  # An object to NumPy.
    found = np.asarray(scalar)
    if RANKS[found.dtype.kind] > RANKS[dtype.kind]:
        return False
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return int(limits.min) <= int(scalar) <= int(limits.max)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return bool(np.isfinite(found.astype(dtype)) == np.isfinite(found))
    return True


@pytest.mark.parametrize("wanted", NATIVE)
@pytest.mark.parametrize("found", NATIVE)
def test_an_array_of_another_dtype_is_refused(
    found: np.dtype[Any], wanted: np.dtype[Any]
) -> None:
    rows = Rows(pe.ArraySpec((2,), wanted))
    array = np.ones(2, found)

    if found == wanted:
        assert rows.write(1, array).tolist() == [1, 1]
    else:
        with pytest.raises(
            row_writer.MisfitError, match=rf"expected {wanted} .*, got {found} of"
        ):
            rows.write(1, array)


@pytest.mark.parametrize("shape", [(), (3,), (1, 2), (2, 1)])
def test_nothing_is_broadcast_or_reshaped(shape: tuple[int, ...]) -> None:
    rows = Rows(pe.ArraySpec((2,), np.float32))

    with pytest.raises(
        row_writer.MisfitError, match=r"expected float32 of shape \(2,\), got float32"
    ):
        rows.write(1, np.zeros(shape, np.float32))


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (np.zeros(()), r"observation: expected a dict with keys \['x', 'y'\]"),
        ({"x": 0.0}, r"observation: expected a dict with keys \['x', 'y'\]"),
        (
            {"x": 0.0, "y": [[1, 2], [3]]},
            r"observation\['y'\] does not fit .* int32 of shape \(2,\), got \[\[1, 2\]",
        ),
        ({"x": "far", "y": np.zeros(2, "i4")}, r"observation\['x'\] does not fit"),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(observation: Any, message: str) -> None:
    rows = Rows({"x": pe.ArraySpec((), "f4"), "y": pe.ArraySpec((2,), "i4")})

    with pytest.raises(row_writer.MisfitError, match=message):
        rows.write(0, observation)


@pytest.mark.parametrize("value", [None, 3, (1, 2, 3)])
def test_what_is_no_time_step_is_refused_in_words(value: Any) -> None:
    rows = Rows(pe.ArraySpec((), np.float32))

    with pytest.raises(
        row_writer.MisfitError, match=r"expected a TimeStep, got .*time_step\.restart"
    ):
        rows.writer.write(0, value)


@pytest.mark.parametrize("remembers", [True, False])
def test_constants_and_other_values_follow_each_other(remembers: bool) -> None:
    rows = Rows(pe.ArraySpec((), np.int64), remembers=remembers)
    first = ts.restart(0)
    discounted = ts.transition(1, 1.0, discount=0.5)
    written: list[tuple[int, float, float]] = []

    for time_step in (
        first,
        first,
        discounted,
        first,
        ts.transition(2, 1.0),
        ts.termination(3, 2.0),
        first._replace(step_type=np.array(1, np.int32)),
        first,
    ):
        rows.writer.write(2, time_step)
        kind, reward, discount = (array[2].item() for array in rows.arrays[:3])
        written.append((kind, reward, discount))

    assert written == [
        (0, 0.0, 1.0),
        (0, 0.0, 1.0),
        (1, 1.0, 0.5),
        (0, 0.0, 1.0),
        (1, 1.0, 1.0),
        (2, 2.0, 0.0),
        (1, 0.0, 1.0),
        (0, 0.0, 1.0),
    ]


def test_rows_that_are_not_checked_are_cast() -> None:
    rows = Rows(pe.ArraySpec((2,), np.uint8), validate=False)

    assert rows.write(1, [1.7, 2.0]).tolist() == [1, 2]
    with pytest.raises(row_writer.MisfitError, match=r"shape \(2,\), got float64 of"):
        rows.write(1, [1.7])
    with pytest.raises(row_writer.MisfitError, match=r"expected uint8 .*, got <U1"):
        rows.write(1, ["a", "b"])


def test_the_block_of_a_batched_environment_has_a_leading_dimension() -> None:
    rows = Rows(pe.ArraySpec((2,), np.float32))
    observation = np.arange(4, dtype=np.float32).reshape(2, 2)

    rows.writer.write_block(slice(1, 3), ts.restart(observation, batch_size=2))

    assert rows.arrays[-1].tolist() == [[0, 0], [0, 1], [2, 3]]
    with pytest.raises(row_writer.MisfitError, match=r"shape \(2, 2\), got float32"):
        rows.writer.write_block(slice(1, 3), ts.restart(observation[:1], batch_size=2))


def test_values_whose_size_varies_are_kept_as_copies() -> None:
    rows = Rows(pe.ArraySpec((None,), np.int64))
    array = np.array([1, 2])

    rows.writer.write(0, ts.restart(array))
    rows.writer.write_block(slice(1, 3), ts.restart([array[:1], [5, 6]], batch_size=2))
    array[:] = 7
    extras = rows.writer.take_extras()

    assert extras is not None
    assert [[rows.tolist() for rows in leaf] for leaf in extras.values()] == [
        [[1, 2], [1], [5, 6]]
    ]


def test_there_is_nothing_to_take_where_all_sizes_are_fixed() -> None:
    assert Rows(pe.ArraySpec((), np.int64)).writer.take_extras() is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([np.zeros(1, "i8")] * 3, "observation: expected 2 arrays.*got 3"),
        (4, "observation: expected 2 arrays, one for each row.*got 4"),
        ([np.zeros((1, 1), "i8")] * 2, r"observation does not fit.*\(None,\), got"),
        ([np.zeros(1, "f8")] * 2, "observation does not fit.*got float64 of shape"),
    ],
)
def test_values_whose_size_varies_are_checked_too(values: Any, message: str) -> None:
    rows = Rows(pe.ArraySpec((None,), np.int64))

    with pytest.raises(row_writer.MisfitError, match=message):
        rows.writer.write_block(slice(0, 2), ts.restart(values, batch_size=2))


def test_python_objects_count_as_variable() -> None:
    specs = [
        pe.ArraySpec((), "O"),
        pe.ArraySpec((2,), "i4"),
        pe.ArraySpec((None,), "?"),
    ]

    assert row_writer.split_variable(specs) == ([1], [0, 2])


def test_rewards_and_discounts_may_be_nests() -> None:
    spec = ts.TimeStep(
        pe.ArraySpec((), np.int32),
        {"a": pe.ArraySpec((), np.float32), "b": pe.ArraySpec((), np.float64)},
        pe.ArraySpec((), np.float32),
        (),
    )
    structure = row_writer.TimeStepStructure(spec)
    time_step = ts.TimeStep(1, {"a": 2, "b": 3}, 4, ())

    leaves = structure.flatten(time_step)

    assert structure.paths == ["step_type", "reward['a']", "reward['b']", "discount"]
    assert leaves == [1, 2, 3, 4]
    assert structure.pack(leaves, ts.TimeStep) == time_step
