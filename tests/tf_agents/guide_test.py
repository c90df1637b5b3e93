"""Programs in the guides that need TF-Agents run, each in a process of its own."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def programs() -> dict[str, str]:
    """Returns each ```py block by its place; those fenced ```python need no more."""
    found: dict[str, str] = {}
    for document in sorted((ROOT / "docs").rglob("*.md")):
        text = document.read_text("utf-8")
        for block in re.finditer(r"^```py\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            line = text.count("\n", 0, block.start()) + 1
            found[f"{document.relative_to(ROOT)}:{line}"] = block[1]
    return found


@pytest.mark.parametrize("place", programs())
def test_program_in_a_guide_runs(place: str, tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(programs()[place], "utf-8")

    ended = subprocess.run(
        [sys.executable, program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert ended.returncode == 0
