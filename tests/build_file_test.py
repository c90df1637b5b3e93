"""BUILD is the map of the code; here it is compared with what the code imports.

No Bazel is needed: BUILD runs as Python, with functions that write down its targets.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Collection, Iterable, Iterator

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
    listed = [path for target in targets_of("py_library") for path in target.sources]
    modules = [path for path in listed if path.startswith("parallel_envs/")]

    assert set(modules) == source_files()
    assert len(modules) == len(set(modules))


def test_each_test_is_run_by_exactly_one_target() -> None:
    listed = [path for target in targets_of("py_test") for path in target.sources]
    tests = list(filter(is_test, listed))

    assert set(tests) == mirrored_tests()
    assert len(tests) == len(set(tests))


def test_no_two_targets_share_a_name() -> None:
    names = [target.name for target in read_targets()]

    assert sorted(set(names)) == sorted(names)


def test_deps_are_the_libraries_that_the_sources_need() -> None:
    written = {target.name: target.deps for target in read_targets()}

    assert written == {target.name: needed_by(target) for target in read_targets()}


def targets_of(rule: str) -> list[Target]:
    return [target for target in read_targets() if target.rule == rule]


@functools.cache
def read_targets() -> list[Target]:
    targets: list[Target] = []

    def rule(kind: str) -> Callable[..., None]:
        def record(
            name: str, srcs: Iterable[str], deps: Iterable[str] = (), **_: object
        ) -> None:
            needed = frozenset(label.removeprefix(":") for label in deps)
            targets.append(Target(kind, name, frozenset(srcs), needed))

        return record

    rules = {kind: rule(kind) for kind in ("py_library", "py_binary", "py_test")}
    others = {"load": ignore, "package": ignore, "licenses": ignore}
    exec((ROOT / "BUILD").read_text("utf-8"), {**rules, **others, "glob": glob})
    return targets


def glob(patterns: Iterable[str]) -> list[str]:
    paths = (path for pattern in patterns for path in ROOT.glob(pattern))
    return [path.relative_to(ROOT).as_posix() for path in paths]


def ignore(*_: object, **__: object) -> None: ...


def needed_by(target: Target) -> frozenset[str]:
    library_of = {
        module_name(path): library.name
        for library in targets_of("py_library")
        for path in library.sources
    }
    needed = {
        library_of[name]
        for path in target.sources
        for name in imported_names(ROOT / path, known=library_of.keys())
    }
    if target.rule == "py_test":
        # The test of a part needs it, even if it runs it as a command.
        needed |= {target.name.removesuffix("_test")} & set(library_of.values())
    return frozenset(needed - {target.name})


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
    return set(glob(["parallel_envs/**/*.py", "parallel_envs/specs/*.py"]))


def mirrored_tests() -> set[str]:
    return set(filter(is_test, glob(["tests/**/*.py"]))) - OF_THE_REPOSITORY


def is_test(path: str) -> bool:
    return path.endswith("_test.py")
