"""Who is compared: libraries, and the ways in which each can be used."""

from __future__ import annotations

import dataclasses
import importlib.util
from importlib import metadata


@dataclasses.dataclass(frozen=True)
class Library:
    """A library that steps environments as a batch.

    Attributes:
        package: Its import name, which is also that of its module in `peers`.
        distribution: What pip calls it.
        ways: How it can be used, in the order of tables. "cores" is a process for each
            core, "each" one for each environment, "one" a single one, "views" without
            a copy.
    """

    package: str
    distribution: str
    ways: tuple[str, ...]

    def version(self) -> str | None:
        """Returns the version that is installed here; None if it is not."""
        # What is in a checkout has a version only if it was installed.
        if importlib.util.find_spec(self.package) is None:
            return None
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return "unknown"


@dataclasses.dataclass(frozen=True)
class Contestant:
    """One way of using one library."""

    library: Library
    way: str

    @property
    def name(self) -> str:
        """What it is called in tables and flags."""
        return f"{self.library.package}/{self.way}"

    @property
    def is_peer(self) -> bool:
        """Whether it is somebody else's."""
        return self.library not in (OURS, _SERIAL)


OURS = Library(
    "parallel_envs",
    "parallel-envs",
    ("cores", "cores-views", "each", "each-views", "here", "here-views"),
)
PEERS = (
    Library("gymnasium", "gymnasium", ("async", "async-views", "sync")),
    Library("stable_baselines3", "stable-baselines3", ("subproc", "dummy")),
    Library("tf_agents", "tf-agents", ("parallel",)),
    Library("envpool", "envpool", ("threads",)),
    Library("pufferlib", "pufferlib", ("cores", "each", "one")),
    Library("supersuit", "supersuit", ("cores", "each")),
    Library("moolib", "moolib", ("cores", "each")),
)
LIBRARIES = (OURS, *PEERS)
_SERIAL = Library("serial", "parallel-envs", ("loop",))
SERIAL = Contestant(_SERIAL, "loop")
"""The same environments in a plain loop of their own `step`: what all are held to."""

ALL = tuple(Contestant(library, way) for library in LIBRARIES for way in library.ways)
