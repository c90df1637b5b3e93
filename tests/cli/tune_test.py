"""The command as people run it: what it prints, and how it ends."""

from __future__ import annotations

import pathlib
import subprocess
import sys

CART_POLE = "--env=CartPole-v1"


def tune(folder: pathlib.Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "parallel_envs", "tune", *flags],
        cwd=folder,
        env={"PYTHONPATH": str(pathlib.Path(__file__).parents[2]), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_tune_prints_what_is_recommended_and_the_table(tmp_path: pathlib.Path) -> None:
    done = tune(tmp_path, CART_POLE, "--num_envs=2", "--seconds=3")

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "steps/s   µs a batch" in done.stdout
    assert "Recommended: num_workers=0, copy=True" in done.stdout


def test_tune_finds_modules_in_the_working_directory(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine.py").write_text("def make(): raise RuntimeError('no licence')\n")

    done = tune(tmp_path, "--env=mine:make", "--seconds=3")

    assert done.returncode == 1
    assert done.stderr.endswith(
        "\nparallel-envs tune: environment 0 raised RuntimeError('no licence') during "
        "construction.\n"
    )


def test_wrong_flags_are_one_line_and_exit_code_2(tmp_path: pathlib.Path) -> None:
    for flags, line in {
        (): "--env: expected a name, as in --env=CartPole-v1.",
        (CART_POLE, "--secnds=3"): (
            "there is no flag --secnds. Did you mean --seconds?"
        ),
        (CART_POLE, "--seconds=0"): "--seconds: expected a number above 0, got 0.0.",
        (CART_POLE, "--num_envs=0"): "--num_envs=0: 0 is not a positive integer",
        (CART_POLE, "--preload=nowhere"): (
            "--preload: expected names of modules to import, got 'nowhere'."
        ),
    }.items():
        done = tune(tmp_path, *flags)

        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr == f"parallel-envs tune: {line}\n"
