"""Addresses of storage elements: read over HTTP, with redirects and the user's own token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, InvalidURL
from pathlib import Path
from urllib.parse import SplitResult, urljoin, urlsplit

from .connection import TIMEOUT_S
from .dialing import Dialer
from .errors import NotReachableError, ServerRefusedError, WrongUsageError
from .wire.version import __version__

#: Redirects that are followed: storage elements redirect to the machine that has the file.
_MAX_REDIRECTS = 5
_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TRY_LATER = frozenset({429, 500, 502, 503, 504})


class UnreadableError(Exception):
    """One replica cannot be read, or is not the file of the catalogue; the text says why."""


@contextmanager
def opened(url: str, headers: Mapping[str, str], *, token: str) -> Iterator[HTTPResponse]:
    """Yield the answer of a storage element with status 2xx, after its redirects.

    The token is sent to the storage element itself only, and only encrypted.
    """
    first = split_address(url)
    for _ in range(_MAX_REDIRECTS + 1):
        parts = split_address(url)
        trusted = parts.scheme == "https" and _origin(parts) == _origin(first)
        sent = {"User-Agent": f"wms-client/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity", **headers}
        dialer = Dialer(f"{parts.scheme}://{parts.netloc}", timeout_s=TIMEOUT_S)
        try:
            link = dialer.open()
        except OSError as error:
            if getattr(error.__cause__, "verify_message", ""):
                raise UnreadableError(
                    f"the certificate of {parts.netloc} is not trusted ({error}); SSL_CERT_DIR or SSL_CERT_FILE names "
                    "further authorities, such as SSL_CERT_DIR=/etc/grid-security/certificates"
                ) from error
            raise NotReachableError(f"{parts.netloc} cannot be reached ({error})") from error
        try:
            path = parts.path + (f"?{parts.query}" if parts.query else "")
            try:
                link.request(
                    "GET",
                    dialer.prefix + path,
                    headers={**sent, **({"Authorization": f"Bearer {token}"} if token and trusted else {})},
                )
                response = link.getresponse()
            except (InvalidURL, ValueError):
                # NB: without the error's own text, which has what cannot be sent, perhaps the token.
                raise UnreadableError("its address, or the token, has characters that cannot be sent") from None
            except (OSError, HTTPException) as error:
                raise NotReachableError(f"{parts.netloc} does not answer ({error})") from error
            location = response.headers.get("Location", "")
            if response.status not in _REDIRECTS or not location:
                _refuse_error(response)
                yield response
                return
        finally:
            link.close()
        url = urljoin(url, location)
        if split_address(url).scheme not in {"https", parts.scheme}:
            raise UnreadableError("it redirects to an address that is not encrypted, or not on the network")
    raise UnreadableError(f"it redirects more than {_MAX_REDIRECTS} times")


def _refuse_error(response: HTTPResponse) -> None:
    if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
        return
    text = f"it answers {response.status} {response.reason}"
    if response.status in _TRY_LATER:
        raise NotReachableError(text)
    raise ServerRefusedError({"code": "storage_refused", "detail": text}, status=response.status)


def split_address(url: str) -> SplitResult:
    """Return the parts of an address that can be read."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # parsed only now
    except ValueError:
        raise UnreadableError("its address is not a URL") from None
    if url and parts.scheme != "file" and not (parts.scheme in _PORTS and parts.hostname):
        raise UnreadableError(f"`wms` cannot read {parts.scheme}:, only file:, http: and https:; its address is {url}")
    return parts


def _origin(parts: SplitResult) -> tuple[str | None, int | None]:
    return parts.hostname, parts.port or _PORTS.get(parts.scheme)


def token_in(environment: Mapping[str, str]) -> str:
    """Return the user's token for storage elements, by the variables of WLCG; empty: none.

    Raises:
        WrongUsageError: its file cannot be read.
    """
    if token := environment.get("BEARER_TOKEN", "").strip():
        return token
    file = environment.get("BEARER_TOKEN_FILE", "")
    if not file:
        return ""
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise WrongUsageError(f"{file}, named by BEARER_TOKEN_FILE, cannot be read; correct or unset it.") from error
