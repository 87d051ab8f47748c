"""Files on storage elements, read and written by path (file://) or over HTTP (https://, or http:// without a token)."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cached_property
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO
from urllib.parse import SplitResult, urlsplit

from pilots.agent.data.safe_paths import opened
from pilots.agent.server.http import (
    SERVER_TROUBLE,
    TOO_MANY,
    USER_AGENT,
    TooMuchError,
    UnreachableError,
    named,
    unless_given_up,
)
from pilots.agent.server.job_data import Content, content_of
from wms.wire.http import CHUNK_BYTES, Body, Exchange, HttpClient, NotSentError, UnsendableError
from wms.wire.storage import MAX_REDIRECTS, AddressError, AddressFlaw, answered, file_path_of

_CONFLICT = 409
_PRECONDITION_FAILED = 412
#: Statuses of files that do not exist.
_ABSENT = frozenset({404, 410})
#: Statuses of a file that has been moved: to a new place, over a file, either.
_MOVED = frozenset({200, 201, 204})
#: Statuses of MOVE from servers that do not have it, or not for this credential.
_NO_MOVE = frozenset({400, 401, 403, 405, 501})
_BAD_GATEWAY = 502
#: Statuses of a store that is busy, with this request for too long, or with the file.
_BUSY = frozenset({408, 423, 425, TOO_MANY})
#: Digits of a size; more are no number of bytes.
_MOST_DIGITS = 18
#: Statuses that another try would not change: not implemented, no such version of HTTP, no space left.
_FINAL_TROUBLE = frozenset({501, 505, 507})
#: Timeout in seconds of one network operation, and bytes of a sent file for which one more is waited: some stores
#: compute a checksum before they answer.
_TIMEOUT_S, _BYTES_OF_A_SECOND = 60.0, 10 * 1024 * 1024
_FLAWS: Mapping[AddressFlaw, str] = {
    AddressFlaw.NOT_A_URL: "its address is not a URL",
    AddressFlaw.REDIRECTED_TO_NO_URL: "the storage element redirects to something that is not a URL",
    AddressFlaw.REDIRECTED_UNENCRYPTED: "the storage element redirects from https to an unencrypted address",
    AddressFlaw.TOO_MANY_REDIRECTS: f"the storage element redirects more than {MAX_REDIRECTS} times",
}


class StorageError(Exception):
    """The storage element does not have the file or refuses it; another try would not help."""


class NoSuchFileError(StorageError):
    """There is no such file."""


class NoDirectoryError(StorageError):
    """The directory of the file must be created first."""


class ExistsError(StorageError):
    """There is a file of this name already, which is not replaced."""


class NotSupportedError(StorageError):
    """The storage element, or its credential, does not allow such requests."""


class BadGatewayError(UnreachableError):
    """A proxy did not reach the server, or a server takes the destination of a move for another server's."""


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
            NoSuchFileError: there is no such file.
            UnreachableError, StorageError: as for ``fetch``.
        """
        with closing(self._answer("HEAD", url, token=token)) as exchange:
            length = exchange.response.headers.get("Content-Length", "")
            return int(length) if length.isdecimal() and len(length) <= _MOST_DIGITS else None

    def content(self, url: str, *, token: str, give_up: Callable[[], bool]) -> Content:
        """Return size and checksum of the file at *url*, all of which is read.

        Raises:
            NoSuchFileError: there is no such file.
            UnreachableError, StorageError, GivenUpError: as for ``fetch``.
        """
        with closing(self._answer("GET", url, token=token)) as exchange:
            return content_of(unless_given_up(_chunks_of_answer(exchange), give_up))

    def put(self, file: BinaryIO, url: str, *, token: str, give_up: Callable[[], bool], only_new: bool = False) -> bool:
        """Copy *file* to *url*, where it replaces an existing file as a whole.

        Args:
            file: to be copied, from its beginning.
            url: http:// or https://.
            token: of the storage element.
            give_up: ends the copy between two chunks.
            only_new: whether the server is asked to replace nothing; some servers do so nevertheless.

        Returns:
            False if there is a file already, by *only_new*.

        Raises:
            UnreachableError, StorageError, OSError, GivenUpError: as for ``fetch``.
        """
        conditions = {"If-None-Match": "*"} if only_new else {}

        def put() -> None:
            self._answer("PUT", url, token=token, file=file, give_up=give_up, headers=conditions).close()

        try:
            try:
                put()
            except NoDirectoryError:
                self._make_directories(url, token=token)
                put()
        except ExistsError:
            return False
        return True

    def move(self, url: str, new_url: str, *, token: str, replace: bool) -> bool:
        """Move the file at *url* to *new_url* (RFC 4918 §9.9); return False if, without *replace*, there is a file.

        Raises:
            NoSuchFileError: there is no file at *url*.
            NotSupportedError: the storage element does not move files.
            UnreachableError, StorageError: as for ``fetch``.
        """

        def move(destination: str) -> Exchange:
            headers = {"Destination": destination, "Overwrite": "T" if replace else "F"}
            return self._answer("MOVE", url, token=token, headers=headers)

        try:
            try:
                exchange = move(new_url)
            except BadGatewayError:
                # Behind a proxy, Apache knows itself by another scheme or name; the path alone it takes for its own.
                exchange = move(urlsplit(new_url).path)
        except ExistsError:
            return False
        exchange.close()
        # Others, such as 207 (some of it failed), do not say that the file has been moved.
        if exchange.response.status not in _MOVED:
            raise StorageError(f"the storage element answered {exchange.response.status} to a move")
        return True

    def remove(self, url: str, *, token: str) -> None:
        """Remove the file at *url*, if it exists; the errors are those of ``fetch``."""
        with suppress(NoSuchFileError):
            self._answer("DELETE", url, token=token).close()

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
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Exchange:
        """Follow redirects; return a successful answer whose body is not read yet."""
        size_bytes = 0 if file is None else os.fstat(file.fileno()).st_size
        length = {} if file is None else {"Content-Length": str(size_bytes)}
        body: Body | None = None if file is None else lambda: chunks_of(file, give_up=give_up)

        def send(parts: SplitResult, target: str, trusted: bool) -> Exchange:  # noqa: FBT001 - as answered() calls it
            tokens = {"Authorization": f"Bearer {token}"} if token and trusted else {}
            timeout_s = _TIMEOUT_S + size_bytes / _BYTES_OF_A_SECOND
            address = f"{parts.scheme}://{parts.netloc}"
            http = HttpClient(address, user_agent=USER_AGENT, timeout_s=timeout_s, tls=self._tls)
            try:
                return http.send(method, target, headers={**length, **headers, **tokens}, body=body, repeatable=False)
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
        raise _error_of(method, exchange.response)


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


def _error_of(method: str, response: HTTPResponse) -> Exception:
    status, error = response.status, StorageError
    if method == "MOVE" and status in _NO_MOVE:
        error = NotSupportedError
    elif status in _BUSY or (status in SERVER_TROUBLE and status not in _FINAL_TROUBLE):
        kind = BadGatewayError if status == _BAD_GATEWAY else UnreachableError
        return kind(f"the storage element answered {status}")
    elif status == _CONFLICT or (method == "PUT" and status in _ABSENT):
        error = NoDirectoryError
    elif status in _ABSENT:
        error = NoSuchFileError
    elif status == _PRECONDITION_FAILED:
        error = ExistsError
    return error(f"the storage element answered {status} {response.reason} to {method}")


def chunks_of(file: BinaryIO, *, give_up: Callable[[], bool]) -> Iterator[bytes]:
    """Yield the content of a file in parts; GivenUpError: *give_up* returned true between two."""
    file.seek(0)
    return unless_given_up(iter(lambda: file.read(CHUNK_BYTES), b""), give_up)


def _copy(source: BinaryIO, target: Path, *, max_bytes: int | None, give_up: Callable[[], bool]) -> None:
    size_bytes = os.fstat(source.fileno()).st_size
    if max_bytes is not None and size_bytes > max_bytes:  # before the wrong file fills the disk
        raise TooMuchError(f"it has {size_bytes} bytes, not {max_bytes}")
    with target.open("wb") as written:
        for chunk in chunks_of(source, give_up=give_up):
            written.write(chunk)
