from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from parallel_envs.cli import run_folder, usage
from parallel_envs.cli.run_folder import RunFolder
from parallel_envs.cli.tally import Tally
from parallel_envs.replay import ReplayBuffer

CONFIG: dict[str, Any] = {
    "settings": {"env": "CartPole-v1", "num_envs": 1, "num_steps": 9}
}
STATISTICS: dict[str, Any] = Tally(1).to_json()["returns"]


def with_settings(**changes: Any) -> str:
    return json.dumps({"settings": {**CONFIG["settings"], **changes}})


def with_returns(returns: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**Tally(1).to_json(), "inserts": 0, "returns": returns}]


def test_counts_of_a_saving_that_did_not_end_do_not_hold(
    tmp_path: pathlib.Path,
) -> None:
    buffer = filled_buffer(5)
    with RunFolder(tmp_path, resume=False) as folder:
        folder.begin(CONFIG, counts(steps=0))
        folder.save(buffer, counts(steps=4))
        # Keys that no replay can save end the saving once the counts are written.
        buffer.clear()
        buffer.add({None: np.float32(1)})
        with pytest.raises(TypeError, match="keys are text or integers"):
            folder.save(buffer, counts(steps=6))
    restored_buffer = ReplayBuffer(capacity=100)

    with RunFolder(tmp_path, resume=True) as folder:
        restored = folder.load(restored_buffer)

    assert restored["steps"] == 4
    assert len(restored_buffer) == 5


def test_first_saving_that_did_not_end_leaves_a_run_at_its_beginning(
    tmp_path: pathlib.Path,
) -> None:
    buffer = ReplayBuffer(capacity=100)
    buffer.add({None: np.float32(1)})
    with RunFolder(tmp_path, resume=False) as folder:
        folder.begin(CONFIG, counts(steps=0))
        with pytest.raises(TypeError, match="keys are text or integers"):
            folder.save(buffer, counts(steps=1))

    with RunFolder(tmp_path, resume=True) as folder:
        restored = folder.load(ReplayBuffer(capacity=100))

    assert restored["steps"] == 0


def test_replay_of_another_run_is_refused(tmp_path: pathlib.Path) -> None:
    with RunFolder(tmp_path, resume=False) as folder:
        folder.begin(CONFIG, counts(steps=0))
        folder.save(filled_buffer(5), counts(steps=4))
    filled_buffer(7).save(tmp_path / "replay")

    with (
        RunFolder(tmp_path, resume=True) as folder,
        pytest.raises(usage.RunError, match=r"is not the replay that .*progress\.json"),
    ):
        folder.load(ReplayBuffer(capacity=100))


def test_damaged_replay_is_told(tmp_path: pathlib.Path) -> None:
    with RunFolder(tmp_path, resume=False) as folder:
        folder.begin(CONFIG, counts(steps=0))
        folder.save(filled_buffer(5), counts(steps=4))
    (tmp_path / "replay" / "manifest.json").write_text("{")

    with (
        RunFolder(tmp_path, resume=True) as folder,
        pytest.raises(
            usage.RunError, match=r"cannot resume: .*manifest\.json is damaged"
        ),
    ):
        folder.load(ReplayBuffer(capacity=100))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting property name"),
        ("null", "it is null"),
        ("[1]", r"expected 'settings', got \[1\]"),
        ("{}", "there is no 'settings'"),
        ('{"settings": 3}', "expected 'env' in 'settings', got 3"),
        ('{"settings": {}}', "there is no 'env' in 'settings'"),
        (with_settings(num_envs=0), "in 'settings', --num_envs=0: 0 is not a positive"),
        (with_settings(num_envs="8"), "--num_envs: expected 8, got '8'"),
        (with_settings(num_steps=None), "expected num_steps or num_episodes"),
        (with_settings(preload="numpy"), "--preload: expected .* got 'numpy'"),
    ],
)
def test_damaged_settings_are_told(
    tmp_path: pathlib.Path, text: str, reason: str
) -> None:
    (tmp_path / "config.json").write_text(text)

    with pytest.raises(
        usage.UsageError,
        match=f"config.json is damaged: .*{reason}.*; put a copy of it back, or begin",
    ):
        RunFolder(tmp_path, resume=True)


DAMAGED_COUNTS: list[tuple[Any, str]] = [
    ({}, "expected a list of counts, got {}"),
    ([], r"expected a list of counts, got \[\]"),
    ([3], "expected 'steps', got 3"),
    ([{}], "there is no 'steps'"),
    ([{**Tally(1).to_json(), "inserts": -1}], "expected a count as 'inserts', got"),
    ([{**Tally(1).to_json(), "inserts": 0, "failures": 3}], "expected 'repaired' in"),
    (
        [{**Tally(1).to_json(), "inserts": 0, "failures": {"repaired": -1}}],
        "expected a count as 'failures.repaired', got -1",
    ),
    (with_returns({}), "there is no 'count' in 'returns'"),
    (
        with_returns({**STATISTICS, "count": 1.5}),
        "expected a count as .returns.count.",
    ),
    (with_returns({**STATISTICS, "count": 1}), "expected numbers of one shape in"),
]


@pytest.mark.parametrize(("content", "reason"), DAMAGED_COUNTS)
def test_damaged_counts_are_told(
    tmp_path: pathlib.Path, content: Any, reason: str
) -> None:
    (tmp_path / "progress.json").write_text(json.dumps(content))

    with pytest.raises(usage.UsageError, match=f"progress.json is damaged: {reason}"):
        RunFolder(tmp_path, resume=True)


def test_replay_without_settings_is_not_resumed(tmp_path: pathlib.Path) -> None:
    with RunFolder(tmp_path, resume=False) as folder:
        folder.begin(CONFIG, counts(steps=0))
        folder.save(filled_buffer(5), counts(steps=4))
    (tmp_path / "config.json").unlink()

    with pytest.raises(
        usage.UsageError, match=r"there is a replay, but .*config\.json is gone"
    ):
        RunFolder(tmp_path, resume=True)


def test_folder_is_for_one_process_at_a_time(tmp_path: pathlib.Path) -> None:
    with (
        RunFolder(tmp_path, resume=False),
        pytest.raises(usage.UsageError, match="another process is collecting into it"),
    ):
        RunFolder(tmp_path, resume=True)

    RunFolder(tmp_path, resume=True).close()


def test_folder_that_stays_empty_is_removed(tmp_path: pathlib.Path) -> None:
    with RunFolder(tmp_path / "run", resume=False):
        assert (tmp_path / "run").exists()

    assert not (tmp_path / "run").exists()


def test_default_folder_is_one_that_is_not_there(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [run_folder.default_path("ale_py:ALE/Pong-v5") for _ in range(1)]
    for _ in range(3):
        paths[-1].mkdir(parents=True)
        paths.append(run_folder.default_path("ale_py:ALE/Pong-v5"))

    assert len(set(paths)) == 4
    assert {path.parent.name for path in paths} == {"runs"}
    assert all(path.name.startswith("ale_py-ALE-Pong-v5-2") for path in paths)


def counts(steps: int) -> dict[str, Any]:
    return {**Tally(1).to_json(), "steps": steps}


def filled_buffer(num_rows: int) -> ReplayBuffer:
    buffer = ReplayBuffer(capacity=100)
    for _ in range(num_rows):
        buffer.add({"observation": np.float32(1)})
    return buffer
