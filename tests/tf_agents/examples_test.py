"""The programs that train TF-Agents' agents, each run in a process of its own."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parents[2]

# MuJoCo is not needed for TF-Agents: SAC runs on a pendulum of Gymnasium's own, with
# the same lines of the program.
PROGRAMS = {
    "dqn": ["--max_steps=256"],
    "ppo": ["--max_steps=4096"],
    "sac": ["--max_steps=1128", "--env=Pendulum-v1"],
}


@pytest.mark.parametrize("algorithm", PROGRAMS)
def test_program_trains_and_evaluates(algorithm: str, tmp_path: pathlib.Path) -> None:
    run = trained(algorithm, tmp_path, *PROGRAMS[algorithm])

    (point,) = run["curve"]
    assert f"--max_steps={point['steps']}" in PROGRAMS[algorithm]
    assert 0 < point["seconds_collecting"] < point["seconds"]
    assert run["batch"] == "parallel_envs"


def test_agent_learns_the_same_over_the_batch_of_tf_agents(
    tmp_path: pathlib.Path,
) -> None:
    ours = trained("ppo", tmp_path, "--max_steps=4096", "--seed=3")
    theirs = trained(
        "ppo", tmp_path, "--max_steps=4096", "--seed=3", "--batch=tf_agents"
    )

    assert theirs["batch"] == "tf_agents"
    assert theirs["curve"][-1]["mean_return"] == ours["curve"][-1]["mean_return"]


def trained(algorithm: str, folder: pathlib.Path, *flags: str) -> dict[str, Any]:
    """Returns the line which a program adds to its output."""
    program = ROOT / "docs" / "examples" / f"tf_agents_{algorithm}.py"
    subprocess.run(
        [sys.executable, program, "--output=runs.jsonl", *flags],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        timeout=240,
    )
    return json.loads((folder / "runs.jsonl").read_text("utf-8").splitlines()[-1])
