"""However Python was started, and with whatever it was told."""

from __future__ import annotations

import pathlib
import sysconfig
import venv

import pytest

from tests.places import programs

CONTEXTS = ["forkserver", "spawn"]


@pytest.mark.parametrize(
    "options",
    [
        ["-O"],
        ["-I"],
        ["-X", "dev", "-W", "error"],
        ["-bb", "-E", "-X", "utf8", "-X", "faulthandler"],
    ],
    ids=" ".join,
)
def test_workers_have_the_options_of_the_interpreter(options: list[str]) -> None:
    text = f"""{programs.PREAMBLE}
class Looking(Env):
    def options(self):
        names = ("optimize isolated ignore_environment no_user_site dev_mode "
                 "bytes_warning utf8_mode safe_path").split()
        flags = [int(getattr(sys.flags, name, 0)) for name in names]
        return flags, dict(sys._xoptions, utf8=None), sorted(set(sys.warnoptions))

for context in {CONTEXTS}:
    use([Looking, Looking], context=context)
    with pe.ParallelPyEnvironment([Looking], context=context) as env:
        (there,) = env.call("options")
        assert there == Looking().options(), there
print("done")
"""

    assert programs.run([*options, "-c", text]) == "done\n"


@pytest.mark.parametrize("value", ["error", "error::DeprecationWarning:__main__"])
def test_warnings_may_be_errors(value: str) -> None:
    text = f"{programs.PREAMBLE}\nuse([Env, Env])\nuse([Env], context='spawn')"

    programs.run(["-c", text], environ={"PYTHONWARNINGS": value})


def test_a_module_of_a_package_runs_as_the_main_program(tmp_path: pathlib.Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text("LENGTH = 3\n")
    (package / "module.py").write_text(
        programs.PREAMBLE + "from . import parts\n"
        "class Importing(Env):\n"
        "    def __init__(self):\n"
        "        from package.parts import LENGTH\n"
        "        super().__init__()\n"
        "        self.length = min(LENGTH, parts.LENGTH)\n"
        "for context in ('forkserver', 'spawn', 'fork'):\n"
        "    use([Importing, lambda: Importing()], context=context)\n"
        "print(__name__, __spec__.name)\n"
    )

    printed = programs.run(["-m", "package.module"], folder=tmp_path)

    assert printed == "__main__ package.module\n"


def test_few_environment_variables_are_needed() -> None:
    text = f"{programs.PREAMBLE}\nuse([Env, Env])\nuse([Env], context='spawn')"
    gone: tuple[str, ...] = ("HOME", "PATH", "LANG", "LC_ALL", "TMPDIR", "USER")

    programs.run(["-c", text], environ=dict.fromkeys(gone))


def test_a_virtual_environment_need_not_be_activated(tmp_path: pathlib.Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    text = f"""
import site, sys
site.addsitedir({sysconfig.get_path("purelib")!r})  # The packages of these tests.
{programs.PREAMBLE}
class Looking(Env):
    def prefix(self):
        return sys.prefix

for context in {CONTEXTS}:
    with pe.ParallelPyEnvironment([Looking], context=context) as env:
        print(*env.call("prefix"))
"""

    printed = programs.run(
        ["-c", text], python=str(python), environ={"PATH": None, "VIRTUAL_ENV": None}
    )

    assert printed == f"{tmp_path / 'venv'}\n" * 2


@pytest.mark.parametrize("value", ["''", "None"])
@pytest.mark.parametrize("portable", ["0", "1"])
def test_an_unknown_interpreter_is_an_error_that_says_what_to_do(
    value: str, portable: str
) -> None:
    text = f"""{programs.PREAMBLE}
import gc, os
sys.executable = {value}
before = os.listdir("/proc/self/fd")
try:
    use([Env])
except RuntimeError as error:
    print(error)
gc.collect()
assert os.listdir("/proc/self/fd") == before
use([Env], num_workers=0)
"""

    printed = programs.run(["-c", text], environ={"PARALLEL_ENVS_PORTABLE": portable})

    assert printed == (
        "sys.executable: expected the path of the Python that is to run the workers, "
        f"got {value}, as where a program embeds Python. Set it, or use "
        'context="fork", or num_workers=0.\n'
    )


def test_the_module_path_may_have_entries_that_imports_pass_over() -> None:
    text = f"""{programs.PREAMBLE}
import pathlib
class Looking(Env):
    def path(self):
        return sys.path

strings = list(sys.path)
sys.path[:0] = [None, pathlib.Path("/somewhere"), 3, b"/bytes"]
for context in {CONTEXTS}:
    with pe.ParallelPyEnvironment([Looking], context=context) as env:
        assert env.call("path") == [strings], env.call("path")
"""

    programs.run(["-c", text])


def test_tests_run_in_workers_of_xdist(tmp_path: pathlib.Path) -> None:
    (tmp_path / "batch_test.py").write_text(
        f"{programs.PREAMBLE}\n"
        "import pytest\n"
        "@pytest.mark.parametrize('context', [None, 'spawn'])\n"
        "@pytest.mark.parametrize('number', [0, 1])\n"
        "def test_batch(context, number, worker_id):\n"
        "    assert worker_id in ('gw0', 'gw1')\n"
        "    use([Env, lambda: Env(number)], context=context)\n"
    )
    options = ["-n", "2", "-q", "-W", "error", "-p", "no:cacheprovider"]
    place = ["--rootdir", tmp_path, tmp_path / "batch_test.py"]

    printed = programs.run(["-m", "pytest", *options, *place])

    assert "4 passed" in printed


def test_the_bytecode_of_workers_goes_where_that_of_the_program_goes(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "written_module.py").write_text("VALUE = 1\n")
    text = f"""{programs.PREAMBLE}
sys.path.insert(0, {str(tmp_path)!r})
class Importing(Env):
    def __init__(self):
        super().__init__()
        import written_module

use([Importing])
"""

    programs.run(
        ["-X", f"pycache_prefix={tmp_path / 'cache'}", "-c", text],
        environ={"PYTHONDONTWRITEBYTECODE": None},
    )

    assert list((tmp_path / "cache").rglob("written_module*.pyc"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cache",
        "written_module.py",
    ]
