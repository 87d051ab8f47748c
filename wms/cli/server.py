"""Requests to the server: JSON in and out, without retries."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from http.cookiejar import CookieJar
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, HTTPRedirectHandler, OpenerDirector, Request, build_opener

from wms.cli.errors import NotReachableError, ServerRefusedError, WrongUsageError

#: Prefix of the addresses of the REST interface.
API = "/api/v1/"
#: Seconds; explaining a job among twenty thousand queues takes a few.
TIMEOUT_S = 60.0

Record = Mapping[str, Any]


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect: the token is only for the named server."""

    def redirect_request(self, *_arguments: object) -> None:
        """Return no other request."""


def checked_url(url: str) -> str:
    """Return the address of a server without a final slash.

    Raises:
        WrongUsageError: it is not a server's address.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.username or parts.query or parts.fragment:
        raise WrongUsageError(f'"{url}" is not an address of a server; give one such as https://wms.example.org.')
    return url.rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConnection:
    """A server and the token for it; empty: none yet.

    Args:
        url: its address.
        token: sent with each request.
        cookies: sent and received; None: no cookies.
    """

    url: str
    token: str = ""
    cookies: CookieJar | None = None

    def get(self, path: str, *, expects: str, query: Mapping[str, str] | None = None) -> Record:
        """Return the answer of the server.

        Args:
            path: below the server's address.
            expects: a name that a valid answer contains.
            query: the query parameters.

        Raises:
            ServerRefusedError: the server refuses the request.
            NotReachableError: it does not answer, or with an internal error.
        """
        return self._ask("GET", f"{path}?{urlencode(query)}" if query else path, expects=expects)

    def post(self, path: str, body: Record, *, expects: str) -> Record:
        """Send *body* and return the answer; as ``get``."""
        return self._ask("POST", path, json.dumps(body).encode(), expects=expects)

    def _ask(self, method: str, path: str, body: bytes | None = None, *, expects: str) -> Record:
        headers = {"Accept": "application/json", "User-Agent": "wms-cli"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        # The scheme is http or https, as checked by checked_url.
        request = Request(f"{self.url}{path}", data=body, headers=headers, method=method)  # noqa: S310 - http(s) only
        try:
            with self._opener().open(request, timeout=TIMEOUT_S) as answer:
                return self._record(answer.read(), expects=expects)
        except HTTPError as error:
            with error:
                raise self._refusal(error.code, error.read()) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise NotReachableError(
                f"{self.url} does not answer ({reason}); try again, or check the address."
            ) from error

    def _opener(self) -> OpenerDirector:
        if self.cookies is None:
            return build_opener(_NoRedirects)
        return build_opener(_NoRedirects, HTTPCookieProcessor(self.cookies))

    def _refusal(self, status: int, content: bytes) -> ServerRefusedError | NotReachableError:
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return NotReachableError(f"{self.url} failed (status {status}); try again later.")
        if status < HTTPStatus.BAD_REQUEST:
            return NotReachableError(f"{self.url} redirects (status {status}); give the address of the server itself.")
        return ServerRefusedError(self._record(content, expects="detail"))

    def _record(self, content: bytes, *, expects: str) -> Record:
        try:
            record = json.loads(content)
        except ValueError:
            record = None
        if not isinstance(record, dict) or expects not in record:
            raise NotReachableError(f"{self.url} is not a server of this system; check the address.")
        return record
