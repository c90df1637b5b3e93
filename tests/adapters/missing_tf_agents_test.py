"""What needs TF-Agents says so where it is not installed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from parallel_envs import replay


class Absent:
    """A finder of modules to whom TF-Agents is not installed, even if it is."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "tf_agents":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_dataset_without_tf_agents_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "meta_path", [Absent, *sys.meta_path])
    buffer = replay.ReplayBuffer(capacity=3)
    buffer.add(np.zeros(3))

    with pytest.raises(ImportError, match=r"pip install 'parallel_envs\[tf-agents\]'"):
        buffer.as_dataset()
