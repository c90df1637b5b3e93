"""The ledger finds failures without a cause, and faults without a failure."""

from __future__ import annotations

import os
from typing import Any

import pytest

import parallel_envs as pe
from parallel_envs.batch.failure_record import FailureRecord, Kind
from tests.fault_drill.faults import Fault
from tests.fault_drill.ledger import Ledger, LedgerError
from tests.fault_drill.plan import Event

ROWS = [range(1), range(1, 3), range(3, 4)]
GROUPS = [[0, 1], [0, 1], [2]]  # The first two share a process.
PID = os.getpid()


def event(position: int, fault: Fault, place: str = "step") -> Event:
    return Event(position, 0, place, 0, fault, PID)


def record(index: int, kind: Kind, num_restarts: int = 1, **more: Any) -> FailureRecord:
    facts: dict[str, Any] = {
        "index": index,
        "indices": (index,),
        "kind": kind,
        "doing": "step",
        "message": "",
        "traceback": "",
        "exitcode": None,
        "num_rounds": 1,
        "time": 0.0,
        "num_restarts": num_restarts,
        "is_repaired": True,
    }
    return FailureRecord(**{**facts, **more})


def ledger_of(*events: Event, casts: bool = False) -> Ledger:
    ledger = Ledger(ROWS, GROUPS, casts=casts)
    ledger.note(events)
    return ledger


def test_an_exception_may_lose_its_own_rows_and_a_death_those_of_the_process() -> None:
    assert ledger_of(event(1, Fault.RAISES)).losable == {1, 2}
    assert ledger_of(event(1, Fault.EXITS)).losable == {0, 1, 2}
    assert ledger_of(event(1, Fault.PRINTS)).losable == set()
    assert ledger_of(event(1, Fault.WRONG_DTYPE), casts=True).losable == set()


@pytest.mark.parametrize(("index", "kind"), [(0, "raised"), (3, "raised"), (1, "died")])
def test_a_failure_without_a_cause_is_found(index: int, kind: Kind) -> None:
    ledger = ledger_of(event(1, Fault.RAISES))

    with pytest.raises(LedgerError, match="no cause is known"):
        ledger.account([record(index, kind)], 9)


def test_a_failure_that_is_told_twice_is_found() -> None:
    ledger = ledger_of(event(2, Fault.EXITS))

    with pytest.raises(LedgerError, match="no cause is known"):
        ledger.account([record(3, "died"), record(3, "died", 2)], 9)


@pytest.mark.parametrize(("num_restarts", "limit"), [(2, 9), (0, 9), (1, 0)])
def test_restarts_that_are_miscounted_are_found(num_restarts: int, limit: int) -> None:
    ledger = ledger_of(event(2, Fault.EXITS))

    with pytest.raises(LedgerError, match="1 restarts of"):
        ledger.account([record(3, "died", num_restarts)], limit)


def test_a_limit_that_was_exceeded_without_a_fault_is_counted() -> None:
    ledger = ledger_of()

    ledger.account([record(3, "late")], 9)

    assert ledger.num_unexplained == 1
    assert ledger.losable == {3}


def test_a_fault_that_is_not_told_is_found() -> None:
    ledger = ledger_of(event(2, Fault.RAISES))

    with pytest.raises(LedgerError, match="was not told"):
        ledger.check_lost({3}, ())


def test_a_row_that_goes_on_after_a_fault_is_found() -> None:
    ledger = ledger_of(event(1, Fault.RAISES))
    ledger.account([record(1, "raised")], 9)

    with pytest.raises(LedgerError, match="went on after"):
        ledger.check_lost({1}, ())
    ledger.check_lost({1, 2}, ())


def test_an_error_that_names_a_row_without_a_fault_is_found() -> None:
    ledger = ledger_of(event(2, Fault.EXITS))
    error = pe.WorkerDiedError([0, 3], "step", ["", ""])

    with pytest.raises(LedgerError, match="names a row without a fault"):
        ledger.check_error(error)


def test_what_has_been_told_causes_nothing_further() -> None:
    ledger = ledger_of(event(2, Fault.EXITS), event(0, Fault.RAISES))
    ledger.account([record(3, "died"), record(0, "raised")], 9)

    ledger.settle([])

    assert ledger.losable == set()
    assert ledger.open == []
