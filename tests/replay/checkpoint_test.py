from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from parallel_envs import replay
from parallel_envs.replay import checkpoint
from parallel_envs.trajectory import Trajectory

FIRST, MID, LAST = 0, 1, 2


def filled(
    num_steps: int = 23, capacity: int = 10, num_streams: int = 3
) -> replay.ReplayBuffer:
    """Episodes of 4 in all streams, which have gone round, with a leaf that varies."""
    buffer = replay.ReplayBuffer(capacity, num_streams, seed=5)
    for t in range(num_steps):
        add_step(buffer, t, num_streams)
    return buffer


def add_step(buffer: replay.ReplayBuffer, t: int, num_streams: int = 3) -> None:
    kind = FIRST if t % 4 == 0 else LAST if t % 4 == 3 else MID
    buffer.add_batch(
        {
            "observation": np.arange(num_streams) * 1000 + t,
            "step_type": np.full(num_streams, kind, np.int32),
            "tokens": [np.full((t % 3, 2), t + s) for s in range(num_streams)],
        }
    )


def everything(buffer: replay.ReplayBuffer) -> list[Any]:
    return [
        (w["observation"].tolist(), [x.tolist() for x in w["tokens"]])
        for num_steps in (1, 3)
        for w in buffer.iterate(num_steps)
    ]


def test_a_loaded_buffer_goes_on_as_the_saved_one_does(tmp_path: pathlib.Path) -> None:
    buffer = filled()
    buffer.sample(7)
    buffer.save(tmp_path / "new" / "folder")
    copy = replay.ReplayBuffer(10, 3, seed=99)

    copy.load(tmp_path / "new" / "folder")

    assert len(copy) == 30
    assert copy.num_episodes() == buffer.num_episodes()
    for t in range(23, 26):
        for each in (buffer, copy):
            add_step(each, t)
        first, info = buffer.sample(50, 2, with_info=True)
        second, copied_info = copy.sample(50, 2, with_info=True)
        np.testing.assert_array_equal(first["observation"], second["observation"])
        np.testing.assert_array_equal(info.keys, copied_info.keys)
    assert everything(copy) == everything(buffer)
    stats = copy.stats()
    assert {**stats, "nbytes": 0} == {**buffer.stats(), "nbytes": 0}


def test_containers_and_keys_survive(tmp_path: pathlib.Path) -> None:
    buffer = replay.ReplayBuffer(4, seed=0)
    step = Trajectory(
        np.int32(0), (np.ones(2),), {"a": 1}, (), np.int32(1), np.float32(2), 1.0
    )
    for key in range(6):
        buffer.add(step, key=key)
    buffer.save(tmp_path)
    copy = replay.ReplayBuffer(4)  # It goes on with the generator that was saved.

    copy.load(tmp_path)
    copy.add(step, key=5)
    copy.add(step, key=6)

    assert copy.stats()["duplicates"] == 1
    assert set(copy.sample(200, with_info=True)[1].keys.tolist()) == {3, 4, 5, 6}
    window = next(copy.iterate())
    assert isinstance(window, Trajectory)
    assert window.policy_info == ()
    assert window.observation[0].tolist() == [[1, 1]]


def test_an_empty_buffer_can_be_saved_and_loaded(tmp_path: pathlib.Path) -> None:
    replay.ReplayBuffer(10).save(tmp_path)
    buffer = filled(capacity=10, num_streams=1)

    buffer.load(tmp_path)

    assert len(buffer) == 0
    buffer.add({"other": 1})


def test_empty_leaves_can_be_saved_and_loaded(tmp_path: pathlib.Path) -> None:
    buffer = replay.ReplayBuffer(10)
    buffer.add({"none": np.zeros((0, 3)), "tokens": [np.zeros(0, np.int8)]})
    buffer.save(tmp_path)
    copy = replay.ReplayBuffer(10)

    copy.load(tmp_path)

    window = next(copy.iterate())
    assert window["none"].shape == (1, 0, 3)
    assert window["tokens"][0].dtype == np.int8


