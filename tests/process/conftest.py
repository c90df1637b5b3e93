from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

import pytest

from parallel_envs.process import facilities
from tests.process.servants import Gate


@pytest.fixture
def gate(tmp_path: pathlib.Path) -> Iterator[Gate]:
    """Something at which a worker can be held up."""
    with contextlib.closing(Gate(str(tmp_path / "gate"))) as made:
        yield made


@pytest.fixture
def portable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has pools do without what only Linux has."""
    monkeypatch.setenv(facilities.VARIABLE, "1")
