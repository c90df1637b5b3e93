"""The command `bench` as people run it, with runs that are too short to mean much."""

from __future__ import annotations

import json
import pathlib
import re
import signal
import struct
import subprocess
import sys
import venv
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from parallel_envs.cli import bench_flags, usage

COMMAND = [sys.executable, "-m", "parallel_envs", "bench"]
QUICK = ["--runs=1", "--seconds=0.1", "--num_envs=2"]
FAULTY = "parallel_envs.testing.environments"


def test_comparison_is_printed_and_written(tmp_path: pathlib.Path) -> None:
    names = "parallel_envs/each,parallel_envs/here,gymnasium/async"

    ended = bench(
        tmp_path,
        *QUICK,
        "--workloads=null,sleep-2ms",
        f"--contestants={names}",
        "--output=out/of/it",
    )

    assert ended.returncode == 0, ended.stderr
    tables = ended.stdout.split("environments\n")[1:]
    assert len(tables) == 2
    order = ["serial/loop", *names.split(",")]
    for table in tables:
        rows = re.findall(r"^(\w+/\S+) +[\d,]+ +[\d,.]+ +[\d,.]+ ", table, re.MULTILINE)
        assert rows == order
        assert re.search(
            r"The limit is [\d,]+ steps/s. The peer is gymnasium/async.", table
        )
    stored = json.loads((tmp_path / "out/of/it/results.json").read_text())
    assert [each["workload"] for each in stored["comparisons"]] == ["null", "sleep-2ms"]
    for comparison in stored["comparisons"]:
        lines = comparison["contestants"]
        assert [line["name"] for line in lines] == order
        assert all(line["failure"] is None for line in lines)
        assert all(len(line["runs"]) == 1 for line in lines)
        assert lines[0]["of_serial"] == 1.0
        assert lines[3]["of_peer"] == 1.0
    assert stored["machine"]["python"].startswith("CPython 3.")
    assert stored["versions"].keys() == {"gymnasium", "parallel-envs"}
    assert size_of_png(tmp_path / "out/of/it/chart.png") > (500, 300)
    assert_page_tells(tmp_path / "out/of/it/chart.html", stored)


def test_sweep_draws_curves(tmp_path: pathlib.Path) -> None:
    ended = bench(
        tmp_path,
        "--runs=1",
        "--seconds=0.02",
        "--num_envs=2",
        "--sweep",
        "--contestants=parallel_envs/here",
        "--output=.",
    )

    assert ended.returncode == 0, ended.stderr
    assert "compute-1000us, 2 environments" in ended.stdout
    assert size_of_png(tmp_path / "chart.png") > (500, 300)
    page = (tmp_path / "chart.html").read_text()
    assert "microseconds that a step computes" in page


def test_own_environment_that_hangs_is_cut_off_and_told(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine.py").write_text(
        f"from {FAULTY} import Counting, Hanging\n"
        "def make():\n"
        "    import os\n"
        "    is_worker = os.getpid() != os.getsid(0)\n"
        "    return Hanging() if is_worker else Counting()\n"
    )

    ended = bench(
        tmp_path,
        *QUICK,
        "--env=mine:make",
        "--contestants=parallel_envs/each,gymnasium/sync",
        "--timeout=3",
        "--output=.",
    )

    assert ended.returncode == 0, ended.stderr
    assert re.search(r"^serial/loop +[\d,]+ ", ended.stdout, re.MULTILINE)
    assert re.search(r"^parallel_envs/each +failed", ended.stdout, re.MULTILINE)
    assert "parallel_envs/each was not done after 3 s" in ended.stdout
    assert "gymnasium/sync the environment is not one of Gymnasium" in ended.stdout
    page = (tmp_path / "chart.html").read_text()
    assert "was not done after 3 s</td>" in page


def test_nothing_measured_is_a_failure(tmp_path: pathlib.Path) -> None:
    ended = bench(
        tmp_path,
        *QUICK,
        f"--env={FAULTY}:RaisingInConstructor",
        "--contestants=parallel_envs/here",
    )

    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("parallel-envs bench: nothing could be measured: Runtime")


def test_interruption_keeps_what_is_complete(tmp_path: pathlib.Path) -> None:
    arguments = [
        "--runs=1",
        "--seconds=0.02",
        "--num_envs=2,3",
        f"--env={FAULTY}:Counting",
        "--contestants=parallel_envs/here",
        "--output=.",
    ]
    with subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("The limit is"):
                break

        process.send_signal(signal.SIGINT)
        stderr = process.communicate()[1]

    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert "interrupted; complete comparisons were kept" in stderr
    stored = json.loads((tmp_path / "results.json").read_text())
    assert [each["num_envs"] for each in stored["comparisons"]] == [2]