def test_rows_that_follow_a_clear_can_be_saved_and_loaded(
    tmp_path: pathlib.Path,
) -> None:
    buffer = replay.ReplayBuffer(1000)
    for t in range(900):
        buffer.add({"t": t})
        if t == 896:
            buffer.clear()
    buffer.save(tmp_path)
    copy = replay.ReplayBuffer(1000)

    copy.load(tmp_path)

    assert [window["t"].tolist() for window in copy.iterate(2)] == [
        [897, 898],
        [898, 899],
    ]


def test_what_is_here_is_replaced_and_not_added_to(tmp_path: pathlib.Path) -> None:
    buffer = filled()
    buffer.save(tmp_path)

    buffer.load(tmp_path)
    buffer.load(tmp_path)

    assert len(buffer) == 30
    assert everything(buffer) == everything(filled())


def test_a_larger_buffer_takes_the_content_and_warns(tmp_path: pathlib.Path) -> None:
    filled().save(tmp_path)
    larger = replay.ReplayBuffer(12, 5, seed=0)

    with pytest.warns(
        UserWarning, match=r"capacity 10 \(here 12\), num_streams 3 \(here 5\)"
    ) as caught:
        larger.load(tmp_path)

    assert caught[0].filename == __file__
    assert everything(larger) == everything(filled())
    for t in range(23, 27):
        larger.add_batch(
            {
                "observation": np.arange(3) * 1000 + t,
                "step_type": np.full(3, MID, np.int32),
                "tokens": [np.zeros((0, 2), np.int64)] * 3,
            },
            streams=[0, 1, 2],
        )
    assert len(larger) == 3 * 12


def test_a_smaller_buffer_that_holds_all_of_it_takes_it(tmp_path: pathlib.Path) -> None:
    filled(num_steps=5).save(tmp_path)
    smaller = replay.ReplayBuffer(5, 3)

    with pytest.warns(UserWarning, match=r"capacity 10 \(here 5\)"):
        smaller.load(tmp_path)

    assert everything(smaller) == everything(filled(num_steps=5))


def test_what_does_not_fit_is_refused_and_the_buffer_stays(
    tmp_path: pathlib.Path,
) -> None:
    filled().save(tmp_path)
    buffer = filled(num_steps=3, capacity=9)
    before = everything(buffer)

    with pytest.raises(
        ValueError,
        match=r"3 streams of up to 10 steps were saved, and 3 of at most 9 fit: make "
        r"the buffer with ReplayBuffer\(capacity=10, num_streams=3\)\.",
    ):
        buffer.load(tmp_path)
    with pytest.raises(ValueError, match=r"capacity=12, num_streams=3\)"):
        replay.ReplayBuffer(12).load(tmp_path)

    assert everything(buffer) == before


def test_a_new_save_leaves_nothing_of_the_old_one(tmp_path: pathlib.Path) -> None:
    buffer = filled()
    buffer.save(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ("save-" + "0" * 16)).mkdir()  # As an interrupted save leaves it.

    buffer.save(tmp_path)

    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[:2] == ["manifest.json", "notes.txt"]
    assert len(names) == 3


def test_a_save_that_fails_leaves_the_old_content(tmp_path: pathlib.Path) -> None:
    checkpoint.write(tmp_path, {"n": 1}, {"x": checkpoint.whole(np.arange(3))})

    def pieces() -> Any:
        yield np.zeros(2)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        checkpoint.write(
            tmp_path,
            {"n": 2},
            {"x": checkpoint.Pieces((4,), np.dtype(float), pieces())},
        )

    facts, arrays = checkpoint.read(tmp_path)
    assert facts == {"n": 1}
    assert arrays["x"].tolist() == [0, 1, 2]
    assert len(list(tmp_path.iterdir())) == 2


