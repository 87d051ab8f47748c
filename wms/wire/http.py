"""The HTTP client of all programs: connections to one server, requests, and bodies of answers.

Each program words the errors for its users.
"""

from __future__ import annotations

import os
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from email.utils import parsedate_to_datetime
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPMessage,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
    InvalidURL,
)
from importlib import import_module
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

if TYPE_CHECKING:
    from ssl import SSLContext

CHUNK_BYTES = 64 * 1024
PORTS = {"http": 80, "https": 443}
_PROXY_AUTHENTICATION_REQUIRED = 407
#: Beginning of the text of http.client's error for an answer to CONNECT.
_TUNNEL_FAILED = "Tunnel connection failed: "
_EXAMPLE = "http://proxy.example.org:3128"

#: Makes the body of a request, in parts, anew for each attempt.
Body = Callable[[], Iterable[bytes]]


class NotSentError(OSError):
    """There is no connection, so the request was not sent; its cause is the error of the network."""


class ProxyError(NotSentError):
    """The proxy of the environment refuses, does not answer, or is of the wrong kind; the text names it."""


class UnsendableError(InvalidURL, ValueError):
    """The path or a header has characters that cannot be sent; without a cause, whose text may contain the token."""


class TooLongError(HTTPException):
    """The answer has more bytes than the caller reads; another attempt would get the same."""


class HttpClient:
    """An HTTP client of one server, which uses its connections again. Several threads may use it at once.

    It follows no redirect: token and body are only for this server. It uses the proxy that the environment names, for
    https through CONNECT (ADR 74). NB: before Python 3.12, http.client cannot name an IPv6 address in CONNECT.

    Args:
        url: address of the server; its path is the beginning of every path.
        user_agent: name of the program.
        timeout_s: longest wait for the next byte.
        tls: certificates to trust; None: those of the system.
    """

    def __init__(self, url: str, *, user_agent: str, timeout_s: float, tls: SSLContext | None = None) -> None:
        # Connections that are open and not in use. Append and pop are atomic; a process after a fork has its own.
        self._idle: list[HTTPConnection] = []
        self._process = os.getpid()
        self._server = urlsplit(url)
        self._timeout_s = timeout_s
        self._tls = tls
        self._proxy = _proxy_of(self._server)
        # A proxy of plain HTTP receives the whole address, and credentials with each request.
        self._plain_proxy = self._proxy if self._server.scheme == "http" else None
        self._prefix = (url if self._plain_proxy else self._server.path).rstrip("/")
        self._headers = {"User-Agent": user_agent, **(self._plain_proxy.headers if self._plain_proxy else {})}

    def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: Body | None = None,
        timeout_s: float | None = None,
        repeatable: bool = True,
    ) -> Exchange:
        """Send a request, and return its answer, whatever the status; the body is not read yet.

        Args:
            method: such as GET.
            path: below the address of the server, with its query.
            headers: with the length of the body.
            body: None: none.
            timeout_s: None: that of the client.
            repeatable: whether a repeated request does nothing more. Such a request may use a connection that was used
                before; if the server has closed that one, it is sent again.

        Raises:
            NotSentError: there is no connection.
            UnsendableError: it cannot be written as HTTP.
            OSError, HTTPException: there is no answer.
        """
        message = (method, self._prefix + path, {**self._headers, **headers}, body)
        timeout_s = timeout_s or self._timeout_s
        link = self._idle_one() if repeatable else None
        if link is not None:
            with suppress(ConnectionError, HTTPException):
                link.sock.settimeout(timeout_s)
                return self._sent(link, *message)
        return self._sent(self._opened(timeout_s), *message)

    def release(self, exchange: Exchange) -> None:
        """Keep the connection of an answer that was read whole, else close it."""
        link = exchange.link
        # NB: http.client also closes an answer that broke off.
        is_whole = exchange.response.isclosed() and not exchange.response.length
        if is_whole and link.sock is not None and self._process == os.getpid():
            self._idle.append(link)
        else:
            link.close()

    def close(self) -> None:
        """Close the connections that are open and not in use; a later request opens another."""
        with suppress(IndexError):  # also if another thread takes the last one
            while True:
                self._idle.pop().close()

    def __del__(self) -> None:
        self.close()

    def _idle_one(self) -> HTTPConnection | None:
        if self._process != os.getpid():
            self._idle, self._process = [], os.getpid()
        with suppress(IndexError):
            return self._idle.pop()
        return None

    def _opened(self, timeout_s: float) -> HTTPConnection:
        server, proxy = self._server, self._proxy
        if proxy and proxy.flaw:
            raise ProxyError(proxy.flaw)
        # NB: http.client would take the end of an IPv6 address for a port if none were given.
        address = (proxy.host, proxy.port) if proxy else (server.hostname or "", _port_of(server))
        if server.scheme == "https":
            # Kept, and shared with forks: it takes a megabyte.
            self._tls = self._tls or import_module("ssl").create_default_context()
            link: HTTPConnection = HTTPSConnection(*address, timeout=timeout_s, context=self._tls)
            if proxy:
                link.set_tunnel(server.hostname or "", _port_of(server), proxy.headers)
        else:
            link = HTTPConnection(*address, timeout=timeout_s)
        link.response_class = _FinalAnswer
        try:
            link.connect()
        except (OSError, HTTPException) as error:
            link.close()
            # An error of TLS is the server's, reached through the proxy.
            if proxy and not hasattr(error, "library"):
                raise proxy.error_of(error) from None
            raise NotSentError(getattr(error, "strerror", None) or str(error)) from error
        except ValueError:  # a name of a host that DNS cannot have
            link.close()
            raise UnsendableError("it is not the name of a host") from None
        return link

    def _sent(
        self, link: HTTPConnection, method: str, target: str, headers: Mapping[str, str], body: Body | None
    ) -> Exchange:
        with ExitStack() as undo:
            undo.callback(link.close)
            try:
                # A server that refuses a large body answers, and does not read the rest.
                with suppress(BrokenPipeError, ConnectionResetError):
                    link.request(method, target, body=None if body is None else body(), headers=dict(headers))
                exchange = Exchange(self, link, link.getresponse())
            except OSError:  # some are also a ValueError
                raise
            except (InvalidURL, ValueError):
                raise UnsendableError("it has characters that cannot be sent") from None
            if self._plain_proxy and exchange.response.status == _PROXY_AUTHENTICATION_REQUIRED:
                exchange.response.close()  # the connection has no socket to close once the answer is its last
                raise self._plain_proxy.refusal(f"{exchange.response.status} {exchange.response.reason}")
            undo.pop_all()
        return exchange


