from __future__ import annotations

import builtins
import pickle
import sys
import threading
from typing import Any

import pytest

from parallel_envs.process import pickling
from parallel_envs.process.remote_error import RemoteError


def raised(error: BaseException) -> RemoteError:
    try:
        raise error
    except BaseException as caught:
        return RemoteError.of(caught)


def travelled(remote: RemoteError) -> RemoteError:
    """Returns what another process reads."""
    return pickle.loads(pickling.dumps(remote))


def test_an_exception_arrives_with_its_text_and_its_traceback() -> None:
    remote = travelled(raised(ValueError("wrong", 3)))
    error = remote.rebuild()

    assert remote.summary == "ValueError('wrong', 3)"
    assert "in raised" in remote.traceback
    assert remote.traceback.endswith("ValueError: ('wrong', 3)\n")
    assert type(error) is ValueError
    assert error.args == ("wrong", 3)


class LocalError(Exception):
    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"row {row}: {reason}")


def test_an_exception_that_cannot_be_rebuilt_is_told_all_the_same() -> None:
    remote = travelled(raised(LocalError(3, "stuck")))

    assert remote.rebuild() is None
    assert remote.summary == "LocalError('row 3: stuck')"
    assert "row 3: stuck" in remote.traceback


def test_an_exception_that_cannot_be_pickled_is_told_all_the_same() -> None:
    remote = travelled(raised(ValueError(threading.Lock())))

    assert remote.pickled is None
    assert remote.rebuild() is None
    assert "lock" in remote.summary


class Unprintable(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


def test_an_exception_that_cannot_be_printed_is_told_by_its_name() -> None:
    remote = travelled(raised(Unprintable()))

    assert remote.summary == "Unprintable (its repr raised)"
    assert "Unprintable" in remote.traceback


def test_an_exception_that_fails_to_pickle_in_its_own_way_is_told() -> None:
    class Odd(Exception):
        def __reduce__(self) -> Any:
            raise ZeroDivisionError

    remote = travelled(raised(Odd("so")))

    assert remote.rebuild() is None
    assert remote.summary == "Odd('so')"


def test_an_exception_of_20_mb_arrives_shortened() -> None:
    remote = raised(ValueError("x" * 20_000_000))

    assert len(pickling.dumps(remote)) < 200_000
    assert remote.summary.startswith("ValueError('xxx")
    assert "\n[... 19998014 characters ...]\n" in remote.summary
    assert remote.traceback.startswith("Traceback")
    assert remote.rebuild() is None


def test_something_that_is_no_exception_is_not_taken_for_one() -> None:
    class Deceiving(Exception):
        def __reduce__(self) -> Any:
            return int, ()

    assert travelled(raised(Deceiving())).rebuild() is None


def test_the_causes_are_in_the_traceback() -> None:
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error
    except ValueError as error:
        remote = travelled(RemoteError.of(error))

    assert "KeyError: 'first'" in remote.traceback
    assert "direct cause of the following exception" in remote.traceback
    assert "ValueError: second" in remote.traceback


@pytest.mark.skipif(sys.version_info < (3, 11), reason="there are no groups")
def test_a_group_arrives_with_its_members() -> None:
    group_type: Any = vars(builtins)["ExceptionGroup"]
    remote = travelled(raised(group_type("both", [ValueError("a"), TypeError("b")])))
    error: Any = remote.rebuild()

    assert "ValueError: a" in remote.traceback
    assert "TypeError: b" in remote.traceback
    assert [type(member) for member in error.exceptions] == [ValueError, TypeError]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_what_ends_a_program_is_told_like_the_rest(kind: type[BaseException]) -> None:
    remote = travelled(raised(kind(3)))

    assert remote.summary == f"{kind.__name__}(3)"
    assert type(remote.rebuild()) is kind


def test_an_exception_that_was_not_raised_has_no_traceback_lines() -> None:
    assert RemoteError.of(ValueError("plain")).traceback == "ValueError: plain\n"


def test_an_endless_recursion_arrives() -> None:
    def recurse() -> None:
        recurse()

    with pytest.raises(RecursionError) as caught:
        recurse()
    remote = travelled(RemoteError.of(caught.value))

    assert type(remote.rebuild()) is RecursionError
    assert "in recurse" in remote.traceback
