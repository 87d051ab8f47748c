"""Requests to the configured providers: discovery documents and keys, memoised, and posts.

Addresses come from the setting and from the discovery document that the issuer itself serves; none comes from a
request of a user.
"""

import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from io import BytesIO
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.auth import HTTPBasicAuth
from urllib3.exceptions import HTTPError

from wms.accounts.oidc.configuration import OIDCProvider
from wms.kernel.errors import UnavailableError

#: Seconds in which a provider must connect, and send each part of its answer: a thread of the web server waits.
TIMEOUT_S: Final = 5.0
#: Seconds until a request is given up although its parts arrive in time.
LONGEST_S: Final = 10.0
#: Of an answer: discovery documents and keys have some kilobytes, claims with hundreds of groups some tens.
MOST_BYTES: Final = 1_000_000
#: Requests to providers at a time, in each process: a slow one must leave one of the three threads for people (ADR 88).
MAX_REQUESTS: Final = 2
#: Seconds for which a discovery document and keys are used.
KEPT_S: Final = 600.0
#: Seconds after which keys are read again for a token of an unknown key: providers renew them at any time.
RENEWED_AFTER_S: Final = 30.0
_RETRY_AFTER_S: Final = 5
_places = threading.BoundedSemaphore(MAX_REQUESTS)


class ProviderFailedError(UnavailableError):
    """The provider does not answer, or not as OpenID Connect requires."""

    code = "provider_failed"


class ProviderSession(requests.Session):
    """A session whose requests are limited in number, time and size, and follow no redirect."""

    def __init__(self) -> None:
        super().__init__()
        self._adapter = _Adapter()
        self.mount("https://", self._adapter)
        self.mount("http://", self._adapter)

    # NB: allauth calls it with addresses of the discovery document, which ``discovered`` has checked.
    def request(self, method: str, url: str, **options: Any) -> requests.Response:  # type: ignore[override]  # noqa: ANN401 - dozens of options
        """Return the answer, whose body has been read.

        Raises:
            requests.RequestException: there is none, or it is too long, or did not arrive in time.
        """
        if not _places.acquire(blocking=False):
            raise requests.ConnectionError("too many requests to providers at a time")
        end = threading.Timer(LONGEST_S, self._adapter.cut)
        end.daemon = True
        end.start()
        try:
            # Not compressed, so that what is counted is what takes memory.
            headers = {**(options.pop("headers", None) or {}), "Accept-Encoding": "identity"}
            fixed = {"timeout": TIMEOUT_S, "allow_redirects": False, "stream": True, "headers": headers}
            with closing(super().request(method, url, **options | fixed)) as answer:
                body = answer.raw.read(MOST_BYTES + 1)
            if len(body) > MOST_BYTES:
                raise requests.ConnectionError("the answer is too long")
            answer.raw = BytesIO(body)
        except (HTTPError, ValueError) as error:  # a ValueError: the connection was cut
            raise requests.ConnectionError("the answer broke off") from error
        else:
            return answer
        finally:
            end.cancel()
            self._adapter.renew()
            _places.release()


