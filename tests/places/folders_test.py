"""From any folder, and where folders come and go."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

from tests.places import programs

NAME = "Ordner mit ä und 猫, \"so\" 'und so'"
EACH = "for context in ('forkserver', 'spawn', 'fork'):"


def test_the_working_directory_may_be_read_only(tmp_path: pathlib.Path) -> None:
    (tmp_path / "module_there.py").write_text("VALUE = 3\n")
    text = f"""{programs.PREAMBLE}
class Looking(Env):
    def look(self):
        import module_there
        try:
            open("new", "w")
        except OSError as error:
            return module_there.VALUE, error.strerror

{EACH}
    with pe.ParallelPyEnvironment([Looking], context=context) as env:
        print(*env.call("look"))
    use([Looking], context=context)
"""
    # Root may write anywhere but here.
    mount = f"mount --bind {tmp_path} {tmp_path}; mount -o remount,bind,ro {tmp_path}"
    program = [sys.executable, "-c", text]

    command = programs.mounting(f"{mount}; cd {tmp_path}", program)
    printed = programs.run(command[1:], python=command[0])

    assert printed == "(3, 'Read-only file system')\n" * 3


@pytest.mark.parametrize("portable", ["0", "1"])
def test_the_working_directory_may_have_been_deleted(
    portable: str, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "deleted"
    folder.mkdir()
    text = f"""{programs.PREAMBLE}
import os
os.rmdir({str(folder)!r})
{EACH}
    if context == "spawn" or not {int(portable)}:
        use([Env, Env], context=context)
print("done")
"""

    printed = programs.run(
        ["-c", text], folder=folder, environ={"PARALLEL_ENVS_PORTABLE": portable}
    )

    assert printed == "done\n"


@pytest.mark.parametrize("locale", ["C.UTF-8", "C", "POSIX"])
def test_paths_may_have_any_characters(locale: str, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / NAME
    folder.mkdir()
    (folder / "module_größe.py").write_text("VALUE = 3\n", "utf-8")
    (folder / "programm_ü.py").write_text(
        f"""{programs.PREAMBLE}
import os, tempfile
import module_größe

class Looking(Env):
    def look(self):
        assert module_größe.VALUE == 3
        with tempfile.NamedTemporaryFile() as file:
            folder = os.path.dirname(file.name)
        return [os.fsencode(path) for path in (os.getcwd(), sys.argv[0], folder)]

{EACH}
    with pe.ParallelPyEnvironment([Looking], context=context) as env:
        (seen,) = env.call("look")
        assert seen == Looking().look(), seen
    use([Looking, lambda: Looking()], context=context)
print(*seen, sep="\\n")
""",
        "utf-8",
    )

    printed = programs.run(
        [folder / "programm_ü.py"],
        folder=folder,
        environ={"TMPDIR": str(folder), "LC_ALL": locale, "LANG": None},
    )

    expected = [folder, folder / "programm_ü.py", folder]
    assert printed.splitlines() == [repr(os.fsencode(path)) for path in expected]


@pytest.mark.parametrize("entry", ["", "."])
def test_what_was_imported_from_a_relative_path_is_found_after_a_change_of_folder(
    entry: str, tmp_path: pathlib.Path
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    (before / "module_of_before.py").write_text(
        "from parallel_envs.testing import environments\n"
        "class There(environments.Counting):\n"
        "    pass\n"
    )
    (after / "module_of_after.py").write_text("VALUE = 3\n")
    # The library itself is found in the folder that is left.
    for source in ("parallel_envs", "specs"):
        (before / source).symlink_to(programs.ROOT / source)
    text = f"""
import os, sys
sys.path[:] = [{entry!r}, *(path for path in sys.path if path)]
sys.meta_path[:] = [
    finder for finder in sys.meta_path if "editable" not in repr(finder).lower()
]
{programs.PREAMBLE.replace("sys.path.append", "str")}
import module_of_before

class Looking(module_of_before.There):
    def look(self):
        import module_of_after
        return os.getcwd(), sys.path[0], module_of_after.VALUE

contexts = ("forkserver", "spawn", "fork")
for context in contexts:
    use([module_of_before.There], context=context)
os.chdir({str(after)!r})
for context in contexts:
    use([module_of_before.There], context=context)
    if context != "fork":  # Which looks where this process looks: "." is as it was.
        with pe.ParallelPyEnvironment([Looking], context=context) as env:
            print(*env.call("look"))
"""

    printed = programs.run(["-c", text], folder=before, environ={"PYTHONPATH": None})

    assert printed.splitlines() == [str((str(after), entry, 3))] * 2


def test_a_batch_that_is_there_already_stays_where_it_was_made(
    tmp_path: pathlib.Path,
) -> None:
    text = f"""{programs.PREAMBLE}
import logging, os
logging.disable()  # It is told that an environment is made anew.

class Looking(environments.Exiting):
    def folder(self):
        return os.getcwd()

with pe.ParallelPyEnvironment([Looking, Env]) as env:
    env.reset()
    os.chdir({str(tmp_path)!r})
    print(env.envs[0].call("folder")())
    try:
        env.step(np.zeros(2, np.int64))
    except pe.WorkerDiedError:
        env.reset()  # Starts a new worker, which sees the surroundings of now.
    print(env.envs[0].call("folder")())
"""

    printed = programs.run(["-c", text], folder="/")

    assert printed.splitlines() == ["/", str(tmp_path)]
