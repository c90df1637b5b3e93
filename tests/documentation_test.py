"""Every program in the documentation runs, each in a process of its own."""

from __future__ import annotations

import doctest
import importlib
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))


def programs() -> dict[str, str]:
    """Returns each ```python block by its place; illustrations are fenced otherwise."""
    found: dict[str, str] = {}
    for document in DOCUMENTS:
        text = document.read_text("utf-8")
        for block in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.M):
            line = text.count("\n", 0, block.start()) + 1
            found[f"{document.relative_to(ROOT)}:{line}"] = block[1]
    return found


@pytest.mark.parametrize("place", programs())
def test_program_in_a_document_runs(place: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(programs()[place], "utf-8")
    if "runs/cartpole/replay" in path.read_text("utf-8"):
        run_the_command_of_the_readme(tmp_path)

    assert exit_code(path, tmp_path) == 0


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(example: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert exit_code(example, tmp_path) == 0


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_fits_one_screen(example: pathlib.Path) -> None:
    assert len(example.read_text("utf-8").splitlines()) < 60


def modules_that_show() -> list[str]:
    sources = [*ROOT.glob("parallel_envs/**/*.py"), *ROOT.glob("specs/*.py")]
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in sources
        if ">>> " in path.read_text("utf-8")
    ]
    return sorted({re.sub(r"^specs\.", "parallel_envs.specs.", each) for each in names})


@pytest.mark.parametrize("name", modules_that_show())
def test_what_docstrings_show_is_true(name: str) -> None:
    module = importlib.import_module(name.removesuffix(".__init__"))

    results = doctest.testmod(module, optionflags=doctest.ELLIPSIS)

    assert results.failed == 0


def run_the_command_of_the_readme(folder: pathlib.Path) -> None:
    """Leaves in `folder` what programs that read a run of `collect` expect."""
    command = re.search(r"parallel-envs (collect .*)", (ROOT / "README.md").read_text())
    assert command is not None, "README.md has no command that collects"
    subprocess.run(
        [sys.executable, "-m", "parallel_envs", *command[1].split()],
        cwd=folder,
        env=surroundings(),
        check=True,
    )


def exit_code(program: pathlib.Path, folder: pathlib.Path) -> int:
    return subprocess.run(
        [sys.executable, program], cwd=folder, env=surroundings()
    ).returncode


def surroundings() -> dict[str, str]:
    """Returns environment variables with which programs find this checkout."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}
