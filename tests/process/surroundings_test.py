from __future__ import annotations

import os
import pathlib
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parallel_envs.process import pickling
from parallel_envs.process.surroundings import Surroundings, with_single_threads


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Each test may change what this process sees around it."""
    folder, umask = os.getcwd(), os.umask(0o022)
    os.umask(umask)
    environ, path, arguments = dict(os.environ), list(sys.path), list(sys.argv)
    yield
    os.chdir(folder)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(environ)
    sys.path[:], sys.argv[:] = path, arguments


def elsewhere(surroundings: Surroundings, look: Callable[[], Any]) -> Any:
    """Returns what another process sees that has taken the surroundings over."""
    payload = pickling.dumps(surroundings)
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        try:
            os.chdir("/")
            os.umask(0o077)
            os.environ.clear()
            os.environ["LEFTOVER"] = "gone"
            sys.path.clear()
            sys.argv.clear()
            pickle.loads(payload).apply()
            os.write(write_end, pickle.dumps(look()))
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end, "rb") as pipe:
        seen = pipe.read()
    os.wait()
    return pickle.loads(seen)


def test_environment_variables_are_taken_over_and_others_go() -> None:
    os.environ["PARALLEL_ENVS_TEST"] = "päth = \udcff"  # Bytes that are no UTF-8.

    seen = elsewhere(Surroundings.capture(), lambda: dict(os.environ))

    assert seen == with_single_threads(os.environ)
    assert seen["PARALLEL_ENVS_TEST"] == "päth = \udcff"


def test_the_folder_may_have_any_name(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "größe 環境\n \udcff"
    folder.mkdir()
    os.chdir(folder)

    seen = elsewhere(Surroundings.capture(), os.getcwd)

    assert seen == str(folder)


def test_a_folder_that_was_deleted_is_not_taken_over(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "deleted"
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()

    surroundings = Surroundings.capture()

    assert surroundings.folder is None
    assert elsewhere(surroundings, os.getcwd) == "/"


def test_the_module_path_and_the_arguments_are_taken_over() -> None:
    sys.path.insert(0, "/somewhere/größe")
    sys.argv[:] = ["program", "--flag=größe", ""]

    seen = elsewhere(Surroundings.capture(), lambda: (sys.path, sys.argv))

    assert seen == (sys.path, ["program", "--flag=größe", ""])


def test_the_module_path_is_changed_in_place() -> None:
    path, arguments = sys.path, sys.argv

    Surroundings.capture().apply()

    assert sys.path is path
    assert sys.argv is arguments


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o027])
def test_new_files_get_the_same_permissions(umask: int) -> None:
    def read_umask() -> int:
        return os.umask(0)

    os.umask(umask)

    seen = elsewhere(Surroundings.capture(), read_umask)

    assert seen == umask
    assert os.umask(umask) == umask  # Looking has not changed it.


def test_programs_that_are_started_get_the_environment(tmp_path: pathlib.Path) -> None:
    os.environ["PARALLEL_ENVS_TEST"] = "value"
    path = tmp_path / "seen"

    elsewhere(
        Surroundings.capture(),
        lambda: subprocess.call(f'echo "$PARALLEL_ENVS_TEST" > {path}', shell=True),
    )

    assert path.read_text() == "value\n"


def test_one_thread_unless_the_user_said_how_many() -> None:
    environ = with_single_threads({"OMP_NUM_THREADS": "4", "HOME": "/home"})

    assert environ == {
        "OMP_NUM_THREADS": "4",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "HOME": "/home",
    }


def test_a_program_without_arguments_has_surroundings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(sys, "argv")  # As where Python is embedded.

    assert Surroundings.capture().arguments == ()
