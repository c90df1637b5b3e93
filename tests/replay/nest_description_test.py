from __future__ import annotations

import collections
import json
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest

from parallel_envs.replay import nest_description
from parallel_envs.specs.array_spec import ArraySpec
from parallel_envs.trajectory import Trajectory

NUMBER = ArraySpec((), np.float32)


class Point(NamedTuple):
    x: Any
    y: Any


def through_json(nest: Any) -> Any:
    return nest_description.restore(
        json.loads(json.dumps(nest_description.describe(nest)))
    )


@pytest.mark.parametrize(
    "nest",
    [
        NUMBER,
        ArraySpec((None, 3), "U7"),
        ArraySpec((2,), [("a", np.int32), ("b", [("c", np.float64, (2,))])]),
        {"b": NUMBER, "a": (NUMBER, ()), 3: {}},
        collections.OrderedDict([("z", NUMBER), ("a", NUMBER)]),
        Point(NUMBER, {"y": NUMBER}),
        Trajectory(NUMBER, NUMBER, NUMBER, (), NUMBER, NUMBER, NUMBER),
    ],
)
def test_a_nest_comes_back_with_its_containers(nest: Any) -> None:
    restored = through_json(nest)

    assert restored == nest
    assert type(restored) is type(nest)
    # Dicts are equal in any order; their text is not.
    assert str(restored) == str(nest)


def test_a_named_tuple_that_is_not_imported_is_read_with_the_same_fields() -> None:
    description = nest_description.describe(Point(NUMBER, NUMBER))
    description["module"] = "antigravity"

    with pytest.warns(UserWarning, match=r"antigravity\.Point, which are not imported"):
        restored = nest_description.restore(description)

    assert restored._fields == ("x", "y")
    assert type(restored).__name__ == "Point"
    assert "antigravity" not in sys.modules


def test_a_named_tuple_whose_fields_have_changed_is_not_used() -> None:
    description = nest_description.describe(Point(NUMBER, NUMBER))
    description["items"].append(["z", nest_description.describe(NUMBER)])

    with pytest.warns(UserWarning, match="have other fields"):
        restored = nest_description.restore(description)

    assert restored._fields == ("x", "y", "z")


def test_what_is_no_named_tuple_is_never_called() -> None:
    description = nest_description.describe(Point(NUMBER, NUMBER))
    description["module"], description["name"] = "os", "system"

    with pytest.warns(UserWarning, match=r"os\.system"):
        restored = nest_description.restore(description)

    assert restored == (NUMBER, NUMBER)


def test_a_key_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match=r"text or integers can be saved, got \(1, 2\)"):
        nest_description.describe({(1, 2): NUMBER})