def test_peer_that_is_not_installed_is_named_with_its_command(
    tmp_path: pathlib.Path,
) -> None:
    # A library of ours that nobody has here stands for those that may be there.
    ended = bench_without(
        "moolib",
        tmp_path,
        *QUICK,
        "--workloads=null",
        "--contestants=moolib,parallel_envs/here",
    )

    assert ended.returncode == 0, ended.stderr
    assert "Not installed: moolib (pip install moolib)" in ended.stdout


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (
            "--workloads=null,imagee",
            "--workloads: there is no 'imagee'; the nearest is 'image'.",
        ),
        (
            "--contestants=gymnasum/sync",
            "--contestants: there is no 'gymnasum/sync'; the nearest are "
            "'gymnasium/sync', 'gymnasium/async'",
        ),
        ("--contestants=zebra", "--contestants: there is no 'zebra'; there are env"),
        ("--num_envs=8,0", "--num_envs=8,0: expected whole numbers above 0"),
        ("--runs=0", "--runs"),
        ("--seconds=nan", "--seconds=nan: expected seconds above 0."),
        ("--timeout=0", "--timeout=0.0: expected seconds above 0."),
        ("--env=CartPol-v1", "--env: there is no 'CartPol-v1' in Gymnasium"),
        ("--pythons=/nowhere", "--pythons: expected a Python, got '/nowhere': "),
        ("--outputs=x", "there is no flag --outputs. Did you mean --output?"),
        ("there", "expected flags, as in --name=value, got 'there'."),
    ],
)
def test_wrong_flag_is_refused(flag: str, message: str) -> None:
    with pytest.raises(usage.UsageError) as caught:
        bench_flags.parse([flag])

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--workloads=imagee", "--workloads: there is no 'imagee'; the nearest is"),
        ("--output=/proc/nowhere", "--output=/proc/nowhere: No such file or directory"),
    ],
)
def test_what_is_refused_is_one_line_and_code_2(
    tmp_path: pathlib.Path, flag: str, message: str
) -> None:
    ended = bench(tmp_path, flag)

    assert ended.returncode == 2, ended.stderr
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stderr.startswith(f"parallel-envs bench: {message}")


def test_sweep_takes_no_other_workload() -> None:
    with pytest.raises(usage.UsageError, match="expected neither --env nor"):
        bench_flags.parse(["--sweep", "--env=CartPole-v1"])


@pytest.mark.parametrize(
    ("package", "flags"), [("matplotlib", ["--output=charts"]), ("rich", [])]
)
def test_missing_package_is_named_with_its_command(
    tmp_path: pathlib.Path, package: str, flags: list[str]
) -> None:
    ended = bench_without(package, tmp_path, *flags)

    assert ended.returncode == 2
    assert ended.stderr == (
        f"parallel-envs bench: the package {package!r} is not installed: "
        "pip install 'parallel_envs[bench]'\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_library_of_another_environment_takes_part(tmp_path: pathlib.Path) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    (site_packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    # What is installed here stands for what somebody has installed there.
    installed = [path for path in sys.path if path.endswith("site-packages")]
    (site_packages / "all.pth").write_text("\n".join(installed))

    ended = bench_without(
        "gymnasium",
        tmp_path,
        *QUICK,
        "--workloads=null",
        "--contestants=gymnasium/sync",
        f"--pythons={tmp_path}/venv/bin/python",
    )

    assert ended.returncode == 0, ended.stderr
    assert re.search(r"gymnasium [\d.]+ \(with NumPy [\d.]+\)", ended.stdout)
    assert re.search(r"^gymnasium/sync +[\d,]+ ", ended.stdout, re.MULTILINE)


def test_help_tells_flags_and_contestants() -> None:
    text = bench_flags.help_text()

    assert "--workloads=NAME,..." in text
    assert "  moolib: cores, each" in text


def bench(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], cwd=folder, capture_output=True, text=True
    )


def bench_without(
    package: str, folder: pathlib.Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Runs the command as if a package were not installed."""
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from parallel_envs.cli import main; sys.exit(main.main(sys.argv[1:]))"
    )
    return subprocess.run(
        [sys.executable, "-c", program, "bench", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
    )


def size_of_png(path: pathlib.Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", content[16:24])
    return width, height


def assert_page_tells(path: pathlib.Path, stored: dict[str, Any]) -> None:
    page = path.read_text()
    assert "src=" not in page  # It needs no other file.
    assert "<link" not in page
    svg = page[page.index("<svg") : page.index("</svg>") + len("</svg>")]
    assert ET.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
    assert stored["date"] in page
    rows = re.findall(r"<tr[^>]*><td>(\w+/[^<]+)</td><td>([\d,]+)</td>", page)
    assert rows == [
        (line["name"], f"{line['steps_per_second']:,.0f}")
        for comparison in stored["comparisons"]
        for line in comparison["contestants"]
    ]
