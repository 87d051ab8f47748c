"""HTTP to the server: one persistent connection per thread, and one try for each call."""

from __future__ import annotations

import json
import platform
import socket
import ssl
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from pilots.agent.base.clock import monotonic
from pilots.agent.server import json_fields
from pilots.agent.server.json_fields import MalformedAnswerError, Record
from wms.wire.protocol import PROTOCOL
from wms.wire.version import __version__

USER_AGENT = f"wms-pilot-agent/{__version__} (protocol {PROTOCOL}; Python {platform.python_version()})"
#: Bytes of an answer in JSON; a longer one is not from our server.
MAX_ANSWER_BYTES = 16 * 1024 * 1024
CHUNK_BYTES = 64 * 1024
TOO_MANY = 429
HTTP_PORT, HTTPS_PORT = 80, 443
#: The server is overloaded or restarting, or a proxy cannot reach it.
SERVER_TROUBLE = range(500, 600)
REDIRECTS = range(300, 400)


class UnreachableError(Exception):
    """There was no usable answer, because of the network or the server; the call may be tried again later."""

    def __init__(self, reason: str, *, retry_after_s: float | None = None, code: str = "") -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s
        #: Error code of the server; empty: none, for example from a proxy.
        self.code = code


class RefusedError(Exception):
    """The server refused the call; the same call would be refused again."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail


class BadCertificatesError(Exception):
    """The certificates to trust cannot be read; the text is one sentence for the user."""


class GivenUpError(Exception):
    """A transfer was cancelled by this side."""


class TooMuchError(Exception):
    """A file is larger than announced."""


@dataclass(frozen=True)
class Answer:
    """The answer to a call; *sent_at* is the monotonic time at which the request was sent."""

    status: int
    headers: HTTPMessage
    body: bytes
    sent_at: float

    def record(self) -> Record:
        """Return the JSON object in the body.

        Raises:
            MalformedAnswerError: the body is not a JSON object.
        """
        try:
            return json_fields.record(json.loads(self.body))
        except ValueError as error:
            raise MalformedAnswerError("the answer is not JSON") from error

    def retry_after_s(self) -> float | None:
        """Return the seconds of Retry-After in the answer; None: not given."""
        value = self.headers.get("Retry-After", "")
        return float(value) if value.isdecimal() else None

    def skew_s(self, *, now: float) -> float | None:
        """Return the seconds by which *now* (wall-clock time) is ahead of the server's Date; None: there is no Date."""
        try:
            return now - parsedate_to_datetime(self.headers.get("Date", "")).timestamp()
        except (TypeError, ValueError, IndexError):
            return None


class Client:
    """An HTTP client of one server."""

    def __init__(self, url: str, *, timeout_s: float, ca: Path | None = None) -> None:
        """Prepare; the connection is opened by the first call.

        Args:
            url: ``http://…`` or ``https://…``, which may have a path.
            timeout_s: for each single operation of the network.
            ca: file or directory of certificates to trust instead of the system's.

        Raises:
            BadCertificatesError: the file *ca* contains none, or cannot be read.
        """
        parts = urlsplit(url)
        # NB: http.client would take the end of an IPv6 address for a port if none were given.
        self._host = parts.hostname or ""
        self._port = parts.port or (HTTPS_PORT if parts.scheme == "https" else HTTP_PORT)
        self._path = parts.path.rstrip("/")
        self._timeout_s = timeout_s
        # Own certificates are checked in any case, because storage elements are reached with them.
        tls = _tls(ca) if ca is not None or parts.scheme == "https" else None
        self._tls = tls if parts.scheme == "https" else None
        self._kept = threading.local()

    def call(
        self, method: str, path: str, *, token: str, body: Record | None = None, timeout_s: float | None = None
    ) -> Answer:
        """Send *body* as JSON and return the answer, whose status is 2xx.

        Raises:
            UnreachableError, RefusedError: there was no answer, or another status.
        """
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            # File names may contain bytes that are not UTF-8; these are replaced.
            content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        with _Exchange(self, timeout_s) as exchange:
            return exchange.answer(method, path, headers, content)

    def download(self, path: str, *, token: str, into: BinaryIO, max_bytes: int, give_up: Callable[[], bool]) -> None:
        """Write the body of the answer to *into*.

        Raises:
            UnreachableError, RefusedError: as for ``call``; *into* may contain a part.
            TooMuchError: it has more than *max_bytes*.
            GivenUpError: *give_up* returned true between two chunks.
        """
        with _Exchange(self, None) as exchange:
            response = exchange.response("GET", path, {"Authorization": f"Bearer {token}"}, None)
            left = max_bytes
            while chunk := response.read(CHUNK_BYTES):
                left -= len(chunk)
                if left < 0:
                    raise TooMuchError(f"more than {max_bytes} bytes")
                if give_up():
                    raise GivenUpError
                into.write(chunk)

    def upload(self, path: str, *, token: str, file: Path, file_name: str, give_up: Callable[[], bool]) -> Answer:
        """Send *file* as the field ``file`` of a form, and return the answer.

        Raises:
            UnreachableError, RefusedError: as for ``call``.
            GivenUpError: *give_up* returned true between two chunks.
        """
        boundary = uuid.uuid4().hex
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{file_name}"\r\n'
            "Content-Type: application/gzip\r\n\r\n"
        ).encode()
        tail = f"\r\n--{boundary}--\r\n".encode()
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json",
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Content-Length": str(len(head) + file.stat().st_size + len(tail)),
        }
        self.close()  # a new connection, because a body that is generated cannot be sent twice
        with _Exchange(self, None) as exchange:
            return exchange.answer("POST", path, headers, _form(head, file, tail, give_up))

    def close(self) -> None:
        """Close this thread's connection."""
        connection = self.connection_kept()
        self._kept.connection = None
        if connection is not None:
            connection.close()

    def connection_kept(self) -> HTTPConnection | None:
        """Return this thread's open connection, if any."""
        connection: HTTPConnection | None = getattr(self._kept, "connection", None)
        return connection

    def connect(self, timeout_s: float | None) -> HTTPConnection:
        """Return this thread's connection, opened if necessary."""
        timeout_s = timeout_s or self._timeout_s
        connection = self.connection_kept()
        if connection is not None and connection.sock is not None:
            connection.sock.settimeout(timeout_s)
            return connection
        if self._tls is None:
            connection = HTTPConnection(self._host, self._port, timeout=timeout_s)
        else:
            connection = HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._tls)
        connection.connect()
        # Small requests must not wait for the acknowledgement of the previous one.
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._kept.connection = connection
        return connection

    def address_of(self, path: str) -> str:
        """Return *path* below the path of the server's URL."""
        return self._path + path


