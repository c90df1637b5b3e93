"""Runs the examples in the docstrings of specs/ and parallel_envs/seeding.py."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from parallel_envs import seeding
from parallel_envs.specs import (
    array_spec,
    batching,
    casting,
    checks,
    nest,
    sampling,
    structure,
)


@pytest.mark.parametrize(
    "module",
    [array_spec, batching, casting, checks, nest, sampling, seeding, structure],
    ids=lambda module: module.__name__,
)
def test_examples_in_docstrings_are_true(module: ModuleType) -> None:
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)

    assert result.attempted > 0
    assert result.failed == 0