class _FinalAnswer(HTTPResponse):
    """An answer without the interim ones before it (RFC 9110 §15.2), of which http.client skips only 100."""

    def begin(self) -> None:
        super().begin()
        while 101 < self.status < 200:
            vars(self).update(headers=None)  # so that the next one is read
            super().begin()


class Exchange:
    """A request that was answered; the caller reads the body, and closes."""

    def __init__(self, client: HttpClient, link: HTTPConnection, response: HTTPResponse) -> None:
        self._client = client
        #: Its connection.
        self.link = link
        #: Its answer.
        self.response = response

    @property
    def is_successful(self) -> bool:
        """Whether the status is 2xx."""
        return self.response.status in range(200, 300)

    def read(self, *, most_bytes: int | None = None) -> bytes:
        """Return the whole body.

        Raises:
            OSError, HTTPException: it did not arrive.
            TooLongError: it has more than *most_bytes*.
        """
        has_end = self.response.length is not None or self.response.chunked
        # In chunks: Python 3.9 allocates the size that is requested, not the size of the body.
        body = bytearray()
        for chunk in self.chunks():
            body += chunk
            if most_bytes is not None and len(body) > most_bytes:
                raise TooLongError(f"more than {most_bytes:,} bytes")
        if self.is_successful and not body and not has_end:
            # Headers that break off look like headers without a length.
            raise IncompleteRead(b"")
        return bytes(body)

    def chunks(self) -> Iterator[bytes]:
        """Yield the body in parts.

        Raises:
            OSError, HTTPException: it did not arrive.
        """
        while chunk := self.response.read(CHUNK_BYTES):
            yield chunk
        # NB: http.client takes the end of the connection for the end of the body.
        if self.response.length:
            raise IncompleteRead(b"", self.response.length)

    def close(self) -> None:
        """Return the connection to the client."""
        self._client.release(self)


def is_server_address(url: str) -> bool:
    """Return whether this is the address of a server: with a host, perhaps with a path, and without credentials."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in PORTS and parts.hostname and parts.port != 0
    except ValueError:
        return False
    return bool(is_address and not (parts.username or parts.query or parts.fragment))


def is_in_clear(url: str) -> bool:
    """Return whether what is sent to this address crosses a network unencrypted: ``http://``, not to this machine."""
    parts = urlsplit(url)
    return parts.scheme == "http" and not _is_loopback(parts.hostname or "")


def in_clear(url: str) -> str:
    """Return the sentence with which a program refuses to send a credential unencrypted."""
    return (
        f"{url} is not encrypted: everybody on the way could read your password or token. Give an https:// address, or "
        "add --insecure if you trust this network."
    )


