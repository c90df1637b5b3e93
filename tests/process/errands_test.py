"""What tells of a failure; how requests are asked and answered is in the pool's."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from parallel_envs.process import errands
from parallel_envs.process.remote_error import RemoteError
from parallel_envs.process.worker import Report
from parallel_envs.process.worker_handle import WorkerGone

ERROR = RemoteError.of(ValueError("no"))
GONE = WorkerGone(0, 1234, -9)


@pytest.mark.parametrize(
    "answer", [ERROR, GONE, Report(failures=("one",)), (Report(failures=(1,)), None)]
)
def test_errors_deaths_and_reports_with_failures_are_failures(answer: Any) -> None:
    assert errands.has_failed(answer)


@pytest.mark.parametrize(
    "answer",
    [None, (), 0, "error", (None, [1]), (Report(extras=1), None), Report(), [ERROR]],
)
def test_all_else_is_none(answer: Any) -> None:
    assert not errands.has_failed(answer)


class Unreadable:
    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("no number",)


def test_what_cannot_be_read_is_an_error_and_not_raised() -> None:
    assert errands.unpickled(pickle.dumps([1, 2])) == [1, 2]

    error = errands.unpickled(pickle.dumps(Unreadable()))

    assert isinstance(error, RemoteError)
    assert isinstance(error.rebuild(), ValueError)
    assert "no number" in error.summary
