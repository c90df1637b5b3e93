"""The containers of a nest as JSON, and back, without pickle.

A file must not decide what code runs. So the class of a named tuple is looked up among
the modules that are imported already (and those of this package), and no other is
imported for the sake of a file.
"""

from __future__ import annotations

import collections
import importlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from parallel_envs.specs.array_spec import ArraySpec
from parallel_envs.specs.nest import Nest

Description = dict[str, Any]

_PACKAGE = "parallel_envs."


def describe(nest: Nest) -> Description:
    """Returns what JSON can hold of a nest of `ArraySpec`.

    Raises:
        TypeError: If the key of a dict is neither text nor an integer.
    """
    if isinstance(nest, ArraySpec):
        dtype = np.lib.format.dtype_to_descr(nest.dtype)
        return {"kind": "array", "shape": list(nest.shape), "dtype": dtype}
    if isinstance(nest, Mapping):
        mapping = cast("Mapping[Any, Nest]", nest)
        ordered = isinstance(nest, collections.OrderedDict)
        return {
            "kind": "ordered_dict" if ordered else "dict",
            "items": [[_key(key), describe(value)] for key, value in mapping.items()],
        }
    values = [describe(value) for value in cast("Sequence[Nest]", nest)]
    if not hasattr(nest, "_fields"):
        return {"kind": "tuple", "items": values}
    cls = cast("type[Any]", type(nest))
    return {
        "kind": "named_tuple",
        "module": cls.__module__,
        "name": cls.__qualname__,
        "items": [
            [name, value] for name, value in zip(cls._fields, values, strict=True)
        ],
    }


def restore(description: Description) -> Nest:
    """Returns the nest of `ArraySpec` that was described.

    Warns:
        UserWarning: If the class of a named tuple is not there. The nest then has a
            new one with the same fields.
    """
    kind = description["kind"]
    if kind == "array":
        dtype = np.lib.format.descr_to_dtype(_tuples(description["dtype"]))
        return ArraySpec(description["shape"], dtype)
    items: list[Any] = description["items"]
    if kind == "tuple":
        return tuple(restore(value) for value in items)
    named = {name: restore(value) for name, value in items}
    if kind == "named_tuple":
        make = _named_tuple(description["module"], description["name"], tuple(named))
        return make(*named.values())
    return collections.OrderedDict(named) if kind == "ordered_dict" else named


def _key(key: Any) -> str | int:
    if isinstance(key, (str, int)):
        return key
    raise TypeError(
        f"items: only dicts whose keys are text or integers can be saved, got {key!r}."
    )


def _tuples(descr: Any) -> Any:
    """Returns a dtype's description with the tuples that JSON has made lists."""
    if not isinstance(descr, list):
        return descr
    fields = cast("list[list[Any]]", descr)
    return [(name, _tuples(kind), *map(tuple, rest)) for name, kind, *rest in fields]


def _named_tuple(
    module: str, name: str, fields: tuple[str, ...]
) -> Callable[..., tuple[Nest, ...]]:
    found = _look_up(module, name)
    if isinstance(found, type):
        cls = cast("type[Any]", found)
        if getattr(cls, "_fields", None) == fields and issubclass(cls, tuple):
            return cast("Callable[..., tuple[Nest, ...]]", cls)
    warnings.warn(
        f"The items were saved as named tuples {module}.{name}, which are not imported "
        "here or have other fields; they are read as new ones with the same fields. "
        f"Import {module} before loading to have them back.",
        stacklevel=2,
    )
    short_name = name.rpartition(".")[2]
    return collections.namedtuple(short_name, fields)  # pyright: ignore[reportUntypedNamedTuple]


def _look_up(module: str, name: str) -> object:
    if module.startswith(_PACKAGE) and module not in sys.modules:
        try:
            importlib.import_module(module)
        except ImportError:
            return None
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