def flip_last_byte(path: pathlib.Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def cut(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [flip_last_byte, cut, pathlib.Path.unlink])
def test_a_damaged_file_is_named_whichever_it_is(
    tmp_path: pathlib.Path, damage: Callable[[pathlib.Path], object]
) -> None:
    buffer = filled(num_steps=3)
    before = everything(buffer)
    for number in range(len(saved_files(tmp_path))):
        path = saved_files(tmp_path)[number]

        damage(path)

        with pytest.raises(ValueError) as error:
            buffer.load(tmp_path)
        assert str(path) in str(error.value)
        assert everything(buffer) == before


def saved_files(directory: pathlib.Path) -> list[pathlib.Path]:
    """Saves anew, and returns all files of it."""
    filled().save(directory)
    return sorted(path for path in directory.rglob("*") if path.is_file())


def test_a_manifest_that_was_edited_is_refused(tmp_path: pathlib.Path) -> None:
    filled().save(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(path.read_text().replace('"inserts": 69', '"inserts": 70'))

    with pytest.raises(ValueError, match=r"manifest.json is damaged: its checksum"):
        filled().load(tmp_path)


def test_a_directory_of_something_else_is_refused(tmp_path: pathlib.Path) -> None:
    buffer = filled()
    with pytest.raises(FileNotFoundError, match="no such directory"):
        buffer.load(tmp_path / "absent")
    with pytest.raises(ValueError, match=r"manifest.json is not there"):
        buffer.load(tmp_path)

    for text, message in (
        ("[]", "damaged or not of a saved replay"),
        ('{"format": "web", "version": 3}', "got web version 3"),
    ):
        (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            buffer.load(tmp_path)


def test_a_later_version_is_recognised(tmp_path: pathlib.Path) -> None:
    filled().save(tmp_path)
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "version": 2}))

    with pytest.raises(
        ValueError, match=r"expected parallel_envs\.replay version 1, got"
    ):
        filled().load(tmp_path)


SAVE_FOR_EVER = """
    import sys
    import numpy as np
    from parallel_envs import replay

    buffer = replay.ReplayBuffer(capacity=2000, num_streams=4, seed=0)
    number = 0
    while True:
        buffer.clear()
        for _ in range(2000):
            buffer.add_batch({"number": np.full((4, 8), number)})
        buffer.save(sys.argv[1])
        print(number, flush=True)
        number += 1
"""


@pytest.mark.skipif(os.name != "posix", reason="ends a process by SIGKILL")
def test_killed_while_saving_the_old_or_the_new_content_is_there(
    tmp_path: pathlib.Path,
) -> None:
    command = [sys.executable, "-c", textwrap.dedent(SAVE_FOR_EVER), str(tmp_path)]
    for kill in range(6):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as saver:
            assert saver.stdout is not None
            told = 0
            for _ in range(2):
                told = int(saver.stdout.readline())
            # The next save is on its way when its folder appears, or soon after.
            wait_for_change(tmp_path, saver, kill)
            saver.send_signal(signal.SIGKILL)
            told = max([told, *map(int, saver.stdout.read().split())])
        buffer = replay.ReplayBuffer(2000, 4)

        buffer.load(tmp_path)

        numbers = np.unique(buffer.sample(500)["number"])
        assert numbers.tolist() in ([told], [told + 1])
        assert len(buffer) == 8000
        for stream in buffer.iterate(2000):
            assert (stream["number"] == numbers).all()


def wait_for_change(
    directory: pathlib.Path, saver: subprocess.Popen[str], num_files: int
) -> None:
    """Returns when two folders are there and the newer has so many files."""
    while saver.poll() is None:
        try:
            folders = [path for path in directory.iterdir() if path.is_dir()]
            counts = [len(list(folder.iterdir())) for folder in folders]
        except FileNotFoundError:  # The saver has removed one of them just now.
            continue
        if len(counts) > 1 and min(counts) >= num_files:
            return
