"""Environments that a function or a class makes, by its module and name."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Mapping
from typing import Any

from parallel_envs import py_environment
from parallel_envs.adapters import recognition
from parallel_envs.suites import nearest


@dataclasses.dataclass(frozen=True)
class FunctionConstructor:
    """Makes an environment by calling a function that is found when it is called.

    Attributes:
        module: Dotted name of the module.
        function: Name of the function in it, dotted for a member of a class.
        kwargs: Arguments of the function.
    """

    module: str
    function: str
    kwargs: Mapping[str, Any] = dataclasses.field(hash=False)

    def __call__(self) -> py_environment.PyEnvironment:
        """Returns the environment, adapted if it is of another library.

        Raises:
            ImportError: If the module cannot be imported.
            ValueError: If it has no such function.
            TypeError: If that is not callable, or returns something else.
        """
        make = self._find()
        if not callable(make):
            raise TypeError(
                f"name: expected a function at '{self.module}:{self.function}', got "
                f"{make!r}."
            )
        return recognition.as_py_environment(make(**self.kwargs))

    def _find(self) -> Any:
        module = importlib.import_module(self.module)
        try:
            return functools.reduce(getattr, self.function.split("."), module)
        except AttributeError:
            raise ValueError(
                f"name: {nearest.no_member(module, self.function)}"
            ) from None


def constructor(
    module: str, function: str, kwargs: Mapping[str, Any]
) -> FunctionConstructor:
    """Returns the constructor; nothing is imported for it."""
    return FunctionConstructor(module, function, dict(kwargs))
