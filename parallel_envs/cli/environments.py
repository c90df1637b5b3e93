"""What `--env` names, and what its mistakes look like."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator

from parallel_envs import errors, suites
from parallel_envs.cli import usage
from parallel_envs.cli.settings import Settings
from parallel_envs.parallel_py_environment import ParallelPyEnvironment
from parallel_envs.py_environment import PyEnvironment

Constructor = Callable[[], PyEnvironment]

# Arguments of ParallelPyEnvironment, and of autotune, that are flags too.
_FLAGS = (
    "num_envs",
    "seconds",
    "num_workers",
    "context",
    "preload",
    "start_timeout",
    "step_timeout",
    "max_restarts",
)

# How the error begins that `recognition` raises.
_NO_ENVIRONMENT = "expected a PyEnvironment, or an environment of "


def constructor(name: str) -> Constructor:
    """Returns what makes the environment called `name`.

    Raises:
        UsageError: If there is no such environment, or a package for it is missing.
    """
    try:
        return suites.constructor(name)
    except (ImportError, ValueError) as error:
        raise _usage_error(str(error)) from error


def start(make: Constructor, settings: Settings) -> ParallelPyEnvironment:
    """Returns the environments, started.

    Raises:
        UsageError: If settings do not fit together, or if it turns out in a worker that
            the name is wrong.
        RunError: If the environments do not fit together.
        WorkerError: If an environment could not be made for another reason.
    """
    with mistakes_told(settings.env or ""):
        return ParallelPyEnvironment(
            [make] * settings.num_envs,
            start_serially=False,
            num_workers=settings.num_workers,
            context=settings.context,
            preload=_preloaded(make, settings),
            start_timeout=settings.start_timeout,
            step_timeout=settings.step_timeout,
            max_restarts=settings.max_restarts,
        )


@contextlib.contextmanager
def mistakes_told(name: str) -> Generator[None, None, None]:
    """Tells what goes wrong in the block in the words of the command.

    Args:
        name: The value of --env.

    Raises:
        UsageError: If flags do not fit together, or if it turns out in a worker that
            the name is wrong.
        RunError: If the environments do not fit together.
    """
    try:
        yield
    except errors.WorkerError as error:
        complaint = _complaint_about_name(error, name)
        if complaint is None:
            raise
        raise _usage_error(complaint) from error
    except (TypeError, ValueError) as error:
        raise _complaint_about_argument(str(error)) from error


def default_preload(make: Constructor) -> tuple[str, ...]:
    """Returns modules that the environment needs and a clean process may import."""
    is_of_gymnasium = type(make).__module__.endswith(".gymnasium_suite")
    return ("gymnasium",) if is_of_gymnasium else ()


def _preloaded(make: Constructor, settings: Settings) -> tuple[str, ...]:
    if settings.preload is not None:
        return settings.preload
    has_nursery = settings.context in (None, "forkserver") and settings.num_workers != 0
    return default_preload(make) if has_nursery else ()


def _complaint_about_name(error: errors.WorkerError, name: str) -> str | None:
    """Returns what was wrong with the name, if that was it.

    Modules of a name are imported in workers only, so that it shows only there, as the
    last line of a traceback, whether a module has what is asked of it.
    """
    _, _, last_line = error.remote_traceback.rstrip().rpartition("\n")
    kind, _, message = last_line.partition(": ")
    module = name.partition(":")[0]
    if kind.startswith("gymnasium.error.") or message.startswith("name: "):
        return message
    if kind == "ModuleNotFoundError" and f"'{module}'" in message.partition(";")[0]:
        return message
    if kind == "TypeError" and message.startswith(_NO_ENVIRONMENT):
        return f"{name}: {message}"
    return None


def _complaint_about_argument(message: str) -> Exception:
    argument = message.partition(":")[0]
    if argument in _FLAGS:
        return usage.UsageError(f"--{message}")
    return usage.RunError(message.removeprefix("env_constructors[0] "))


def _usage_error(message: str) -> usage.UsageError:
    return usage.UsageError(f"--env: {message.removeprefix('name: ')}")