class _Exchange:
    """One request and its answer; an error within ``with`` closes the connection."""

    def __init__(self, client: Client, timeout_s: float | None) -> None:
        self._client = client
        self._timeout_s = timeout_s

    def __enter__(self) -> _Exchange:  # noqa: PYI034 - Self is of Python 3.11
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or isinstance(error, RefusedError):
            return
        self._client.close()
        if isinstance(error, (OSError, HTTPException)):
            raise UnreachableError(_named(error)) from error

    def answer(
        self, method: str, path: str, headers: Mapping[str, str], content: bytes | Iterable[bytes] | None
    ) -> Answer:
        """Return the whole answer."""
        sent_at = monotonic()
        response = self.response(method, path, headers, content)
        body = _whole_body(response)
        return Answer(status=response.status, headers=response.headers, body=body, sent_at=sent_at)

    def response(
        self, method: str, path: str, headers: Mapping[str, str], content: bytes | Iterable[bytes] | None
    ) -> HTTPResponse:
        """Return a successful answer whose body is not read yet."""
        was_open = self._client.connection_kept() is not None
        try:
            response = self._once(method, path, headers, content)
        except (ConnectionError, HTTPException):
            # The server may have closed an idle persistent connection: try once more.
            if not was_open:
                raise
            self._client.close()
            response = self._once(method, path, headers, content)
        if response.status in range(200, 300):
            return response
        raise _error_of(response)

    def _once(
        self, method: str, path: str, headers: Mapping[str, str], content: bytes | Iterable[bytes] | None
    ) -> HTTPResponse:
        connection = self._client.connect(self._timeout_s)
        headers = {"User-Agent": USER_AGENT, **headers}
        connection.request(method, self._client.address_of(path), body=content, headers=headers)
        return connection.getresponse()


def _error_of(response: HTTPResponse) -> Exception:
    body = _whole_body(response)
    answer = Answer(status=response.status, headers=response.headers, body=body, sent_at=0.0)
    if response.status == TOO_MANY or response.status in SERVER_TROUBLE:
        reason = f"the server answered {response.status}"
        return UnreachableError(reason, retry_after_s=answer.retry_after_s(), code=_code_of(answer))
    if response.status in REDIRECTS:
        target = response.headers.get("Location", "nowhere")[:200]
        sentence = f"it redirects to {target}, but tokens are for one address"
        return RefusedError(response.status, "sent_on", f"{sentence}: give the pilot the address of the server itself")
    try:
        fields = answer.record()
        code, detail = json_fields.text(fields, "code", "unknown"), json_fields.text(fields, "detail", "")
    except MalformedAnswerError:
        code, detail = "unknown", "the answer is not from this server"
    return RefusedError(response.status, code, detail)


def _code_of(answer: Answer) -> str:
    try:
        return json_fields.text(answer.record(), "code", "")
    except MalformedAnswerError:
        return ""


def _whole_body(response: HTTPResponse) -> bytes:
    # In chunks: Python 3.9 allocates the size that is requested, not the size of the body.
    body = bytearray()
    while chunk := response.read(CHUNK_BYTES):
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise HTTPException("the answer is too long")
    return bytes(body)


def _form(head: bytes, file: Path, tail: bytes, give_up: Callable[[], bool]) -> Iterator[bytes]:
    yield head
    with file.open("rb") as content:
        while chunk := content.read(CHUNK_BYTES):
            if give_up():
                raise GivenUpError
            yield chunk
    yield tail


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _tls(ca: Path | None) -> ssl.SSLContext:
    if ca is None:
        return ssl.create_default_context()
    if ca.is_dir():
        return ssl.create_default_context(capath=str(ca))
    try:
        return ssl.create_default_context(cafile=str(ca))
    except OSError as error:
        raise BadCertificatesError(f"The certificates {ca} cannot be read: {error}.") from error
