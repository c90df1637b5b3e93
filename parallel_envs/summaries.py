"""TensorBoard event files, written without TensorFlow."""

from __future__ import annotations

import importlib
import itertools
import os
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt


class SummaryWriter:
    """Writes numbers and pictures for TensorBoard into a new event file.

    What is written is in the file after `flush` or `close`. There is no thread behind
    it, so processes can still be forked. A context manager; `close` can be called
    twice.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Makes the directory, if need be, and an event file in it.

        Other event files there stay: TensorBoard shows them as one run, so that a
        program which is started again goes on with the same curves.

        Raises:
            ImportError: If the package tensorboardX is missing.
            OSError: If the directory or the file cannot be made.
        """
        files = _tensorboardx("event_file_writer")
        self._event_class: Any = _tensorboardx("proto.event_pb2").Event
        self._directory = os.fspath(directory)
        os.makedirs(self._directory, exist_ok=True)
        # tensorboardX names a file by the second and would overwrite one that was made
        # within the same second, by this process or by another one.
        suffix = f".{os.getpid()}.{next(_numbers)}"
        prefix = os.path.join(self._directory, "events")
        self._file: Any = files.EventsWriter(prefix, suffix)

    @property
    def directory(self) -> str:
        """Where the event file is."""
        return self._directory

    def scalar(self, tag: str, value: Any, step: int) -> None:
        """Writes one number as a float32.

        Args:
            tag: Name of the curve; TensorBoard groups by what is before a slash.
            value: A number, or an array or tensor of one element.
            step: Where on the x-axis.

        Raises:
            ValueError: If the value is not one number, or the writer is closed.
        """
        self._write(step, tag=tag, simple_value=np.asarray(value).item())

    def image(self, tag: str, picture: npt.ArrayLike, step: int) -> None:
        """Writes one picture, or several side by side.

        Args:
            tag: Name of the picture.
            picture: `[H, W, C]` or `[N, H, W, C]`, with 1 (grey), 3 (colour) or 4
                channels (the last one opacity); uint8, or floats from 0 to 1.
            step: Where on the slider.

        Raises:
            ValueError: If it is no such picture, or the writer is closed.
        """
        pixels = _as_pixels(picture)
        height, width, channels = pixels.shape
        image = {
            "height": height,
            "width": width,
            "colorspace": channels,
            "encoded_image_string": _png(pixels),
        }
        self._write(step, tag=tag, image=image)

    def flush(self) -> None:
        """Returns when all that was written is on the disk; takes milliseconds."""
        self._open_file().flush()

    def close(self) -> None:
        """Flushes and closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, step: int, **value: Any) -> None:
        event = self._event_class(wall_time=time.time(), step=int(step))
        event.summary.value.add(**value)
        self._open_file().write_event(event)

    def _open_file(self) -> Any:
        if self._file is None:
            raise ValueError(f"The summary writer of {self._directory} is closed.")
        return self._file


def read_scalars(directory: str | os.PathLike[str]) -> list[tuple[str, int, float]]:
    """Returns `(tag, step, value)` of all numbers that `SummaryWriter`s wrote.

    They are in the order in which they were written, by whatever writer. What a killed
    program left unfinished is left out.

    Raises:
        ImportError: If the package tensorboardX is missing.
    """
    return [
        (value.tag, event.step, value.simple_value)
        for event in sorted(_read_events(directory), key=lambda event: event.wall_time)
        for value in event.summary.value
        if value.HasField("simple_value")
    ]


_numbers = itertools.count()


def _read_events(directory: str | os.PathLike[str]) -> Iterator[Any]:
    event_class = _tensorboardx("proto.event_pb2").Event
    for path in Path(directory).glob("events.out.tfevents.*"):
        content, offset = path.read_bytes(), 0
        while offset + 8 <= len(content):
            # A record is its length (8 bytes), a checksum (4), data, a checksum (4).
            (length,) = struct.unpack_from("<Q", content, offset)
            start, offset = offset + 12, offset + 16 + length
            if offset <= len(content):
                yield event_class.FromString(content[start : start + length])


def _as_pixels(picture: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """Returns one picture as uint8 `[H, W, C]`."""
    pixels = np.asarray(picture)
    if pixels.ndim == 4:
        pixels = np.concatenate(list(pixels), axis=1)
    if pixels.dtype.kind == "f":
        pixels = (np.clip(pixels, 0, 1) * 255).round().astype(np.uint8)
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4) or pixels.dtype != np.uint8:
        raise ValueError(
            "picture: expected uint8 or floats of shape (H, W, C) or (N, H, W, C), C "
            f"being 1, 3 or 4, got {np.asarray(picture).dtype} of shape "
            f"{np.shape(picture)}."
        )
    return pixels


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Returns a file as in the PNG specification, ISO/IEC 15948."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    height, width, channels = pixels.shape
    color_type = {1: 0, 3: 2, 4: 6}[channels]
    header = struct.pack(">2I5B", width, height, 8, color_type, 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)  # 0: no filter.
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


def _tensorboardx(module: str) -> Any:
    try:
        return importlib.import_module(f"tensorboardX.{module}")
    except ModuleNotFoundError as error:
        if error.name != "tensorboardX":
            raise
        raise ImportError(
            "Writing TensorBoard summaries needs the package tensorboardX: "
            "pip install 'parallel-envs[collect]'",
            name="tensorboardX",
        ) from error
