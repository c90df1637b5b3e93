"""Which Python has which library: not all of them can be installed together."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence

import numpy as np

from parallel_envs.benchmarking import contestants
from parallel_envs.benchmarking.contestants import Library

_QUESTION = """
import importlib.metadata, importlib.util, json, sys
versions = {}
for package, distribution in json.loads(sys.argv[1]).items():
    if importlib.util.find_spec(package) is not None:
        try:
            versions[package] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "unknown"
print(json.dumps([sys.version_info[:2], versions]))
"""
_SECONDS_TO_ANSWER = 60


@dataclasses.dataclass(frozen=True)
class Interpreter:
    """A Python, with what is installed for it.

    Attributes:
        path: Of its executable.
        versions: Those of NumPy and of the libraries that are there, by import name.
    """

    path: str
    versions: dict[str, str]


def here() -> Interpreter:
    """Returns the one that runs this."""
    found = {each.package: each.version() for each in contestants.LIBRARIES}
    versions = {name: version for name, version in found.items() if version}
    return Interpreter(sys.executable, {"numpy": np.__version__, **versions})


def at(path: str) -> Interpreter:
    """Returns another one, which is asked what it has.

    Raises:
        ValueError: If it gives no answer, or is of another version than this one: an
            empty loop, which is what work is made of, then takes another time.
    """
    names = {each.package: each.distribution for each in contestants.PEERS}
    question = json.dumps({"numpy": "numpy", **names})
    try:
        answer = subprocess.run(
            [path, "-c", _QUESTION, question],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS_TO_ANSWER,
        )
        version, versions = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ValueError(f"expected a Python, got {path!r}: {error}") from error
    if tuple(version) != sys.version_info[:2]:
        raise ValueError(
            f"expected Python {_dotted(sys.version_info[:2])}, as here, got "
            f"{_dotted(version)} at {path!r}"
        )
    return Interpreter(path, versions)


def of_library(
    library: Library, interpreters: Sequence[Interpreter]
) -> Interpreter | None:
    """Returns the first of `interpreters` that has the library; None if none has."""
    having = (each for each in interpreters if library.package in each.versions)
    return next(having, None)


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
