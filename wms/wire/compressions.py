"""Compressions of archives besides gzip; a module of its own, as Pythons of users may lack bz2 and lzma."""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable, Mapping
from typing import IO

from .archives import GZIP, Decoder, Readable, gunzipped, streams

#: `xz -9` needs 65 MiB to unpack; a header may name 4 GiB.
MAX_XZ_MEMORY_BYTES = 128 * 1024 * 1024


def _xz_decoder() -> Decoder:
    # Within bounded memory, which LZMAFile of the standard library does not have.
    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=MAX_XZ_MEMORY_BYTES)


_UNPACKERS: Mapping[bytes, Callable[[IO[bytes]], Readable]] = {
    GZIP: gunzipped,
    b"BZh": lambda packed: streams(packed, bz2.BZ2Decompressor, damage=OSError),
    b"\xfd7zXZ\x00": lambda packed: streams(packed, _xz_decoder, damage=lzma.LZMAError),
}


def unpacked(content: IO[bytes]) -> Readable:
    """Return the unpacked *content*, by whichever compression it begins with; or itself."""
    content.seek(0)
    start = content.read(8)
    content.seek(0)
    for magic, unpacker in _UNPACKERS.items():
        if start.startswith(magic):
            return unpacker(content)
    return content
