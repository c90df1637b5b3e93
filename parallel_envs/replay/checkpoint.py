"""Arrays and facts in a directory that always holds one whole state.

    manifest.json              names the folder of the state, its files and checksums
    save-<16 hex digits>/      one .npy file for each array

A new state is written into a folder of its own and flushed to disk; then the manifest
is replaced in one step. Whatever ends the program, the manifest names a state that is
complete: the old one or the new one. What an interrupted save left is removed by the
next. One process at a time may save to a directory.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_MANIFEST = "manifest.json"
_FORMAT = "parallel_envs.replay"
_VERSION = 1
_FOLDER = re.compile("save-[0-9a-f]{16}")
_HASH_BYTES = 2**20


class Pieces(NamedTuple):
    """An array that is written piece by piece, so that it need not be made whole.

    Attributes:
        shape: Shape of the whole.
        dtype: Its dtype.
        pieces: Arrays that follow each other along the first dimension.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    pieces: Iterable[Array]


def whole(array: Array) -> Pieces:
    """Returns an array as its only piece."""
    return Pieces(array.shape, array.dtype, [array])


def write(
    path: str | os.PathLike[str], facts: Mapping[str, Any], arrays: Mapping[str, Pieces]
) -> None:
    """Replaces the state in a directory, which is made where it is not there.

    Args:
        path: The directory.
        facts: What JSON can hold.
        arrays: Arrays by name.

    Raises:
        OSError: If the disk is full or refuses; the old state then remains.
    """
    directory = Path(path)
    directory.mkdir(parents=True, exist_ok=True)
    folder = directory / f"save-{secrets.token_hex(8)}"
    folder.mkdir()
    try:
        files = {
            name: _write_array(folder / f"{name}.npy", array)
            for name, array in arrays.items()
        }
        _flush_directory(folder)
        body = {"facts": facts, "folder": folder.name, "files": files}
        _replace_manifest(directory, body)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _remove_folders(directory, keep=folder.name)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Returns facts and arrays of the state in a directory.

    The arrays are read-only views on the files.

    Raises:
        FileNotFoundError: If there is no such directory.
        ValueError: If it holds no state, or if a file is damaged; names the file.
    """
    directory = Path(path)
    body = _read_manifest(directory)
    folder = directory / body["folder"]
    arrays = {
        name: _read_array(folder / f"{name}.npy", expected)
        for name, expected in body["files"].items()
    }
    return body["facts"], arrays


class _Hashing:
    """Writes into a file and keeps the checksum of what went in."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self._size += len(data)
        return self._file.write(data)

    def checksum(self) -> dict[str, Any]:
        return {"bytes": self._size, "sha256": self._hash.hexdigest()}


def _write_array(path: Path, array: Pieces) -> dict[str, Any]:
    with path.open("wb") as file:
        hashing = _Hashing(file)
        header = {
            "descr": np.lib.format.dtype_to_descr(array.dtype),
            "fortran_order": False,
            "shape": array.shape,
        }
        np.lib.format.write_array_header_2_0(hashing, header)  # type: ignore[arg-type]
        for piece in array.pieces:
            hashing.write(piece.tobytes())
        file.flush()
        os.fsync(file.fileno())
    return hashing.checksum()


def _replace_manifest(directory: Path, body: Mapping[str, Any]) -> None:
    manifest = {
        "format": _FORMAT,
        "version": _VERSION,
        "sha256": _body_checksum(body),
        "body": body,
    }
    aside = directory / f"{_MANIFEST}.new"
    with aside.open("w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(directory / _MANIFEST)
    _flush_directory(directory)
    _flush_directory(directory.resolve().parent)


def _body_checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _flush_directory(directory: Path) -> None:
    if os.name != "posix":  # Elsewhere a directory cannot be opened to be flushed.
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_folders(directory: Path, keep: str) -> None:
    for entry in directory.iterdir():
        if _FOLDER.fullmatch(entry.name) and entry.name != keep:
            shutil.rmtree(entry, ignore_errors=True)


def _read_manifest(directory: Path) -> dict[str, Any]:
    path = directory / _MANIFEST
    if not directory.is_dir():
        raise FileNotFoundError(f"{directory}: there is no such directory.")
    if not path.exists():
        raise ValueError(f"{path} is not there: this directory holds no saved replay.")
    try:
        manifest = json.loads(path.read_bytes())
        is_ours = manifest["format"] == _FORMAT
        version = manifest["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged or not of a saved replay.") from error
    if not is_ours or version != _VERSION:
        raise ValueError(
            f"{path}: expected {_FORMAT} version {_VERSION}, got {manifest['format']} "
            f"version {version}."
        )
    body = manifest.get("body")
    if _body_checksum(body) != manifest.get("sha256"):
        raise ValueError(f"{path} is damaged: its checksum differs.")
    return body


def _read_array(path: Path, expected: Mapping[str, Any]) -> Array:
    if not path.exists():
        raise ValueError(f"{path} is missing.")
    hashing = hashlib.sha256()
    for block in _blocks(path):
        hashing.update(block)
    if hashing.hexdigest() != expected["sha256"]:
        raise ValueError(
            f"{path} is damaged: expected {expected['bytes']} bytes with another "
            f"checksum, got {path.stat().st_size} bytes."
        )
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_HASH_BYTES):
            yield block
