"""Files on storage elements, read and written by path (file://) or over HTTP (https://, or http:// without a token)."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cached_property
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import BinaryIO
from urllib.parse import SplitResult, urlsplit

from pilots.agent.data.safe_paths import opened, replaced
from pilots.agent.server.http import (
    SERVER_TROUBLE,
    TOO_MANY,
    USER_AGENT,
    TooMuchError,
    UnreachableError,
    named,
    unless_given_up,
)
from wms.wire.http import CHUNK_BYTES, Body, Exchange, HttpClient, NotSentError, UnsendableError
from wms.wire.storage import MAX_REDIRECTS, AddressError, AddressFlaw, answered, file_path_of

_CONFLICT = 409
#: Timeout in seconds of one network operation.
_TIMEOUT_S = 60.0
_FLAWS: Mapping[AddressFlaw, str] = {
    AddressFlaw.NOT_A_URL: "its address is not a URL",
    AddressFlaw.REDIRECTED_TO_NO_URL: "the storage element redirects to something that is not a URL",
    AddressFlaw.REDIRECTED_UNENCRYPTED: "the storage element redirects from https to an unencrypted address",
    AddressFlaw.TOO_MANY_REDIRECTS: f"the storage element redirects more than {MAX_REDIRECTS} times",
}


class StorageError(Exception):
    """The storage element does not have the file or refuses it; another try would not help."""


class NoDirectoryError(StorageError):
    """The directory of the file must be created first."""


def path_of(url: str) -> Path | None:
    """Return the path of a file:// URL; None for another URL.

    Raises:
        StorageError: it is not a URL.
    """
    try:
        return file_path_of(url)
    except AddressError as error:
        raise _address_error(error) from None


@contextmanager
def opened_below(path: Path, *, lfn: str) -> Iterator[BinaryIO]:
    """Open a file of a storage element that is a directory; *lfn* is the part of *path* after the element's own path.

    Raises:
        StorageError: there is no such file.
        OSError: it cannot be read.
    """
    base, relative = _below(path, lfn)
    with ExitStack() as stack:
        try:
            file = stack.enter_context(opened(base, relative))
        except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL
            raise StorageError("there is no such file") from None
        yield file


def _below(path: Path, lfn: str) -> tuple[Path, str]:
    """Return the directory of the storage element and the path below it; without *lfn* that is only the name."""
    text = str(path)
    relative = lfn.lstrip("/") if lfn and text.endswith(lfn) else path.name
    return Path(text[: -len(relative)] or "/"), relative


def without_secrets(url: str) -> str:
    """Return a URL that may be logged: without user, password and query, which may be a signature."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "not a URL"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


