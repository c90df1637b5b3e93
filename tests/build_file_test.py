"""BUILD is the map of the code; here it is compared with what the code imports.

No Bazel is needed: BUILD reads as Python, so `ast` tells its targets and the imports.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import pathlib
from collections.abc import Collection, Iterator

ROOT = pathlib.Path(__file__).parent.parent

# These look at the repository as a whole, which no sandbox of a target holds.
OF_THE_REPOSITORY = {
    "tests/build_file_test.py",
    "tests/documentation_test.py",
    "tests/imports_test.py",
    "tests/packaging_test.py",
}


@dataclasses.dataclass(frozen=True)
class Target:
    """One rule of BUILD, its sources as paths below the root."""

    rule: str
    name: str
    sources: frozenset[str]
    deps: frozenset[str]


def test_each_module_is_in_exactly_one_library() -> None:
    listed = sorted(path for library in libraries() for path in library.sources)

    assert listed == sorted(source_files())


def test_each_test_is_run_by_exactly_one_target() -> None:
    listed = sorted(path for target in tests() for path in target.sources)

    assert sorted(filter(is_test, listed)) == sorted(mirrored_tests())


def test_no_two_targets_share_a_name() -> None:
    names = [target.name for target in read_targets()]

    assert sorted(set(names)) == sorted(names)


def test_deps_are_the_libraries_that_the_sources_import() -> None:
    written = {target.name: target.deps for target in read_targets()}

    assert written == {target.name: needed_by(target) for target in read_targets()}


def libraries() -> list[Target]:
    return [target for target in read_targets() if target.rule == "py_library"]


def tests() -> list[Target]:
    return [target for target in read_targets() if target.rule == "py_test"]


@functools.cache
def read_targets() -> list[Target]:
    calls = ast.parse((ROOT / "BUILD").read_text("utf-8")).body
    return [target for call in calls for target in as_target(call)]


def as_target(statement: ast.stmt) -> Iterator[Target]:
    match statement:
        case ast.Expr(ast.Call(func=ast.Name(id=rule), keywords=keywords)) if rule in {
            "py_library",
            "py_binary",
            "py_test",
        }:
            values = {each.arg: each.value for each in keywords}
            yield Target(
                rule,
                ast.literal_eval(values["name"]),
                frozenset(read_files(values["srcs"])),
                frozenset(read_labels(values.get("deps"))),
            )
        case _:
            pass


def read_files(value: ast.expr) -> set[str]:
    match value:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return read_files(left) | read_files(right)
        case ast.Call(func=ast.Name(id="glob"), args=[patterns]):
            return {
                path.relative_to(ROOT).as_posix()
                for pattern in ast.literal_eval(patterns)
                for path in ROOT.glob(pattern)
            }
        case _:
            return set(ast.literal_eval(value))


def read_labels(value: ast.expr | None) -> set[str]:
    labels: list[str] = [] if value is None else ast.literal_eval(value)
    return {label.removeprefix(":") for label in labels}


def needed_by(target: Target) -> frozenset[str]:
    library_of = {
        module_name(path): library.name
        for library in libraries()
        for path in library.sources
    }
    imported = {
        library_of[name]
        for path in target.sources
        for name in imported_names(ROOT / path, known=library_of.keys())
    }
    return frozenset(imported - {target.name})


def imported_names(path: pathlib.Path, known: Collection[str]) -> Iterator[str]:
    """Yields the `known` modules that a file imports, wherever in it and why ever."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name in known)
            case ast.ImportFrom(module=str(module), names=names):
                for name in names:
                    whole = f"{module}.{name.name}"
                    yield from [each for each in (whole, module) if each in known][:1]
            case _:
                pass


def module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def source_files() -> set[str]:
    # The second pattern is for Pythons whose ** does not follow a link.
    patterns = ("parallel_envs/**/*.py", "parallel_envs/specs/*.py")
    paths = (path for pattern in patterns for path in ROOT.glob(pattern))
    return {path.relative_to(ROOT).as_posix() for path in paths}


def mirrored_tests() -> set[str]:
    paths = (path.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/**/*.py"))
    return set(filter(is_test, paths)) - OF_THE_REPOSITORY


def is_test(path: str) -> bool:
    return path.endswith("_test.py")
