"""What has failed on the way, told so that the message comes last."""

from __future__ import annotations

import traceback

from parallel_envs import errors
from parallel_envs.cli import usage

_REMOTE = "\nFrom the worker:\n"


def told(error: Exception, hint: str = "") -> usage.RunError:
    """Returns an error in the words of the command.

    Args:
        error: What an environment, the policy, the disk or the program has raised.
        hint: What can be done now; told after tracebacks, before the message.
    """
    if isinstance(error, usage.RunError):
        message, details = str(error), error.details
    elif isinstance(error, errors.WorkerError):
        message, _, remote = str(error).partition(_REMOTE)
        details = f"{_REMOTE}{remote}".strip() if remote else ""
    elif isinstance(error, (OSError, ValueError)):
        message, details = str(error), ""
    else:
        message, details = f"{error!r}.", of_traceback(error)
    return usage.RunError(message, "\n".join(filter(None, (details, hint))))


def of_step(error: Exception, policy: str) -> Exception:
    """Returns the error of a step, and where it is about actions, who made them.

    Args:
        error: What the environments raised.
        policy: The value of --policy.
    """
    is_refused = isinstance(error, (TypeError, ValueError))
    if is_refused and str(error).startswith("action"):
        return usage.RunError(f"--policy={policy} returned what does not fit: {error}")
    return error


def of_traceback(error: Exception) -> str:
    """Returns the traceback of an error as text."""
    return "".join(traceback.format_exception(error)).rstrip()
