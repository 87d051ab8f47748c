"""Addresses of storage elements: read over HTTP, with redirects and the user's own token."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from .connection import TIMEOUT_S, USER_AGENT
from .errors import NotReachableError, ServerRefusedError, WrongUsageError
from .wire.http import Exchange, HttpClient, NotSentError, UnsendableError
from .wire.storage import MAX_REDIRECTS, AddressError, AddressFlaw, answered, file_path_of

_TRY_LATER = frozenset({429, 500, 502, 503, 504})
_NOT_A_URL = "its address is not a URL"
_UNENCRYPTED = "it redirects to an address that is not encrypted, or not on the network"
_FLAWS: Mapping[AddressFlaw, str] = {
    AddressFlaw.NOT_A_URL: _NOT_A_URL,
    AddressFlaw.REDIRECTED_TO_NO_URL: _NOT_A_URL,
    AddressFlaw.REDIRECTED_UNENCRYPTED: _UNENCRYPTED,
    AddressFlaw.TOO_MANY_REDIRECTS: f"it redirects more than {MAX_REDIRECTS} times",
}


class UnreadableError(Exception):
    """One replica cannot be read, or is not the file of the catalogue; the text says why."""


@contextmanager
def opened(url: str, headers: Mapping[str, str], *, token: str, method: str = "GET") -> Iterator[HTTPResponse]:
    """Yield the answer of a storage element with status 2xx, after its redirects.

    The token is sent to the storage element itself only, and only encrypted.
    """
    common = {"Accept": "*/*", "Accept-Encoding": "identity", **headers}

    def send(parts: SplitResult, target: str, trusted: bool) -> Exchange:  # noqa: FBT001 - as answered() calls it
        sent = {**common, **({"Authorization": f"Bearer {token}"} if token and trusted else {})}
        address = f"{parts.scheme}://{parts.netloc}"
        http = HttpClient(address, user_agent=USER_AGENT, timeout_s=TIMEOUT_S)
        try:
            return http.send(method, target, headers=sent, repeatable=False)
        except NotSentError as error:
            if getattr(error.__cause__, "verify_message", ""):
                raise UnreadableError(
                    f"the certificate of {parts.netloc} is not trusted ({error}); SSL_CERT_DIR or SSL_CERT_FILE names "
                    "further authorities, such as SSL_CERT_DIR=/etc/grid-security/certificates"
                ) from error
            raise NotReachableError(f"{parts.netloc} cannot be reached ({error})") from error
        except UnsendableError:
            raise UnreadableError("its address, or the token, has characters that cannot be sent") from None
        except (OSError, HTTPException) as error:
            raise NotReachableError(f"{parts.netloc} does not answer ({error})") from error

    with _worded():
        exchange = answered(url, send)
    with closing(exchange):
        _refuse_error(exchange.response)
        yield exchange.response


@dataclass(frozen=True)
class SeenFile:
    """A file as a storage element has it; one that is written anew is another."""

    #: None: not told.
    size_bytes: int | None
    #: Of this content: the entity tag, or the time of the last change and, on this computer, the inode.
    version: tuple[str | int, ...]


def look(url: str, *, token: str) -> SeenFile | None:
    """Return the file at an address as it is now; None: its storage element has no such file.

    Raises:
        UnreadableError, ServerRefusedError, NotReachableError: it cannot be seen from here.
    """
    path = path_of(url)
    if path is not None:
        return _looked_at(path)
    try:
        with opened(url, {}, token=token, method="HEAD") as answer:
            length = answer.headers.get("Content-Length", "")
            version = answer.headers.get("ETag", ""), answer.headers.get("Last-Modified", "")
            return SeenFile(int(length) if length.isdecimal() else None, version)
    except ServerRefusedError as error:
        if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.GONE}:
            raise
    return None


def _looked_at(path: Path) -> SeenFile:
    try:
        status = path.lstat()
    except OSError as error:
        raise UnreadableError(f"{path} cannot be found on this computer ({error.strerror})") from error
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableError(f"{path} is not a file")
    return SeenFile(status.st_size, (status.st_dev, status.st_ino, status.st_mtime_ns))


def delete(url: str, *, token: str, seen: SeenFile) -> None:
    """Delete the file at an address, if it is still the one that was seen there.

    Raises:
        UnreadableError, ServerRefusedError, NotReachableError: it cannot be deleted from here, or is another one now.
    """
    now = look(url, token=token)
    if now is None:
        return
    if now != seen:
        raise UnreadableError("a new file has been stored there meanwhile")
    path = path_of(url)
    try:
        if path is not None:
            path.unlink(missing_ok=True)
            return
        etag = str(seen.version[0])
        headers = {"If-Match": etag} if etag.startswith('"') else {}
        with opened(url, headers, token=token, method="DELETE"):
            pass
    except OSError as error:
        raise UnreadableError(f"{path} cannot be deleted on this computer ({error.strerror})") from error


def path_of(url: str) -> Path | None:
    """Return the path of an address on this computer; None for another address."""
    with _worded():
        return file_path_of(url)


@contextmanager
def _worded() -> Iterator[None]:
    try:
        yield
    except AddressError as error:
        raise UnreadableError(_flaw(error)) from None


def _flaw(error: AddressError) -> str:
    if error.flaw is not AddressFlaw.WRONG_KIND:
        return _FLAWS[error.flaw]
    scheme = urlsplit(error.url).scheme
    if scheme == "file":  # of this computer: only a redirect leads here
        return _UNENCRYPTED
    return f"`wms` cannot read {scheme}:, only file:, http: and https:; its address is {error.url}"


def _refuse_error(response: HTTPResponse) -> None:
    if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
        return
    text = f"it answers {response.status} {response.reason}"
    if response.status in _TRY_LATER:
        raise NotReachableError(text)
    raise ServerRefusedError({"code": "storage_refused", "detail": text}, status=response.status)


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
