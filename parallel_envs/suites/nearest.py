"""What somebody may have meant who wrote a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def hint(name: str, known: Iterable[str]) -> str:
    """Returns "; the nearest are ..." with up to three of `known`, or "" if none is.

    >>> hint("cartpole-v1", ["CartPole-v1", "Pendulum-v1"])
    "; the nearest is 'CartPole-v1'"
    """
    # Upper and lower case are the commonest mistake.
    by_lower = {each.lower(): each for each in known}
    matches = difflib.get_close_matches(name.lower(), by_lower)
    if not matches:
        return ""
    verb = "is" if len(matches) == 1 else "are"
    return f"; the nearest {verb} " + ", ".join(repr(by_lower[m]) for m in matches)
