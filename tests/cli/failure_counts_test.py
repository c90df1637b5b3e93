from __future__ import annotations

import json

import pytest

from parallel_envs.batch.failure_record import FailureRecord, Kind
from parallel_envs.cli.failure_counts import FailureCounts


def test_failures_are_counted_once_however_often_they_are_told() -> None:
    counts = FailureCounts()
    records = [record("died"), record("late")]

    counts.update(records[:1])
    counts.update(records)
    counts.update(records)

    assert counts.to_json() == {
        "total": 2,
        "repaired": 2,
        "died": 1,
        "late": 1,
        "raised": 0,
    }


def test_restored_counts_go_on_with_the_failures_of_other_environments() -> None:
    counts, restored = FailureCounts(), FailureCounts()
    counts.update([record("died"), record("raised", is_repaired=False)])

    restored.restore(json.loads(json.dumps(counts.to_json())))
    restored.update([record("died")])

    assert str(restored) == "3 (2 died, 1 raised), 2 repaired"


@pytest.mark.parametrize(
    ("records", "words"),
    [
        (("died",) * 1200, "1,200 (1,200 died), all repaired"),
        (("raised", "late", "died", "late"), "4 (1 died, 2 late, 1 raised), all repai"),
    ],
)
def test_failures_are_told_by_kind(records: tuple[Kind, ...], words: str) -> None:
    counts = FailureCounts()

    counts.update([record(kind) for kind in records])

    assert str(counts).startswith(words)


def test_failure_that_was_raised_is_told_not_to_be_repaired() -> None:
    counts = FailureCounts()

    counts.update([record("raised", is_repaired=False)])

    assert str(counts) == "1 (1 raised), none repaired"


def record(kind: Kind, *, is_repaired: bool = True) -> FailureRecord:
    return FailureRecord(
        index=0,
        indices=(0,),
        kind=kind,
        doing="step",
        message="environment 0 failed",
        traceback="",
        exitcode=None,
        num_rounds=1,
        time=0.0,
        num_restarts=1,
        is_repaired=is_repaired,
    )
