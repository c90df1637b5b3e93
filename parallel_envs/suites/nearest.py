"""What somebody may have meant who wrote a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import PurePath
from types import ModuleType


def names(name: str, known: Iterable[str]) -> list[str]:
    """Returns up to three of `known` that are spelled much as `name`, nearest first."""
    # Upper and lower case are the commonest mistake.
    by_lower = {each.lower(): each for each in known}
    return [by_lower[key] for key in difflib.get_close_matches(name.lower(), by_lower)]


def hint(name: str, known: Iterable[str]) -> str:
    """Returns "; the nearest are ..." with up to three of `known`, or "" if none is.

    >>> hint("cartpole-v1", ["CartPole-v1", "Pendulum-v1"])
    "; the nearest is 'CartPole-v1'"
    """
    close = names(name, known)
    if not close:
        return ""
    verb = "is" if len(close) == 1 else "are"
    return f"; the nearest {verb} {', '.join(map(repr, close))}"


def no_member(module: ModuleType, name: str) -> str:
    """Returns that a module lacks a member, from where it is, and what it has instead.

    The file tells who meant their own test.py that Python has a module of this name.
    """
    file = getattr(module, "__file__", None)
    where = f" ({file})" if file else ""
    public = [each for each in dir(module) if not each.startswith("_")]
    return (
        f"there is no {name!r} in the module {module.__name__!r}{where}"
        f"{hint(name, public)}."
    )


def without_suffix(path: str) -> str | None:
    """Returns the name of the module in a file "x.py"; None if it is no such path.

    >>> without_suffix("./envs/cart.py"), without_suffix("envs.cart")
    ('envs.cart', None)
    """
    if not path.endswith(".py"):
        return None
    file = PurePath(path).with_suffix("")
    is_below = all(part.isidentifier() for part in file.parts)
    return ".".join(file.parts) if is_below else file.name
