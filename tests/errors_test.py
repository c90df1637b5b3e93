from __future__ import annotations

import copy
import pickle
import signal

import pytest

from parallel_envs import errors

WORKER_ERRORS = [
    errors.WorkerError,
    errors.WorkerValueError,
    errors.WorkerTypeError,
    errors.WorkerAttributeError,
    errors.WorkerNotImplementedError,
    errors.WorkerDiedError,
    errors.WorkerTimeoutError,
]


def make(kind: type[errors.WorkerError] = errors.WorkerError) -> errors.WorkerError:
    return kind(
        [1, 4],
        "step",
        [" is tired.", ": too late."],
        exitcode=-9,
        remote_traceback="Traceback ...\nOSError: 猫\n",
    )


def test_the_list_of_errors_is_complete() -> None:
    defined = {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.WorkerError)
    }

    assert defined == set(WORKER_ERRORS)


@pytest.mark.parametrize("kind", WORKER_ERRORS)
def test_an_error_survives_pickling_with_all_its_facts(
    kind: type[errors.WorkerError],
) -> None:
    error = make(kind)

    for arrived in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(arrived) is kind
        assert vars(arrived) == vars(error)
        assert str(arrived) == str(error)
        assert arrived.index == 1


def test_an_error_names_every_row_and_then_the_traceback() -> None:
    assert str(make()) == (
        "environment 1 is tired.\n"
        "environment 4: too late.\n"
        "From the worker:\n"
        "Traceback ...\n"
        "OSError: 猫"
    )


def test_an_error_without_a_traceback_has_none_in_its_text() -> None:
    error = errors.WorkerError([0], "reset", [" is tired."])

    assert str(error) == "environment 0 is tired."
    assert (error.exitcode, error.remote_traceback) == (None, "")


@pytest.mark.parametrize(
    ("kind", "also"),
    [
        (errors.ClosedError, RuntimeError),
        (errors.WorkerError, RuntimeError),
        (errors.WorkerValueError, ValueError),
        (errors.WorkerTypeError, TypeError),
        (errors.WorkerAttributeError, AttributeError),
        (errors.WorkerNotImplementedError, NotImplementedError),
        (errors.WorkerTimeoutError, TimeoutError),
    ],
)
def test_an_error_is_also_of_the_type_that_python_gives_such_a_failure(
    kind: type[Exception], also: type[Exception]
) -> None:
    assert issubclass(kind, also)


def test_a_closed_error_survives_pickling() -> None:
    arrived = pickle.loads(pickle.dumps(errors.ClosedError("is closed.")))

    assert type(arrived) is errors.ClosedError
    assert str(arrived) == "is closed."


@pytest.mark.parametrize(
    ("exitcode", "words"),
    [
        (None, "its process ended, and its exit status is unknown"),
        (0, "its process ended with exit code 0"),
        (3, "its process ended with exit code 3"),
        (
            -signal.SIGKILL,
            "its process was ended by signal SIGKILL (exit code -9): killed by hand, "
            "or by the system because memory ran out",
        ),
        (
            -signal.SIGSEGV,
            "its process was ended by signal SIGSEGV (exit code -11): native code in "
            "the environment crashed",
        ),
        (-signal.SIGHUP, "its process was ended by signal SIGHUP (exit code -1)"),
        (-200, "its process was ended by signal unknown (exit code -200)"),
    ],
)
def test_the_end_of_a_process_is_put_into_words(
    exitcode: int | None, words: str
) -> None:
    assert errors.describe_exit(exitcode) == words


def test_rows_that_failed_alike_are_told_once() -> None:
    details = [" raised A.", " raised B.", " raised A.", " raised A."]

    text = str(errors.WorkerError([0, 1, 2, 4], "step", details))

    assert text.splitlines() == [
        "environment 0 raised A.",
        "environments 2 and 4: the same.",
        "environment 1 raised B.",
    ]
    alike = str(errors.WorkerError(range(8), "step", [" raised A."] * 8))
    assert alike.splitlines()[1] == "environments 1 to 7: the same."
