"""Compressions of archives besides gzip; a module of its own, as Pythons of users may lack bz2 and lzma."""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable, Mapping
from typing import IO

from .archives import CHUNK_BYTES, GZIP, Readable, gunzipped

#: `xz -9` needs 65 MiB to unpack; a header may name 4 GiB.
MAX_XZ_MEMORY_BYTES = 128 * 1024 * 1024


class _Xz:
    """Unpacks xz within bounded memory, which LZMAFile of the standard library does not."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = packed
        self._decoder = self._new_decoder()

    @staticmethod
    def _new_decoder() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=MAX_XZ_MEMORY_BYTES)

    def read(self, size: int, /) -> bytes:
        """Return at most *size* unpacked bytes; none at the end."""
        while True:
            packed = b""
            if self._decoder.eof:
                packed = self._decoder.unused_data or self._packed.read(CHUNK_BYTES)
                if not packed.strip(b"\0"):
                    return b""
                self._decoder = self._new_decoder()
            elif self._decoder.needs_input:
                packed = self._packed.read(CHUNK_BYTES)
                if not packed:
                    raise EOFError("the compressed data end too early")
            try:
                unpacked = self._decoder.decompress(packed, max_length=size)
            except lzma.LZMAError as error:
                raise ValueError(str(error)) from error
            if unpacked:
                return unpacked


_UNPACKERS: Mapping[bytes, Callable[[IO[bytes]], Readable]] = {
    GZIP: gunzipped,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": _Xz,
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