class Storage:
    """A client of storage elements, with a new connection for each request."""

    def __init__(self, *, ca: Path | None = None) -> None:
        """Trust the certificates of the system and those in *ca*, a file or a directory."""
        self._ca = ca

    def fetch(
        self,
        url: str,
        *,
        token: str,
        into: Path,
        max_bytes: int | None,
        give_up: Callable[[], bool],
        lfn: str = "",
    ) -> None:
        """Copy the file at *url* to the new file *into*; *lfn* is the part of *url* after the element's own URL.

        Raises:
            UnreachableError: it may be tried again.
            StorageError, OSError: there is no such file, it cannot be read, or the disk is full.
            TooMuchError: it has more than *max_bytes*.
            GivenUpError: *give_up* returned true between two chunks.
        """
        path = path_of(url)
        if path is not None:
            with opened_below(path, lfn=lfn) as source:
                _copy(source, into, max_bytes=max_bytes, give_up=give_up)
            return
        with closing(self._answer("GET", url, token=token)) as exchange, into.open("wb") as file:
            left = max_bytes
            for chunk in unless_given_up(_chunks_of_answer(exchange), give_up):
                if left is not None:
                    left -= len(chunk)
                    if left < 0:
                        raise TooMuchError(f"more than {max_bytes} bytes")
                file.write(chunk)

    def size(self, url: str, *, token: str) -> int | None:
        """Return the size in bytes of the file at *url*; None: not given.

        Raises:
            UnreachableError, StorageError: as for ``fetch``.
        """
        with closing(self._answer("HEAD", url, token=token)) as exchange:
            length = exchange.response.headers.get("Content-Length", "")
            return int(length) if length.isdecimal() else None

    def put(self, file: BinaryIO, url: str, *, token: str, give_up: Callable[[], bool], lfn: str = "") -> None:
        """Copy *file* to *url*, replacing an existing file as a whole; *lfn* is as for ``fetch``.

        Raises:
            UnreachableError, StorageError, OSError, GivenUpError: as for ``fetch``.
        """
        path = path_of(url)
        if path is None:
            self._put_over_http(file, url, token=token, give_up=give_up)
            return
        base, relative = _below(path, lfn)
        with replaced(base, relative) as written:
            for chunk in _chunks_of(file, give_up=give_up):
                written.write(chunk)

    def _put_over_http(self, file: BinaryIO, url: str, *, token: str, give_up: Callable[[], bool]) -> None:
        try:
            self._answer("PUT", url, token=token, file=file, give_up=give_up).close()
        except NoDirectoryError:
            self._make_directories(url, token=token)
            self._answer("PUT", url, token=token, file=file, give_up=give_up).close()

    def _make_directories(self, url: str, *, token: str) -> None:
        """Create missing directories above a file, as WebDAV requires (RFC 4918 §9.3)."""
        parts = urlsplit(url)
        names = parts.path.split("/")[1:-1]
        for depth in range(1, len(names) + 1):
            directory = parts._replace(path=f"/{'/'.join(names[:depth])}/").geturl()
            # It exists already, or may not be created; the next PUT shows whether that matters.
            with suppress(StorageError):
                self._answer("MKCOL", directory, token=token).close()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """The TLS context, created on demand: it takes some MB, and most jobs read no data."""
        tls = ssl.create_default_context()
        if self._ca is not None:
            tls.load_verify_locations(**({"capath": str(self._ca)} if self._ca.is_dir() else {"cafile": str(self._ca)}))
        return tls

    def _answer(
        self,
        method: str,
        url: str,
        *,
        token: str,
        file: BinaryIO | None = None,
        give_up: Callable[[], bool] = lambda: False,
    ) -> Exchange:
        """Follow redirects; return a successful answer whose body is not read yet."""
        headers = {} if file is None else {"Content-Length": str(os.fstat(file.fileno()).st_size)}
        body: Body | None = None if file is None else lambda: _chunks_of(file, give_up=give_up)

        def send(parts: SplitResult, target: str, trusted: bool) -> Exchange:  # noqa: FBT001 - as answered() calls it
            tokens = {"Authorization": f"Bearer {token}"} if token and trusted else {}
            http = HttpClient(
                f"{parts.scheme}://{parts.netloc}", user_agent=USER_AGENT, timeout_s=_TIMEOUT_S, tls=self._tls
            )
            try:
                return http.send(method, target, headers={**headers, **tokens}, body=body, repeatable=False)
            except UnsendableError:
                raise StorageError("its address or its credential has characters that cannot be sent") from None
            except (OSError, HTTPException) as error:
                raise _network_trouble(error) from error

        try:
            exchange = answered(url, send)
        except AddressError as error:
            raise _address_error(error) from None
        if exchange.is_successful:
            return exchange
        exchange.close()
        raise _error_of(exchange.response)


def _address_error(error: AddressError) -> StorageError:
    if error.flaw is AddressFlaw.WRONG_KIND:
        scheme = urlsplit(error.url).scheme or "(none)"
        return StorageError(f"this pilot cannot read addresses of the kind {scheme}:")
    return StorageError(_FLAWS[error.flaw])


def _chunks_of_answer(exchange: Exchange) -> Iterator[bytes]:
    try:
        yield from exchange.chunks()
    except (OSError, HTTPException) as error:
        if isinstance(error, IncompleteRead) and error.expected:
            raise UnreachableError(f"the answer was cut off; {error.expected} bytes are missing") from error
        raise _network_trouble(error) from error


def _network_trouble(error: Exception) -> Exception:
    cause = error.__cause__ if isinstance(error, NotSentError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return StorageError(f"its certificate is not trusted: {cause.verify_message}")
    return UnreachableError(named(error))


def _error_of(response: HTTPResponse) -> Exception:
    if response.status == TOO_MANY or response.status in SERVER_TROUBLE:
        return UnreachableError(f"the storage element answered {response.status}")
    error = NoDirectoryError if response.status == _CONFLICT else StorageError
    return error(f"the storage element answered {response.status} {response.reason}")


def _chunks_of(file: BinaryIO, *, give_up: Callable[[], bool]) -> Iterator[bytes]:
    file.seek(0)
    return unless_given_up(iter(lambda: file.read(CHUNK_BYTES), b""), give_up)


def _copy(source: BinaryIO, target: Path, *, max_bytes: int | None, give_up: Callable[[], bool]) -> None:
    size_bytes = os.fstat(source.fileno()).st_size
    if max_bytes is not None and size_bytes > max_bytes:  # before the wrong file fills the disk
        raise TooMuchError(f"it has {size_bytes} bytes, not {max_bytes}")
    with target.open("wb") as written:
        for chunk in _chunks_of(source, give_up=give_up):
            written.write(chunk)
