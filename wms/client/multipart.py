"""The body of an upload: one file as ``multipart/form-data`` (RFC 7578), read while it is sent."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

from .errors import WrongUsageError

_CHUNK_BYTES = 256 * 1024


class MultipartFile:
    """The body that uploads one file as the field ``file``.

    Args:
        file: an ordinary file; its name is sent.

    Raises:
        WrongUsageError: the file cannot be read.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        boundary = secrets.token_hex(16)
        # As HTML's forms: these three are escaped, other characters are sent as UTF-8.
        name = file.name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        self._head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        ).encode()
        self._end = f"\r\n--{boundary}--\r\n".encode()
        try:
            with file.open("rb"):
                self._size_bytes = file.stat().st_size
        except OSError as error:
            raise WrongUsageError(f"{file} cannot be read ({error.strerror}).") from error
        length = len(self._head) + self._size_bytes + len(self._end)
        self.headers: Mapping[str, str] = {
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Content-Length": str(length),
        }

    def parts(self) -> Iterator[bytes]:
        """Yield the body from its start, as many bytes as its header says.

        Raises:
            WrongUsageError: the file became shorter.
        """
        yield self._head
        left = self._size_bytes
        with self._file.open("rb") as file:
            while left:
                chunk = file.read(min(_CHUNK_BYTES, left))
                if not chunk:
                    raise WrongUsageError(f"{self._file} became shorter while it was sent; try again.")
                left -= len(chunk)
                yield chunk
        yield self._end
