"""Event files are read back record by record, as TensorBoard reads them."""

from __future__ import annotations

import importlib.abc
import math
import struct
import sys
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from parallel_envs.summaries import SummaryWriter, read_scalars


def test_numbers_are_read_back_with_their_names_and_steps(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "new" / "logs") as writer:
        writer.scalar("collect/return", 1.5, 10)
        writer.scalar("collect/return", np.float32(2.5), 2**40)
        writer.scalar("steps", np.array([7]), 3)

    assert read_scalars(tmp_path / "new" / "logs") == [
        ("collect/return", 10, 1.5),
        ("collect/return", 2**40, 2.5),
        ("steps", 3, 7.0),
    ]


def test_the_file_is_one_that_tensorboard_looks_for(tmp_path: Path) -> None:
    SummaryWriter(tmp_path).close()

    (path,) = tmp_path.iterdir()
    assert "tfevents" in path.name
    assert b"brain.Event:2" in path.read_bytes()[:64]


def test_a_record_cut_short_is_left_out(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.scalar("a", 1, 1)
        writer.scalar("a", 2, 2)
    (path,) = tmp_path.iterdir()

    path.write_bytes(path.read_bytes()[:-3])

    assert read_scalars(tmp_path) == [("a", 1, 1.0)]


def test_what_was_flushed_is_in_the_file_while_it_is_open(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        for step in range(100):
            writer.scalar("a", step, step)

            writer.flush()

            assert len(read_scalars(tmp_path)) == step + 1


def test_nan_is_a_number_as_well(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.scalar("loss", math.nan, 0)

    assert math.isnan(read_scalars(tmp_path)[0][2])


def test_two_writers_in_one_second_keep_out_of_each_others_file(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as first, SummaryWriter(tmp_path) as second:
        first.scalar("a", 1, 1)
        second.scalar("b", 2, 2)

    assert sorted(read_scalars(tmp_path)) == [("a", 1, 1.0), ("b", 2, 2.0)]


def test_closing_twice_is_fine_and_writing_afterwards_is_not(tmp_path: Path) -> None:
    writer = SummaryWriter(tmp_path)
    writer.close()
    writer.close()

    with pytest.raises(ValueError, match=f"summary writer of {tmp_path} is closed"):
        writer.scalar("a", 1, 1)
    with pytest.raises(ValueError, match="is closed"):
        writer.flush()
    assert writer.directory == str(tmp_path)


def decoded(png: bytes) -> npt.NDArray[np.uint8]:
    """Returns the pixels of a PNG file without filters."""
    kinds: list[bytes] = []
    data, offset = {b"": b""}, 8
    while offset < len(png):
        length, kind = struct.unpack_from(">I4s", png, offset)
        end = offset + 8 + length
        assert struct.unpack_from(">I", png, end)[0] == zlib.crc32(
            png[offset + 4 : end]
        )
        kinds.append(kind)
        data[kind] = png[offset + 8 : end]
        offset = end + 4
    assert kinds == [b"IHDR", b"IDAT", b"IEND"]
    width, height = struct.unpack_from(">2I", data[b"IHDR"])
    lines = np.frombuffer(zlib.decompress(data[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, -1)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_picture_is_written_as_a_png_file(tmp_path: Path, channels: int) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (5, 7, channels), np.uint8)

    with SummaryWriter(tmp_path) as writer:
        writer.image("frame", picture, 3)

    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    start, end = content.index(b"\x89PNG"), content.index(b"IEND") + 8
    assert np.array_equal(decoded(content[start:end]), picture)
    assert read_scalars(tmp_path) == []


def test_several_pictures_of_floats_stand_side_by_side(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.image("frames", [np.zeros((2, 3, 3)), np.ones((2, 3, 3))], 0)

    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    start, end = content.index(b"\x89PNG"), content.index(b"IEND") + 8
    expected = np.concatenate([np.zeros((2, 3, 3)), np.full((2, 3, 3), 255)], axis=1)
    assert np.array_equal(decoded(content[start:end]), expected)


def test_something_that_is_no_picture_is_refused(tmp_path: Path) -> None:
    with (
        SummaryWriter(tmp_path) as writer,
        pytest.raises(
            ValueError, match=r"C being 1, 3 or 4, got uint8 of shape \(5, 7\)"
        ),
    ):
        writer.image("frame", np.zeros((5, 7), np.uint8), 0)


def test_a_value_that_is_not_one_number_is_refused(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer, pytest.raises(ValueError, match="size 1"):
        writer.scalar("a", np.zeros(2), 0)


def test_writing_starts_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()

    with SummaryWriter(tmp_path) as writer:
        writer.scalar("a", 1, 1)

        assert threading.active_count() == before


class _Missing(importlib.abc.MetaPathFinder):
    """Makes Python find no tensorboardX, as if it were not installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: object = None
    ) -> None:
        if fullname == "tensorboardX":
            raise ModuleNotFoundError("No module named 'tensorboardX'", name=fullname)


def test_without_tensorboardx_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("tensorboardX")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Missing(), *sys.meta_path])

    with pytest.raises(
        ImportError, match=r"tensorboardX: pip install 'parallel-envs\[collect\]'"
    ):
        SummaryWriter(tmp_path / "logs")

    assert not (tmp_path / "logs").exists()
