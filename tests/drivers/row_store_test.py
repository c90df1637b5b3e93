"""What a store of rows keeps, hands out, and refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallel_envs.drivers.row_store import RowStore
from parallel_envs.specs import ArraySpec, nest


def store_of(values: Any, num_rows: int = 3, **options: Any) -> RowStore:
    return RowStore(nest.Structure(values, "value"), values, num_rows, **options)


def rows(*numbers: int) -> Any:
    return np.array(numbers, np.intp)


def test_rows_are_taken_as_they_were_put_last() -> None:
    store = store_of({"a": np.zeros((3, 2)), "b": (np.arange(3),)})

    store.put(rows(2, 0), {"a": np.array([[1, 1], [2, 2]]), "b": ([7, 8],)})

    taken = store.take(rows(0, 1, 2))
    assert taken["a"].tolist() == [[2, 2], [0, 0], [1, 1]]
    assert taken["b"][0].tolist() == [8, 1, 7]
    assert store.take(rows(2))["b"][0].tolist() == [7]


def test_nothing_is_shared_with_those_who_put_or_took() -> None:
    values = np.zeros(3)
    store = store_of(values)
    taken = store.take(rows(0, 1))

    values[:] = taken[:] = 5

    assert store.all().tolist() == [0, 0, 0]


def test_a_leaf_whose_size_varies_is_a_list() -> None:
    structure = nest.Structure(ArraySpec((None,), np.int64), "value")
    store = RowStore(structure, [np.arange(n) for n in range(3)], 3)

    store.put(rows(1), [np.arange(5)])

    assert [len(row) for row in store.take(rows(2, 1))] == [2, 5]
    with pytest.raises(ValueError, match="zip"):
        store.put(rows(1, 2), [np.arange(5)])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (np.int32, np.int64, np.int64),
        (np.int64, np.int32, np.int64),
        (np.int32, np.float32, np.float64),
    ],
)
def test_another_dtype_widens_the_array(old: Any, new: Any, expected: Any) -> None:
    store = store_of(np.array([1, 2, 3], old))

    store.put(rows(0), np.array([9], new))

    assert store.all().dtype == expected
    assert store.all().tolist() == [9, 2, 3]


def test_strings_may_get_longer() -> None:
    store = store_of(np.array(["a", "b", "c"]))

    store.put(rows(1), ["longer"])

    assert store.all().tolist() == ["a", "longer", "c"]


@pytest.mark.parametrize("value", [np.zeros((2, 3)), np.zeros((1, 2)), np.zeros(())])
def test_other_shapes_are_refused_by_path(value: Any) -> None:
    store = store_of({"a": np.zeros((3, 2))})

    with pytest.raises(
        ValueError, match=r"value\['a'\]: expected float64 of shape \(2, 2\), .* got fl"
    ):
        store.put(rows(0, 1), {"a": value})

    assert not store.all()["a"].any()


def test_what_is_no_rows_is_refused_unless_it_may_be_kept_as_it_is() -> None:
    values = {"count": 1, "rows": np.zeros(3)}
    with pytest.raises(ValueError, match=r"value\['count'\]: expected a row for each"):
        store_of(values)

    store = store_of(values, keeps_others=True)
    store.put(rows(0), {"count": 2, "rows": [5]})
    store.put_from(rows(1), {"count": 0, "rows": np.array([6, 7, 8])})

    assert store.take(rows(2))["count"] == 2
    assert store.all()["rows"].tolist() == [5, 7, 0]
