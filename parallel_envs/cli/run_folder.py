"""The folder of a run: what it was told to do, how far it is, what came of it.

    config.json       the settings and versions it was begun with
    progress.json     the counts that go with what is in replay/
    summary.json      the results, when it has ended
    replay/           a saved ReplayBuffer
    events.out...     for TensorBoard

Counts and replay are two things to write, and a program may be killed in between. So
before the replay is saved the new counts are put beside the old ones; which of them
hold is told by the number of rows that were ever put into the replay that is there.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from parallel_envs.cli import stored_run, usage
from parallel_envs.replay import ReplayBuffer


class RunFolder:
    """One run's folder, held against other processes until `close`.

    Attributes:
        path: The folder.
        config: What was stored when the run was begun; None if it is a new one.
        num_unsaved: Steps that the latest `save` could not save.
    """

    def __init__(self, path: str | os.PathLike[str], *, resume: bool) -> None:
        """Makes the folder where it is not there, and looks what is in it.

        Raises:
            UsageError: If it cannot be written to, is in use, or holds a run that is
                not to be resumed.
        """
        self.path = Path(path)
        self.num_unsaved = 0
        with contextlib.ExitStack() as stack:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                stack.callback(self._remove_if_empty)
                with tempfile.TemporaryFile(dir=self.path):
                    pass
                stack.callback(os.close, _held(self.path))
                self.config: dict[str, Any] | None = stored_run.config(
                    self._config_path
                )
                # Counts, the oldest first; two if a saving did not end.
                self._stored: list[dict[str, Any]] = stored_run.progress(
                    self._progress_path
                )
                if resume and self.config is None and self.has_replay:
                    raise ValueError(
                        f"there is a replay, but {self._config_path} is gone, which "
                        "tells what run it is of: put it back, or begin a new run in "
                        "another folder"
                    )
            except (OSError, ValueError) as error:
                raise usage.UsageError(f"--logdir={path}: {_reason(error)}.") from error
            if not resume:
                if self.has_replay:
                    raise usage.UsageError(
                        f"--logdir={path} holds a run already: add --resume to go on "
                        "with it, or name another folder."
                    )
                # A run that has saved nothing yet is none.
                self.config, self._stored = None, []
            self._stack = stack.pop_all()

    @property
    def replay_path(self) -> Path:
        """Where the replay is saved."""
        return self.path / "replay"

    @property
    def has_replay(self) -> bool:
        """Whether one is saved."""
        return (self.replay_path / "manifest.json").exists()

    @property
    def num_steps(self) -> int:
        """Steps of the run so far, as far as that is sure before `load`."""
        return self._stored[0]["steps"] if self._stored else 0

    @property
    def num_episodes(self) -> int:
        """Episodes that have ended, likewise."""
        return self._stored[0]["lengths"]["count"] if self._stored else 0

    def begin(self, config: dict[str, Any], progress: dict[str, Any]) -> None:
        """Stores the settings; of a new run also the counts it begins with."""
        if self.config is None:
            self._store({**progress, "inserts": 0})
        self.config = config
        _write(self._config_path, config, indent=1)

    def save(self, buffer: ReplayBuffer, progress: dict[str, Any]) -> None:
        """Writes the replay and the counts that go with it.

        Raises:
            OSError: If the disk is full or refuses; what was saved before then holds.
        """
        new = {**progress, "inserts": buffer.stats()["inserts"]}
        self.num_unsaved = new["steps"] - self.num_steps
        self._store(self._stored[0], new)
        buffer.save(self.replay_path)
        self.num_unsaved = 0
        self._stored = [new]
        self._store(new)

    def load(self, buffer: ReplayBuffer) -> dict[str, Any]:
        """Fills the buffer with the replay, and returns the counts that go with it.

        Raises:
            RunError: If a file is damaged, or the two are not of one run.
        """
        try:
            if self.has_replay:
                buffer.load(self.replay_path)
        except (OSError, ValueError) as error:
            raise usage.RunError(f"cannot resume: {error}") from error
        inserts = buffer.stats()["inserts"]
        for counts in self._stored:
            if counts["inserts"] == inserts:
                self._stored = [counts]
                return counts
        raise usage.RunError(
            f"cannot resume: {self.replay_path} is not the replay that "
            f"{self._progress_path} was written with."
        )

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Writes the results."""
        _write(self.path / "summary.json", summary, indent=1)

    def close(self) -> None:
        """Lets other processes have the folder, and removes one that is empty."""
        self._stack.close()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *unused_error: object) -> None:
        self.close()

    @property
    def _config_path(self) -> Path:
        return self.path / "config.json"

    @property
    def _progress_path(self) -> Path:
        return self.path / "progress.json"

    def _store(self, *counts: dict[str, Any]) -> None:
        _write(self._progress_path, counts)
        self._stored = list(counts)

    def _remove_if_empty(self) -> None:
        with contextlib.suppress(OSError):
            self.path.rmdir()


def default_path(env: str) -> Path:
    """Returns a new folder below runs/, named after the environment and the time."""
    name = re.sub(r"[^\w.-]+", "-", env).strip("-.")
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    path, number = Path("runs", f"{name}-{now}"), 1
    while path.exists():
        number += 1
        path = Path("runs", f"{name}-{now}-{number}")
    return path


def _held(path: Path) -> int:
    """Returns a descriptor with whose end the folder is free again."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ValueError("another process is collecting into it") from None
    except (ImportError, OSError):  # Not everywhere are there locks.
        pass
    return descriptor


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror}: {error.filename}"
    return str(error)


def _write(path: Path, content: Any, indent: int | None = None) -> None:
    """Replaces a file by one that is whole."""
    aside = path.with_name(f"{path.name}.new")
    with aside.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=indent)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
