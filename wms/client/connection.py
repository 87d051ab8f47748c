"""The connection to a server: requests with their retries, uploads, downloads and streams."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from .downloads import Download, OnBytes
from .errors import ClientError, NotReachableError, ServerRefusedError, WrongUsageError
from .retries import Retries
from .wire.http import (
    Body,
    Exchange,
    HttpClient,
    NotSentError,
    TooLongError,
    in_clear,
    is_in_clear,
    is_server_address,
    retry_after_s,
)
from .wire.multipart import MultipartFile, ShorterFileError
from .wire.version import __version__

if TYPE_CHECKING:
    from http.cookiejar import CookieJar
    from urllib.request import Request

USER_AGENT = f"wms-client/{__version__}"
#: Seconds without a byte; explaining a job among twenty thousand queues takes a few.
TIMEOUT_S = 60.0
#: Seconds after which no further attempt begins; a restart of the server takes a few.
RETRY_S = 120.0
#: The request may have been carried out, or not: only a repeatable one is sent again.
_UNCERTAIN = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})

#: Of an answer that is no file: the largest of this server, of 10,000 jobs, are a tenth of it.
MAX_ANSWER_BYTES = 64 * 1024 * 1024
_LINES_BYTES = 64 * 1024

#: A JSON object, by field.
Record = Mapping[str, Any]
#: Parameters of a query; a list is a parameter that is repeated.
Query = Mapping[str, "str | int | Iterable[str]"]


def checked_url(url: str, *, insecure: bool) -> str:
    """Return the address of a server without a final slash.

    Args:
        url: as given.
        insecure: whether credentials may be sent unencrypted.

    Raises:
        WrongUsageError: it is not a server's address, or not an encrypted one.
    """
    if not is_server_address(url):
        raise WrongUsageError(f'"{url}" is not an address of a server; give one such as https://wms.example.org.')
    if not insecure and is_in_clear(url):
        raise WrongUsageError(in_clear(url))
    return url.rstrip("/")


class _Request(NamedTuple):
    method: str
    path: str
    #: None: none. Headers have its length.
    body: Body | None = None
    headers: Mapping[str, str] = MappingProxyType({})
    #: Whether a repeated request does nothing more.
    repeatable: bool = True


class _Answer(NamedTuple):
    exchange: Exchange
    #: Empty if the caller reads it.
    content: bytes


class Connection:
    """A server, and the token sent with each request. It may be used by several threads at once.

    A request that is safe to repeat (GET, PUT, DELETE, and those sent with ``repeatable=True``, such as a submission
    with its ``request_id``) is sent again when its answer is lost, or is 502, 503 or 504; every request after 429,
    which has changed nothing. The waits follow ``Retry-After``. No redirect is followed: the token is only for this
    server.

    Methods raise ``ServerRefusedError`` if the server refuses the request, and ``NotReachableError`` if no valid
    answer arrives in time.

    Args:
        url: address of the server, as returned by ``checked_url``.
        token: empty: requests carry none.
        cookies: sent and received; None: no cookies.
        timeout_s: longest wait for the next byte.
        retry_s: no attempt of a request begins later than this after its first.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        cookies: CookieJar | None = None,
        timeout_s: float = TIMEOUT_S,
        retry_s: float = RETRY_S,
    ) -> None:
        self.url = url
        self.token = token
        self.retry_s = retry_s
        self._cookies = cookies
        self._http = HttpClient(url, user_agent=USER_AGENT, timeout_s=timeout_s)
        self._has_answered = False

    def get(self, path: str, *, expects: str | None = None, query: Query | None = None) -> Record:
        """Return the answer of the server.

        Args:
            path: below the server's address, with the prefix ``API_V1``.
            expects: a name that a valid answer contains.
            query: the query parameters.
        """
        return self._record(self._ask(_Request("GET", _with_query(path, query))), expects=expects)

    def get_list(self, path: str, *, query: Query | None = None) -> list[Record]:
        """Return an answer that is a list without pages; as ``get``."""
        content = self._ask(_Request("GET", _with_query(path, query)))
        try:
            answer = json.loads(content)
        except ValueError:
            answer = None
        if not isinstance(answer, list):
            raise self.other_program()
        return answer

    def post(
        self, path: str, body: Record | None = None, *, expects: str | None = None, repeatable: bool = False
    ) -> Record:
        """Send *body* as JSON, and return the answer; {} if that is empty.

        Args:
            path: as for ``get``.
            body: None: without a body.
            expects: as for ``get``.
            repeatable: whether a repeated request does nothing more.
        """
        return self._send("POST", path, body, expects=expects, repeatable=repeatable)

    def patch(self, path: str, body: Record, *, expects: str | None = None, repeatable: bool = False) -> Record:
        """Send changes as JSON, and return the answer; as ``post``."""
        return self._send("PATCH", path, body, expects=expects, repeatable=repeatable)

    def put(self, path: str, body: Record, *, expects: str | None = None) -> Record:
        """Send the whole new state as JSON, and return the answer; as ``post``, and always repeatable."""
        return self._send("PUT", path, body, expects=expects, repeatable=True)

    def delete(self, path: str, *, query: Query | None = None) -> None:
        """Delete what the path names; *query* has the query parameters."""
        self._ask(_Request("DELETE", _with_query(path, query)))

    def rows(self, path: str, *, query: Query | None = None) -> Iterator[Record]:
        """Yield the results of a list, page by page."""
        for page in self.pages(path, query=query):
            yield from page["results"]

    def pages(self, path: str, *, query: Query | None = None) -> Iterator[Record]:
        """Yield the pages of a list."""
        page = self.get(path, expects="results", query=query)
        while True:
            yield page
            if not page.get("next"):
                return
            # Only the query of the next page is used: behind a proxy the server may have another address.
            page = self.get(f"{path}?{urlsplit(str(page['next'])).query}", expects="results")

    def upload(self, path: str, file: Path, *, expects: str | None = None) -> Record:
        """Send a file as ``multipart/form-data``, read while it is sent; a repeated upload stores nothing more.

        Raises:
            WrongUsageError: the file cannot be read.
        """
        try:
            body = MultipartFile(file)
        except OSError as error:
            raise WrongUsageError(f"{file} cannot be read ({error.strerror}).") from error
        try:
            return self._record(self._ask(_Request("POST", path, body.parts, body.headers)), expects=expects)
        except ShorterFileError as error:
            raise WrongUsageError(f"{file} became shorter while it was sent; try again.") from error

    def download(
        self,
        path: str,
        target: Path,
        *,
        query: Query | None = None,
        on_bytes: OnBytes | None = None,
        most_bytes: int | None = None,
    ) -> None:
        """Write the answer to the file *target*, which appears or changes when it is complete.

        What has arrived is kept beside it; a later call continues there, if the server identifies the version.

        Args:
            path: as for ``get``.
            target: in a directory that exists.
            query: the query parameters.
            on_bytes: called with (bytes that are there, bytes of the whole file or None).
            most_bytes: largest file that is accepted; None: any.

        Raises:
            WrongUsageError: the file cannot be written.
            TooLargeDownloadError: it is larger than *most_bytes*; nothing of it is kept.
        """
        address = _with_query(path, query)

        def open_answer(headers: Mapping[str, str]) -> AbstractContextManager[HTTPResponse]:
            return self._open(_Request("GET", address, headers={"Accept": "*/*", **headers}))

        Download(target, open_answer=open_answer, on_bytes=on_bytes, most_bytes=most_bytes).run(
            Retries(total_s=self.retry_s)
        )

    def lines(self, path: str, *, query: Query | None = None) -> Iterator[Record]:
        """Yield the objects of an answer in JSON lines, as they arrive; empty lines keep the connection alive.

        An answer that ends early raises ``NotReachableError``; the caller asks for the rest.
        """
        with self._open(_Request("GET", _with_query(path, query))) as response:
            for line in _lines(response):
                yield self._record(line, expects=None)

    def close(self) -> None:
        """Close the connections that are open; a later request opens another."""
        self._http.close()

    def _send(self, method: str, path: str, body: Record | None, *, expects: str | None, repeatable: bool) -> Record:
        if body is None:
            content = self._ask(_Request(method, path, repeatable=repeatable))
        else:
            sent = json.dumps(body).encode()
            headers = {"Content-Type": "application/json", "Content-Length": str(len(sent))}
            content = self._ask(_Request(method, path, lambda: [sent], headers, repeatable))
        return self._record(content, expects=expects) if content or expects else {}

    def _ask(self, request: _Request) -> bytes:
        answer = self._answer(request, is_read=True)
        answer.exchange.close()
        return answer.content

    @contextmanager
    def _open(self, request: _Request) -> Iterator[HTTPResponse]:
        """Return the answer, to be read by the caller."""
        with closing(self._answer(request, is_read=False).exchange) as exchange:
            yield exchange.response

    def _answer(self, request: _Request, *, is_read: bool) -> _Answer:
        """Send the request until there is an answer with status 2xx."""
        retries = Retries(total_s=self.retry_s)
        while True:
            named_s = None
            problem: ClientError
            cause: Exception | None = None
            try:
                answer = self._attempt(request, is_read=is_read)
            except (OSError, HTTPException) as error:
                # A server that never answered has probably another address.
                is_sent = not isinstance(error, NotSentError)
                is_again = request.repeatable if is_sent else self._has_answered
                is_again &= not isinstance(error, TooLongError)
                problem, cause = self._no_answer(error), error
            else:
                self._has_answered = True
                if answer.exchange.is_successful:
                    return answer
                status = answer.exchange.response.status
                answer.exchange.close()
                problem = self._refusal(status, answer.content)
                is_again = status == HTTPStatus.TOO_MANY_REQUESTS or (request.repeatable and status in _UNCERTAIN)
                named_s = retry_after_s(answer.exchange.response.headers)
            if not is_again or not retries.wait(named_s):
                raise problem from cause

    def _attempt(self, request: _Request, *, is_read: bool) -> _Answer:
        """Send the request once, and return the answer, whatever its status; read unless the caller reads it."""
        exchange = self._http.send(
            request.method,
            request.path,
            headers=self._headers(request),
            body=request.body,
            repeatable=request.repeatable,
        )
        with ExitStack() as if_broken_off:
            if_broken_off.callback(exchange.close)
            if self._cookies is not None:
                self._cookies.extract_cookies(exchange.response, self._cookie_request(request.path))
            answer = _Answer(
                exchange, exchange.read(most_bytes=MAX_ANSWER_BYTES) if is_read or not exchange.is_successful else b""
            )
            if_broken_off.pop_all()
        return answer

    def _headers(self, request: _Request) -> dict[str, str]:
        headers = {"Accept": "application/json", **request.headers}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if self._cookies is not None:
            with_cookies = self._cookie_request(request.path)
            self._cookies.add_cookie_header(with_cookies)
            headers.update(with_cookies.header_items())
        return headers

    def _cookie_request(self, path: str) -> Request:
        # Imported here only: it takes 20 ms, and only a log-in has cookies.
        request: Request = import_module("urllib.request").Request(f"{self.url}{path}")
        return request

    def _no_answer(self, error: Exception) -> NotReachableError:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return NotReachableError(f"{self.url} does not answer ({reason}); try again, or check the address.")

    def other_program(self) -> NotReachableError:
        """Return the error for an answer that cannot be of a server of this system."""
        return NotReachableError(f"{self.url} is not a server of this system; check the address.")

    def _refusal(self, status: int, content: bytes) -> ServerRefusedError | NotReachableError:
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return NotReachableError(f"{self.url} failed (status {status}); try again later.")
        if status < HTTPStatus.BAD_REQUEST:
            return NotReachableError(f"{self.url} redirects (status {status}); give the address of the server itself.")
        body = self._record(content, expects=None)
        if not body.keys() & {"detail", "title"}:
            raise self.other_program()
        return ServerRefusedError(body, status=status)

    def _record(self, content: bytes, *, expects: str | None) -> Record:
        try:
            record = json.loads(content)
        except ValueError:
            record = None
        if not isinstance(record, dict) or (expects is not None and expects not in record):
            raise self.other_program()
        return record


def _with_query(path: str, query: Query | None) -> str:
    return f"{path}?{urlencode(query, doseq=True)}" if query else path


def _lines(response: HTTPResponse) -> Iterator[bytes]:
    """Yield the lines that are not empty, each as soon as it is there."""
    # NB: not readline(), for which an answer that breaks off between two chunks is at its end.
    length = response.headers.get("Content-Length")
    left = None if length is None else int(length)
    begun = b""
    while left != 0:
        try:
            received = response.read1(_LINES_BYTES)
        except (OSError, HTTPException) as error:
            raise NotReachableError(f"The answer ended early ({error}); try again.") from error
        if not received:
            break
        left = None if left is None else left - len(received)
        *whole, begun = (begun + received).split(b"\n")
        yield from filter(bytes.strip, whole)
    if left or begun.strip():
        raise NotReachableError("The answer ended early; try again.")
