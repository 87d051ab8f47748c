"""Files on storage elements, read and written by path (file://) or over HTTP (https://, or http:// without a token)."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, InvalidURL
from pathlib import Path
from typing import BinaryIO
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from pilots.agent.data.safe_paths import opened, replaced
from pilots.agent.server.http import CHUNK_BYTES, TOO_MANY, USER_AGENT, GivenUpError, TooMuchError, UnreachableError
from pilots.agent.server.http import SERVER_TROUBLE as TROUBLE

#: Redirects that are followed: storage elements redirect to the machine with the file.
_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CONFLICT = 409
#: Timeout in seconds of one network operation.
_TIMEOUT_S = 60.0
_DEFAULT_PORTS = {"http": 80, "https": 443}


class StorageError(Exception):
    """The storage element does not have the file or refuses it; another try would not help."""


class NoDirectoryError(StorageError):
    """The directory of the file must be created first."""


def path_of(url: str) -> Path | None:
    """Return the path of a file:// URL; None for another URL.

    Raises:
        StorageError: it is not a URL.
    """
    parts = _split(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


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
            for chunk in exchange.chunks():
                if left is not None:
                    left -= len(chunk)
                    if left < 0:
                        raise TooMuchError(f"more than {max_bytes} bytes")
                if give_up():
                    raise GivenUpError
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
    ) -> _Exchange:
        """Follow redirects; return a successful answer whose body is not read yet."""
        first = _parts(url)
        for _ in range(_MAX_REDIRECTS + 1):
            parts = _parts(url)
            # The token goes only to the storage element itself, and only encrypted.
            trusted = parts.scheme == "https" and _origin(parts) == _origin(first)
            exchange = _Exchange(parts, tls=self._tls)
            try:
                response = exchange.ask(method, token=token if trusted else "", file=file, give_up=give_up)
            except BaseException:
                exchange.close()
                raise
            if response.status in range(200, 300):
                return exchange
            exchange.close()
            location = response.headers.get("Location", "")
            if response.status not in _REDIRECTS or not location:
                raise _error_of(response)
            url = _redirected(url, location)
        raise StorageError(f"the storage element redirects more than {_MAX_REDIRECTS} times")


class _Exchange:
    """One connection with one request and its answer."""

    response: HTTPResponse

    def __init__(self, parts: SplitResult, *, tls: ssl.SSLContext) -> None:
        self._target = parts.path + (f"?{parts.query}" if parts.query else "")
        host = parts.hostname or ""
        if parts.scheme == "https":
            self._connection: HTTPConnection = HTTPSConnection(host, parts.port, timeout=_TIMEOUT_S, context=tls)
        else:
            self._connection = HTTPConnection(host, parts.port, timeout=_TIMEOUT_S)

    def ask(self, method: str, *, token: str, file: BinaryIO | None, give_up: Callable[[], bool]) -> HTTPResponse:
        """Send the request and return its answer, whose body is not read yet."""
        headers = {"User-Agent": USER_AGENT, **({"Authorization": f"Bearer {token}"} if token else {})}
        if file is not None:
            headers["Content-Length"] = str(os.fstat(file.fileno()).st_size)
        try:
            self._request(method, headers, None if file is None else _chunks_of(file, give_up=give_up))
        except InvalidURL:
            raise _unsendable() from None
        except (OSError, HTTPException) as error:
            raise _network_trouble(error) from error
        except ValueError:
            raise _unsendable() from None
        return self.response

    def _request(self, method: str, headers: Mapping[str, str], body: Iterator[bytes] | None) -> None:
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._connection.request(method, self._target, body=body, headers=dict(headers))
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses or redirects need not read the whole file; its answer follows.
            if body is None:
                raise
        self.response = self._connection.getresponse()

    def chunks(self) -> Iterator[bytes]:
        """Yield the body of the answer."""
        while True:
            try:
                chunk = self.response.read(CHUNK_BYTES)
            except (OSError, HTTPException) as error:
                raise _network_trouble(error) from error
            if not chunk:
                break
            yield chunk
        # NB: http.client takes the end of the connection for the end of the body.
        if self.response.length:
            raise UnreachableError(f"the answer was cut off; {self.response.length} bytes are missing")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # parsed only now
    except ValueError:
        raise StorageError("its address is not a URL") from None
    return parts


def _parts(url: str) -> SplitResult:
    """Return the parts of an HTTP URL.

    Raises:
        StorageError: it is not one.
    """
    parts = _split(url)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise StorageError(f"this pilot cannot read addresses of the kind {parts.scheme or '(none)'}:")
    return parts


def _redirected(url: str, location: str) -> str:
    """Return the address to which the storage element at *url* redirects."""
    try:
        target = urljoin(url, location)
        is_open = urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https"
    except ValueError:
        raise StorageError("the storage element redirects to something that is not a URL") from None
    if is_open:
        raise StorageError("the storage element redirects from https to an unencrypted address")
    return target


def _network_trouble(error: Exception) -> Exception:
    if isinstance(error, ssl.SSLCertVerificationError):
        return StorageError(f"its certificate is not trusted: {error.verify_message}")
    return UnreachableError(f"{type(error).__name__}: {error}")


def _unsendable() -> StorageError:
    # NB: http.client's own text contains what could not be sent, which may be the token.
    return StorageError("its address or its credential has characters that cannot be sent")


def _error_of(response: HTTPResponse) -> Exception:
    if response.status == TOO_MANY or response.status in TROUBLE:
        return UnreachableError(f"the storage element answered {response.status}")
    error = NoDirectoryError if response.status == _CONFLICT else StorageError
    return error(f"the storage element answered {response.status} {response.reason}")


def _origin(parts: SplitResult) -> tuple[str | None, int | None]:
    return parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)


def _chunks_of(file: BinaryIO, *, give_up: Callable[[], bool]) -> Iterator[bytes]:
    file.seek(0)
    while chunk := file.read(CHUNK_BYTES):
        if give_up():
            raise GivenUpError
        yield chunk


def _copy(source: BinaryIO, target: Path, *, max_bytes: int | None, give_up: Callable[[], bool]) -> None:
    size_bytes = os.fstat(source.fileno()).st_size
    if max_bytes is not None and size_bytes > max_bytes:  # before the wrong file fills the disk
        raise TooMuchError(f"it has {size_bytes} bytes, not {max_bytes}")
    with target.open("wb") as written:
        for chunk in _chunks_of(source, give_up=give_up):
            written.write(chunk)
