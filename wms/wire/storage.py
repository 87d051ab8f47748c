"""Storage elements: their addresses, and the checksums of files, ``adler32:`` or ``sha256:`` and hexadecimal digits.

Redirects are followed, and the token goes only where it belongs. Each program sends its own requests, and words the
errors for its users.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from .http import PORTS, Exchange

#: Redirects that are followed: storage elements redirect to the machine that has the file.
MAX_REDIRECTS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CHUNK_BYTES = 1024 * 1024
_SHA256 = "sha256"
_ADLER32 = "adler32"


class AddressFlaw(Enum):
    """A flaw of the address of a file."""

    NOT_A_URL = auto()
    #: Neither http nor https, or without a host.
    WRONG_KIND = auto()
    REDIRECTED_TO_NO_URL = auto()
    REDIRECTED_UNENCRYPTED = auto()
    TOO_MANY_REDIRECTS = auto()


class AddressError(Exception):
    """An address that cannot be read, or is not read for safety."""

    def __init__(self, flaw: AddressFlaw, url: str = "") -> None:
        super().__init__(flaw.name)
        self.flaw = flaw
        self.url = url


def file_path_of(url: str) -> Path | None:
    """Return the path of a file:// URL; None for another URL.

    Raises:
        AddressError: it is not a URL.
    """
    parts = _split(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def answered(url: str, send: Callable[[SplitResult, str, bool], Exchange]) -> Exchange:
    """Return the answer after all redirects, whatever its status.

    Args:
        url: of a file.
        send: sends one request, to (parts of the address, path with query), and returns its answer. The token may go
            along only if the last argument is true: to the storage element itself, and encrypted.

    Raises:
        AddressError: the address, or one to which it redirects, is not read.
    """
    first = _parts(url)
    for _ in range(MAX_REDIRECTS + 1):
        parts = _parts(url)
        trusted = parts.scheme == "https" and _origin(parts) == _origin(first)
        exchange = send(parts, parts.path + (f"?{parts.query}" if parts.query else ""), trusted)
        location = exchange.response.headers.get("Location", "")
        if exchange.response.status not in REDIRECTS or not location:
            return exchange
        exchange.close()
        try:
            url = urljoin(url, location)
            is_open = parts.scheme == "https" and urlsplit(url).scheme != "https"
        except ValueError:
            raise AddressError(AddressFlaw.REDIRECTED_TO_NO_URL) from None
        if is_open:
            raise AddressError(AddressFlaw.REDIRECTED_UNENCRYPTED)
    raise AddressError(AddressFlaw.TOO_MANY_REDIRECTS)


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


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # parsed only now
    except ValueError:
        raise AddressError(AddressFlaw.NOT_A_URL, url) from None
    return parts


def _parts(url: str) -> SplitResult:
    parts = _split(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise AddressError(AddressFlaw.WRONG_KIND, url)
    return parts


def _origin(parts: SplitResult) -> tuple[str | None, int | None]:
    return parts.hostname, parts.port or PORTS.get(parts.scheme)
