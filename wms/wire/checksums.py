"""Checksums of files in the form of replicas: ``adler32:`` or ``sha256:`` and hexadecimal digits."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path
from typing import BinaryIO

_CHUNK_BYTES = 1024 * 1024
_SHA256 = "sha256"
_ADLER32 = "adler32"


def checksum_of(file: BinaryIO, *, kind: str = _SHA256) -> str:
    """Return the checksum of a whole file.

    Raises:
        ValueError: the kind is unknown.
        OSError: the file cannot be read.
    """
    if kind not in {_SHA256, _ADLER32}:
        raise ValueError(f"unknown kind of checksum {kind}")
    sha256, adler32 = hashlib.sha256(), 1
    file.seek(0)
    while chunk := file.read(_CHUNK_BYTES):
        if kind == _SHA256:
            sha256.update(chunk)
        else:
            adler32 = zlib.adler32(chunk, adler32)
    return f"{_SHA256}:{sha256.hexdigest()}" if kind == _SHA256 else f"{_ADLER32}:{adler32:08x}"


def is_same(file: Path, checksum: str) -> bool:
    """Return whether a file has this checksum; true for an unknown kind."""
    with file.open("rb") as content:
        try:
            return checksum_of(content, kind=checksum.partition(":")[0]) == checksum.lower()
        except ValueError:
            return True
