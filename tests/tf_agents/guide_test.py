"""Every program in the guide to TF-Agents runs, each in a process of its own."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "tf_agents.md"
# Those that need no TF-Agents are fenced as ```python.
PROGRAMS = re.findall(
    r"^```py\n(.*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE
)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_program_in_the_guide_runs(number: int, tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAMS[number], "utf-8")

    ended = subprocess.run(
        [sys.executable, program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert ended.returncode == 0
