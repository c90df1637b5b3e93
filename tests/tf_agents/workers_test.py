"""What workers of our own environments import."""

from __future__ import annotations

import functools
import sys
from typing import Any

import pytest

from tests.tf_agents import scenes, ways


@pytest.mark.parametrize("way", ways.WAYS)
@pytest.mark.parametrize(
    "options",
    [
        {"context": "forkserver"},
        {"context": "spawn"},
        {"context": "forkserver", "num_workers": 1},
        {"context": "forkserver", "max_restarts": 1},
    ],
    ids=str,
)
def test_workers_of_our_environments_never_import_tensorflow(
    way: str, options: dict[str, Any]
) -> None:
    constructors = [scenes.Importing, functools.partial(scenes.Importing, 1)]
    with ways.WAYS[way](constructors, **options) as env:
        env.reset()

        by_row = env.call("imported")

        assert len(by_row) == 2
        for packages in by_row:
            assert "numpy" in packages
            assert packages.isdisjoint({"tensorflow", "tf_agents", "keras", "gin"})
    assert {"tensorflow", "tf_agents"} <= set(sys.modules)


def test_nor_do_those_that_replace_workers() -> None:
    constructor = functools.partial(scenes.ImportingAndDying, at=1)
    with ways.WAYS["ParallelPyEnvironment"]([constructor], max_restarts=1) as env:
        env.reset()
        env.step([0])
        env.step([0])

        (packages,) = env.call("imported")

        assert len(env.failures) == 1
        assert packages.isdisjoint({"tensorflow", "tf_agents"})
