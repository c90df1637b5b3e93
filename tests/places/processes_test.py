"""Inside processes of `multiprocessing` and `concurrent.futures`."""

from __future__ import annotations

import pathlib

import pytest

from tests.places import programs

METHODS = ["fork", "spawn", "forkserver"]

# These libraries import the main module again, so the program needs a guard for them.
PROGRAM = (
    programs.PREAMBLE
    + """
import concurrent.futures, multiprocessing, os

def work(number):
    for context in (None, "spawn"):
        use([Env, lambda: Env(number)], context=context)
    return number, multiprocessing.current_process().daemon

held = []

def hold(number):
    held.append(pe.ParallelPyEnvironment([Env, lambda: Env(number)]))
    held[-1].reset()
    return held[-1].worker_pids

def send(number, connection):
    connection.send(work(number))

def main(method):
    context = multiprocessing.get_context(method)
{main}

if __name__ == "__main__":
    main(sys.argv[1])
"""
)


def run(main: str, method: str, folder: pathlib.Path) -> list[str]:
    program = folder / "program.py"
    indented = "\n".join("    " + line for line in main.strip().splitlines())
    program.write_text(PROGRAM.replace("{main}", indented))
    return programs.run([program, method]).splitlines()


@pytest.mark.parametrize("method", METHODS)
def test_a_process_may_have_a_batch(method: str, tmp_path: pathlib.Path) -> None:
    main = """
mine, other = context.Pipe()
for is_daemon in (False, True):
    process = context.Process(target=send, args=[7, other], daemon=is_daemon)
    process.start()
    print(*mine.recv())
    process.join()
    assert process.exitcode == 0
"""

    assert run(main, method, tmp_path) == ["7 False", "7 True"]


@pytest.mark.parametrize("method", METHODS)
def test_workers_of_a_pool_may_have_batches(
    method: str, tmp_path: pathlib.Path
) -> None:
    # They are daemons, which may have no children as multiprocessing sees it.
    main = """
with context.Pool(2) as pool:
    print(sorted(pool.map(work, range(3), chunksize=1)))
with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
    print(sorted(executor.map(work, range(3))))
"""

    printed = run(main, method, tmp_path)

    assert printed == [
        str([(number, is_daemon) for number in range(3)]) for is_daemon in (True, False)
    ]


@pytest.mark.parametrize("method", METHODS)
def test_a_batch_ends_with_the_process_that_holds_it(
    method: str, tmp_path: pathlib.Path
) -> None:
    main = """
pool = context.Pool(1)
terminated = pool.map(hold, range(2))
pool.terminate()
pool.join()
with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
    ended = list(executor.map(hold, range(2)))
print(*sum(terminated + ended, ()))
"""

    (printed,) = run(main, method, tmp_path)

    assert len(set(printed.split())) == 8  # And none of them is left: see `run`.


def test_a_process_may_be_forked_while_a_batch_is_there(tmp_path: pathlib.Path) -> None:
    main = """
with pe.ParallelPyEnvironment([Env, Env]) as env:
    env.reset()
    with context.Pool(2) as pool:
        print(sorted(pool.map(work, range(2), chunksize=1)))
    print(env.step(np.zeros(2, np.int64)).observation[:, 2].tolist())
"""

    assert run(main, "fork", tmp_path) == ["[(0, True), (1, True)]", "[1, 1]"]
