"""Remembers which keys were added, so that what is sent twice is stored once."""

from __future__ import annotations

import collections
from collections.abc import Iterable


class SeenKeys:
    """The last `limit` different keys.

    A sender that repeats what was not acknowledged repeats recent keys, so the oldest
    may be forgotten: memory stays bounded, however long the buffer lives.
    """

    def __init__(self, limit: int, keys: Iterable[int] = ()) -> None:
        self._limit = limit
        self._keys = collections.OrderedDict[int, None]()
        for key in keys:
            self.add(key)

    def __contains__(self, key: int) -> bool:
        return key in self._keys

    def add(self, key: int) -> None:
        """Remembers a key, and forgets the oldest where there are too many."""
        self._keys[key] = None
        if len(self._keys) > self._limit:
            self._keys.popitem(last=False)

    def to_list(self) -> list[int]:
        """Returns the keys, oldest first."""
        return list(self._keys)
