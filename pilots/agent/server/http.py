"""HTTP to the server: one try for each call."""

from __future__ import annotations

import json
import platform
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import BinaryIO

from pilots.agent.base.clock import monotonic
from pilots.agent.server import json_fields
from pilots.agent.server.json_fields import MalformedAnswerError, Record
from wms.wire.http import Body, Exchange, HttpClient, NotSentError, ProxyError, retry_after_s
from wms.wire.multipart import MultipartFile
from wms.wire.protocol import PROTOCOL
from wms.wire.version import __version__

USER_AGENT = f"wms-pilot-agent/{__version__} (protocol {PROTOCOL}; Python {platform.python_version()})"
#: Bytes of an answer in JSON; a longer one is not from our server.
MAX_ANSWER_BYTES = 16 * 1024 * 1024
TOO_MANY = 429
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
        return retry_after_s(self.headers)

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
        # Own certificates are checked in any case, because storage elements are reached with them.
        tls = None if ca is None else _tls(ca)
        self._http = HttpClient(url, user_agent=USER_AGENT, timeout_s=timeout_s, tls=tls)

    def call(
        self, method: str, path: str, *, token: str, body: Record | None = None, timeout_s: float | None = None
    ) -> Answer:
        """Send *body* as JSON and return the answer, whose status is 2xx.

        Raises:
            UnreachableError, RefusedError: there was no answer, or another status.
        """
        headers = {"Accept": "application/json"}
        if body is None:
            return self._answer(method, path, token, headers, timeout_s=timeout_s)
        # File names may contain bytes that are not UTF-8; these are replaced.
        content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        return self._answer(method, path, token, headers, lambda: [content], timeout_s=timeout_s)

    def download(self, path: str, *, token: str, into: BinaryIO, max_bytes: int, give_up: Callable[[], bool]) -> None:
        """Write the body of the answer to *into*.

        Raises:
            UnreachableError, RefusedError: as for ``call``; *into* may contain a part.
            TooMuchError: it has more than *max_bytes*.
            GivenUpError: *give_up* returned true between two chunks.
        """
        with self._asked("GET", path, token, {}) as exchange:
            left = max_bytes
            for chunk in unless_given_up(exchange.chunks(), give_up):
                left -= len(chunk)
                if left < 0:
                    raise TooMuchError(f"more than {max_bytes} bytes")
                into.write(chunk)

    def upload(self, path: str, *, token: str, file: Path, file_name: str, give_up: Callable[[], bool]) -> Answer:
        """Send *file* as the field ``file`` of a form, and return the answer.

        Raises:
            UnreachableError, RefusedError: as for ``call``.
            GivenUpError: *give_up* returned true between two chunks.
        """
        form = MultipartFile(file, name=file_name, content_type="application/gzip")
        headers = {"Accept": "application/json", **form.headers}
        return self._answer("POST", path, token, headers, lambda: unless_given_up(form.parts(), give_up))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _answer(
        self,
        method: str,
        path: str,
        token: str,
        headers: Mapping[str, str],
        body: Body | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Answer:
        """Return the whole answer."""
        sent_at = monotonic()
        with self._asked(method, path, token, headers, body, timeout_s=timeout_s) as exchange:
            return _answer_of(exchange, sent_at=sent_at)

    @contextmanager
    def _asked(
        self,
        method: str,
        path: str,
        token: str,
        headers: Mapping[str, str],
        body: Body | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Iterator[Exchange]:
        """Send a request; yield its successful answer, whose body is not read yet."""
        headers = {"Authorization": f"Bearer {token}", **headers}
        try:
            with closing(self._http.send(method, path, headers=headers, body=body, timeout_s=timeout_s)) as exchange:
                if not exchange.is_successful:
                    raise _error_of(exchange)
                yield exchange
        except (OSError, HTTPException) as error:
            raise UnreachableError(named(error)) from error


def _answer_of(exchange: Exchange, *, sent_at: float) -> Answer:
    body = exchange.read(most_bytes=MAX_ANSWER_BYTES)
    return Answer(status=exchange.response.status, headers=exchange.response.headers, body=body, sent_at=sent_at)


def _error_of(exchange: Exchange) -> Exception:
    answer = _answer_of(exchange, sent_at=0.0)
    if answer.status == TOO_MANY or answer.status in SERVER_TROUBLE:
        reason = f"the server answered {answer.status}"
        return UnreachableError(reason, retry_after_s=answer.retry_after_s(), code=_code_of(answer))
    if answer.status in REDIRECTS:
        target = answer.headers.get("Location", "nowhere")[:200]
        sentence = f"it redirects to {target}, but tokens are for one address"
        return RefusedError(answer.status, "sent_on", f"{sentence}: give the pilot the address of the server itself")
    try:
        fields = answer.record()
        code, detail = json_fields.text(fields, "code", "unknown"), json_fields.text(fields, "detail", "")
    except MalformedAnswerError:
        code, detail = "unknown", "the answer is not from this server"
    return RefusedError(answer.status, code, detail)


def _code_of(answer: Answer) -> str:
    try:
        return json_fields.text(answer.record(), "code", "")
    except MalformedAnswerError:
        return ""


def unless_given_up(chunks: Iterable[bytes], give_up: Callable[[], bool]) -> Iterator[bytes]:
    """Yield the chunks; raise GivenUpError once *give_up* returns true."""
    for chunk in chunks:
        if give_up():
            raise GivenUpError
        yield chunk


def named(error: Exception) -> str:
    """Return kind and text of an error of the network; of a proxy's error its sentence."""
    if isinstance(error, ProxyError):
        return str(error)
    if isinstance(error, NotSentError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _tls(ca: Path) -> ssl.SSLContext:
    if ca.is_dir():
        return ssl.create_default_context(capath=str(ca))
    try:
        return ssl.create_default_context(cafile=str(ca))
    except OSError as error:
        raise BadCertificatesError(f"The certificates {ca} cannot be read: {error}.") from error
