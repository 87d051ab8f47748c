"""The body of an upload: one file as ``multipart/form-data`` (RFC 7578), read while it is sent."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

_CHUNK_BYTES = 256 * 1024


class ShorterFileError(Exception):
    """The file became shorter while it was sent."""


class MultipartFile:
    """The body that uploads one file as the field ``file``.

    Args:
        file: an ordinary file.
        name: that is sent; empty: its own.
        content_type: of its content.

    Raises:
        OSError: the file cannot be read.
    """

    def __init__(self, file: Path, *, name: str = "", content_type: str = "application/octet-stream") -> None:
        self._file = file
        boundary = secrets.token_hex(16)
        # As HTML's forms: these three are escaped, other characters are sent as UTF-8.
        name = (name or file.name).replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        self._head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
            f"Content-Type: {content_type}\r\n\r\n"
        ).encode()
        self._end = f"\r\n--{boundary}--\r\n".encode()
        with file.open("rb"):
            self._size_bytes = file.stat().st_size
        length = len(self._head) + self._size_bytes + len(self._end)
        self.headers: Mapping[str, str] = {
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Content-Length": str(length),
        }

    def parts(self) -> Iterator[bytes]:
        """Yield the body from its start, as many bytes as its header says.

        Raises:
            ShorterFileError: the file has fewer.
        """
        yield self._head
        left = self._size_bytes
        with self._file.open("rb") as file:
            while left:
                chunk = file.read(min(_CHUNK_BYTES, left))
                if not chunk:
                    raise ShorterFileError
                left -= len(chunk)
                yield chunk
        yield self._end
