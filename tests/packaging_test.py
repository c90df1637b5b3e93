"""What is shipped is what the checkout has, and it works where it is installed."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile

import pytest

import parallel_envs

ROOT = pathlib.Path(__file__).parent.parent


@dataclasses.dataclass(frozen=True)
class Built:
    """The paths of what `python -m build` makes of a copy of the checkout."""

    sdist: pathlib.Path
    wheel_through_sdist: pathlib.Path
    wheel_in_place: pathlib.Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    checkout = tmp_path_factory.mktemp("checkout")
    for name in ("setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    for name in ("specs", "parallel_envs"):
        shutil.copytree(
            ROOT / name,
            checkout / name,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__", "*.so"),
        )
    shipped = tmp_path_factory.mktemp("shipped")
    in_place = tmp_path_factory.mktemp("in_place")
    build(checkout, f"--outdir={shipped}")
    build(checkout, f"--outdir={in_place}", "--wheel")
    return Built(
        next(shipped.glob("*.tar.gz")),
        next(shipped.glob("*.whl")),
        next(in_place.glob("*.whl")),
    )


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The `bin` of a virtual environment that has the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps"]
    subprocess.run([*pip, "--no-index", built.wheel_through_sdist], check=True)
    # The dependencies come from the environment of this test. What is installed there
    # as editable stays behind: its .pth file is not read by a path in another one.
    (site_packages,) = folder.glob("lib/python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python.parent


def test_wheel_has_each_file_of_the_package_and_nothing_else(built: Built) -> None:
    metadata, files = partition(wheel_files(built.wheel_through_sdist))
    compiled = {path for path in files if path.endswith(".so")}

    assert files - compiled == package_files()
    assert {path.partition(".")[0] for path in compiled} == {
        "parallel_envs/batch/_row_loop",
        "parallel_envs/process/_bell_loop",
    }
    assert all(".dist-info/" in path for path in metadata)


def test_wheel_is_the_same_built_in_place_and_through_the_sdist(built: Built) -> None:
    in_place = wheel_files(built.wheel_in_place)

    assert in_place == wheel_files(built.wheel_through_sdist)


def test_version_is_the_one_that_the_package_tells(built: Built) -> None:
    assert built.sdist.name == f"parallel_envs-{parallel_envs.__version__}.tar.gz"


def test_sdist_has_specs_at_its_top_and_what_the_build_needs(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {"setup.py", "README.md", "LICENSE", "specs/array_spec.py"} <= names
    assert "parallel_envs/batch/row_loop.c" in names
    assert "parallel_envs/process/bell_loop.c" in names
    assert not any(name.startswith("tests") for name in names)


def test_installed_package_has_specs_and_knows_no_checkout(
    installed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    program = "import parallel_envs.specs; print(parallel_envs.specs.__file__)"

    origin = run(installed / "python", program, tmp_path)

    assert origin.startswith(str(installed.parent))
    assert origin.endswith("parallel_envs/specs/__init__.py")


def test_specs_folder_of_the_users_own_does_not_disturb(
    installed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "__init__.py").write_text("mine = True")
    program = (
        "import parallel_envs as pe, specs; print(specs.mine, pe.ArraySpec.__module__)"
    )

    output = run(installed / "python", program, tmp_path)

    assert output == "True parallel_envs.specs.array_spec"


def test_installed_command_names_its_subcommands(
    installed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    shown = subprocess.run(
        [installed / "parallel-envs", "--help"],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )

    assert "collect" in shown.stdout


def test_checkout_that_shadows_the_installed_package_works(
    installed: pathlib.Path,
) -> None:
    program = "import parallel_envs as pe; print(pe.ArraySpec.__module__)"

    output = run(installed / "python", program, ROOT)

    assert output == "parallel_envs.specs.array_spec"


def build(checkout: pathlib.Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", *arguments]
    subprocess.run(
        [*command, checkout], check=True, cwd=checkout, stdout=subprocess.DEVNULL
    )


def wheel_files(wheel: pathlib.Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def partition(paths: set[str]) -> tuple[set[str], set[str]]:
    modules = {path for path in paths if path.startswith("parallel_envs/")}
    return paths - modules, modules


def package_files() -> set[str]:
    files = {
        path.relative_to(ROOT).as_posix()
        for folder in (ROOT / "parallel_envs", ROOT / "specs")
        for pattern in ("*.py", "py.typed")
        for path in folder.rglob(pattern)
    }
    return {f"parallel_envs/{path.removeprefix('parallel_envs/')}" for path in files}


def run(python: pathlib.Path, program: str, folder: pathlib.Path) -> str:
    return subprocess.run(
        [python, "-c", program],
        cwd=folder,
        env=clean_environment(),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.strip()


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
