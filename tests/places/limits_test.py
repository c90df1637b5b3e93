"""Where the system gives little: few descriptors, next to no shared memory."""

from __future__ import annotations

import sys

import pytest

from tests.places import programs

LIMIT = 256


def test_many_environments_fit_into_few_descriptors() -> None:
    text = f"""{programs.PREAMBLE}
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT}))
use([Env] * 64, start_serially=False)
use([Env] * 64, start_serially=False, context="fork")
"""

    programs.run(["-c", text])


def test_too_many_are_refused_before_any_starts_and_the_command_named_is_enough() -> (
    None
):
    text = f"""{programs.PREAMBLE}
import errno, os, re, resource, subprocess
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, most))
before = os.listdir("/proc/self/fd")
start, subprocess.Popen = subprocess.Popen, None  # Whoever starts one now fails.
try:
    use([Env] * 200, start_serially=False)
except OSError as error:
    assert error.errno == errno.EMFILE
    message = str(error)
    print(message)
assert os.listdir("/proc/self/fd") == before
subprocess.Popen = start
limit = int(re.search("`ulimit -n ([0-9]+)`", message)[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
use([Env] * 200, start_serially=False)
"""

    printed = programs.run(["-c", text])

    assert "200 workers need" in printed
    assert f"of the {LIMIT} that this process may have" in printed
    assert "num_workers=" in printed


@pytest.mark.parametrize("portable", ["0", "1"])
def test_a_batch_may_be_larger_than_dev_shm(portable: str) -> None:
    text = f"""{programs.PREAMBLE}
import os
size = os.statvfs("/dev/shm")
assert size.f_blocks * size.f_frsize == 1 << 20
constructors = [lambda: environments.Image(height=512, width=512)] * 4
with pe.ParallelPyEnvironment(constructors) as env:
    first = env.reset().observation
    pixels = env.step(np.zeros(4, np.int64)).observation
assert pixels.nbytes > 1 << 20
assert (first == 0).all() and (pixels == 1).all()
print("done")
"""
    program = [sys.executable, "-c", text]

    command = programs.mounting("mount -t tmpfs -o size=1m tmpfs /dev/shm", program)
    printed = programs.run(
        command[1:], python=command[0], environ={"PARALLEL_ENVS_PORTABLE": portable}
    )

    assert printed == "done\n"