def _is_loopback(host: str) -> bool:
    try:
        return host in {"localhost", "localhost.localdomain"} or ip_address(host).is_loopback
    except ValueError:
        return False


def is_direct(host: str, port: int, no_proxy: str) -> bool:
    """Return whether a host is reached without a proxy: a loopback address, or one of *no_proxy*.

    That lists, with commas or blanks between, names (also of all hosts below them), addresses, networks such as
    ``10.0.0.0/8``, each perhaps with a port, or ``*``.
    """
    try:
        address = ip_address(host)
    except ValueError:
        address = None
    if _is_loopback(host):
        return True
    for entry in no_proxy.lower().replace(",", " ").split():
        name = entry.removesuffix(f":{port}") if entry.count(":") == 1 or "]:" in entry else entry
        name = name.strip("[]").lstrip("*").strip(".")
        if entry == "*" or (name and not address and f".{host}".endswith(f".{name}")):
            return True
        with suppress(ValueError):
            if address and address in ip_network(name, strict=False):
                return True
    return False


def retry_after_s(headers: HTTPMessage) -> float | None:
    """Return the seconds of Retry-After, which may be a date of HTTP; None: not given."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError, IndexError):  # no date; Python 3.9 raises the others
        return None


class _Proxy(NamedTuple):
    """The proxy of a server."""

    #: The environment variable that names it.
    variable: str
    #: Its address without user and password.
    name: str = ""
    host: str = ""
    port: int = 0
    #: The header with user and password; empty: it has none.
    credentials: str = ""
    #: Why it cannot be used; empty: it can.
    flaw: str = ""

    @property
    def headers(self) -> dict[str, str]:
        return {"Proxy-Authorization": self.credentials} if self.credentials else {}

    def refusal(self, answer: str) -> ProxyError:
        """Return the error for its own *answer*, such as ``403 Forbidden``."""
        remedy = ""
        if answer.startswith((str(_PROXY_AUTHENTICATION_REQUIRED), "401")):  # tinyproxy's, after a wrong password
            remedy = f": give {'the right' if self.credentials else 'a'} user and password in {self.variable}"
        return ProxyError(f"the proxy {self.name} refuses ({answer}){remedy}")

    def error_of(self, error: Exception) -> ProxyError:
        """Return the error for a connection that failed."""
        text = getattr(error, "strerror", None) or str(error)
        _, is_answer, answer = text.partition(_TUNNEL_FAILED)
        return self.refusal(answer) if is_answer else ProxyError(f"no connection through the proxy {self.name}: {text}")


def proxy_name(url: str) -> str:
    """Return the address of the proxy for *url*, without user and password; empty: there is none."""
    proxy = _proxy_of(urlsplit(url))
    return "" if proxy is None else proxy.name


def _proxy_of(server: SplitResult) -> _Proxy | None:
    """Return the proxy by the variables ``https_proxy`` or ``http_proxy``, ``all_proxy`` and ``no_proxy``."""
    for variable in (f"{server.scheme}_proxy", "all_proxy"):
        if address := _from_environment(variable):
            break
    else:
        return None
    if is_direct((server.hostname or "").rstrip("."), _port_of(server), _from_environment("no_proxy")):
        return None
    try:
        parts = urlsplit(address if "//" in address else f"//{address}")
        host, port = parts.hostname, parts.port or PORTS.get(parts.scheme, PORTS["http"])
    except ValueError:
        host = None
    # An "@" elsewhere is that of a password with a slash, which belongs into no message.
    if not host or "@" in f"{parts.path}{parts.query}{parts.fragment}":
        return _Proxy(variable, flaw=f"{variable} is not the address of a proxy; give one as {_EXAMPLE}")
    name = f"{parts.scheme or 'http'}://{parts.netloc.rpartition('@')[2]}"
    # https:// is a frequent mistake for http://, and read as such, also by other programs.
    if parts.scheme not in {"", *PORTS}:
        return _Proxy(variable, flaw=f"the proxy {name} of {variable} cannot be used; give one as {_EXAMPLE}")
    return _Proxy(variable, name, host, port, _credentials_of(parts))


def _from_environment(variable: str) -> str:
    """Return the value; a variable in small letters, even an empty one, hides the one in capitals."""
    return os.environ.get(variable, os.environ.get(variable.upper(), "")).strip()


def _port_of(parts: SplitResult) -> int:
    return parts.port or PORTS.get(parts.scheme, PORTS["http"])


def _credentials_of(proxy: SplitResult) -> str:
    if proxy.username is None:
        return ""
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode("utf-8", "surrogateescape")
    return f"Basic {b64encode(pair).decode()}"