class _Adapter(HTTPAdapter):
    """The transport of a session, which can be cut: a time-out of a socket is for each part of an answer only."""

    def __init__(self) -> None:
        super().__init__()
        #: Copies of the sockets, as TLS takes the first ones away.
        self._sockets: list[socket.socket] = []
        self._is_cut = False

    def get_connection_with_tls_context(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - those of requests
        """Return the connections to a host, each of which is noted."""
        pool: Any = super().get_connection_with_tls_context(*args, **options)
        make = type(pool).ConnectionCls

        def noted(**parts: Any) -> Any:  # noqa: ANN401 - likewise
            link: Any = make(**parts)
            connect = link._new_conn  # noqa: SLF001 - the only step between TCP and TLS

            def connected() -> socket.socket:
                opened: socket.socket = connect()
                self._sockets.append(opened.dup())
                if self._is_cut:
                    self.cut()
                return opened

            link._new_conn = connected  # noqa: SLF001
            return link

        pool.ConnectionCls = noted
        return pool

    def cut(self) -> None:
        """End what is under way and what begins later: whoever reads from a connection finds its end."""
        self._is_cut = True
        for each in self._sockets:
            with suppress(OSError):  # closed
                each.shutdown(socket.SHUT_RDWR)

    def renew(self) -> None:
        """Forget the connections, which have ended."""
        while self._sockets:
            self._sockets.pop().close()
        self._is_cut = False


@dataclass(slots=True)
class _Kept:
    """Documents of providers by address, with the times at which they were read."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    documents: dict[str, tuple[float, Mapping[str, object]]] = field(default_factory=dict)

    def get(self, url: str, read: Callable[[str], Mapping[str, object]], *, at_most_s: float) -> Mapping[str, object]:
        with self.lock:
            kept = self.documents.get(url)
        if kept is not None and time.monotonic() - kept[0] < at_most_s:
            return kept[1]
        document = read(url)
        with self.lock:
            self.documents[url] = (time.monotonic(), document)
        return document


_kept = _Kept()


def discovered(provider: OIDCProvider) -> Mapping[str, object]:
    """Return the discovery document of *provider*.

    Raises:
        ProviderFailedError: there is none, or it is of another issuer, or names an address in clear.
    """
    url = f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration"
    document = _kept.get(url, lambda url: _read(provider, url), at_most_s=KEPT_S)
    if document.get("issuer") != provider.issuer:
        raise _failed(provider, "its discovery document is of another issuer")
    return document


def endpoint(provider: OIDCProvider, name: str) -> str:
    """Return an address of *provider* by its name in the discovery document; empty: the provider has none.

    Raises:
        ProviderFailedError: as for ``discovered``.
    """
    address = discovered(provider).get(name, "")
    if not address:
        return ""
    schemes = {"https", "http"} if provider.has_plain_addresses else {"https"}
    if not isinstance(address, str) or urlsplit(address).scheme not in schemes:
        raise _failed(provider, f"its {name} is not an https:// address")
    return address


def keys_of(provider: OIDCProvider, *, again: bool = False) -> Mapping[str, object]:
    """Return the provider's keys, a JSON Web Key Set.

    Args:
        provider: whose.
        again: a key is missing; they are read again, but not more often than every RENEWED_AFTER_S.

    Raises:
        ProviderFailedError: it does not answer.
    """
    url = endpoint(provider, "jwks_uri")
    return _kept.get(url, lambda url: _read(provider, url), at_most_s=RENEWED_AFTER_S if again else KEPT_S)


def post(provider: OIDCProvider, name: str, fields: Mapping[str, str]) -> tuple[int, Mapping[str, object]]:
    """Send *fields* to an endpoint, authenticated as this client, and return status and answer.

    Raises:
        ProviderFailedError: it does not answer, or not in JSON.
    """
    is_basic = uses_basic_authentication(provider)
    auth = HTTPBasicAuth(provider.client_id, provider.client_secret) if is_basic else None
    secret = {} if is_basic or not provider.client_secret else {"client_secret": provider.client_secret}
    data = {"client_id": provider.client_id, **secret, **fields}
    return _answer(provider, "POST", endpoint(provider, name), data=data, auth=auth)


def userinfo(provider: OIDCProvider, access_token: str) -> Mapping[str, object]:
    """Return the claims of the userinfo endpoint; none if the provider has no such endpoint.

    Raises:
        ProviderFailedError: it does not answer, or refuses.
    """
    address = endpoint(provider, "userinfo_endpoint")
    if not address or not access_token:
        return {}
    status, claims = _answer(provider, "GET", address, headers={"Authorization": f"Bearer {access_token}"})
    if status != HTTPStatus.OK:
        raise _failed(provider, f"its userinfo endpoint answers {status}")
    return claims


def uses_basic_authentication(provider: OIDCProvider) -> bool:
    """Return whether the client authenticates by HTTP Basic: the standard's default, used where POST is not offered."""
    methods = discovered(provider).get("token_endpoint_auth_methods_supported")
    return bool(provider.client_secret) and not (isinstance(methods, list) and "client_secret_post" in methods)


def forget_documents() -> None:
    """Forget what was read; for tests, whose providers have addresses that others had before."""
    _kept.documents.clear()


def _read(provider: OIDCProvider, url: str) -> Mapping[str, object]:
    status, document = _answer(provider, "GET", url)
    if status != HTTPStatus.OK:
        raise _failed(provider, f"it answers {status}")
    return document


def _answer(
    provider: OIDCProvider,
    method: str,
    url: str,
    *,
    data: Mapping[str, str] | None = None,
    auth: HTTPBasicAuth | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Mapping[str, object]]:
    try:
        with ProviderSession() as session:
            answer = session.request(method, url, data=data, auth=auth, headers=headers)
        content = answer.json()
    except (requests.RequestException, ValueError) as error:
        raise _failed(provider, "it does not answer") from error
    if not isinstance(content, dict):
        raise _failed(provider, "its answer is not a JSON object")
    return answer.status_code, content


def _failed(provider: OIDCProvider, why: str) -> ProviderFailedError:
    return ProviderFailedError(
        f"The log-in by {provider.name} is not possible at present: {why}. Try again later.",
        retry_after_s=_RETRY_AFTER_S,
    )
