"""An exception on its way to another process, with all that can be told of it."""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import traceback

from parallel_envs.process import pickling

_FAULTS = (Exception, SystemExit, GeneratorExit)  # Of what is the user's code.

_MAX_TEXT = 100_000  # characters of a traceback; what is cut is the middle
_MAX_SUMMARY = 2_000  # characters
_MAX_PICKLE = 1 << 20  # bytes; a larger exception arrives as text only


@dataclasses.dataclass(frozen=True)
class RemoteError:
    """What one process says of an exception to another.

    Attributes:
        summary: The exception as its `repr`, shortened.
        traceback: Its traceback as text, at most about 100 kB.
        pickled: The exception itself, or None where it cannot travel.
    """

    summary: str
    traceback: str
    pickled: bytes | None = dataclasses.field(repr=False)

    @classmethod
    def of(cls, error: BaseException) -> RemoteError:
        """Returns what there is to tell of `error`, whatever is wrong with it."""
        return cls(
            summary=_shorten(_summary(error), _MAX_SUMMARY),
            traceback=_shorten(_traceback(error), _MAX_TEXT),
            pickled=_pickled(error),
        )

    def rebuild(self) -> BaseException | None:
        """Returns the exception, or None where it cannot be rebuilt here."""
        if self.pickled is None:
            return None
        # Loading runs the constructor that the user wrote: it may raise anything.
        with contextlib.suppress(*_FAULTS):
            error = pickle.loads(self.pickled)
            return error if isinstance(error, BaseException) else None
        return None


def _summary(error: BaseException) -> str:
    with contextlib.suppress(*_FAULTS):  # The `repr` is the user's code.
        return repr(error)
    return f"{type(error).__name__} (its repr raised)"


def _traceback(error: BaseException) -> str:
    with contextlib.suppress(*_FAULTS):
        return "".join(traceback.format_exception(error))
    return "".join(traceback.format_tb(error.__traceback__))


def _pickled(error: BaseException) -> bytes | None:
    with contextlib.suppress(*_FAULTS):  # So is how the exception pickles.
        payload = pickling.dumps(error)
        return payload if len(payload) <= _MAX_PICKLE else None
    return None


def _shorten(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - limit} characters ...]\n{text[-half:]}"
