"""New connections to a server, through the proxy that the environment names for it."""

from __future__ import annotations

import os
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from importlib import import_module
from urllib.parse import SplitResult, urlsplit


class NotSentError(OSError):
    """There is no connection, so the request was not sent."""


class Dialer:
    """Opens connections to one server.

    Args:
        url: address of the server; its path is the beginning of every path.
        timeout_s: longest wait for the next byte.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self._server = urlsplit(url)
        self._timeout_s = timeout_s
        self._proxy = _proxy_of(self._server)
        #: Before the path in a request: a proxy of plain HTTP receives the whole address.
        self.prefix = url if self._proxy and self._server.scheme == "http" else self._server.path

    def open(self) -> HTTPConnection:
        """Return an open connection.

        Raises:
            NotSentError: there is none.
        """
        secure = self._server.scheme == "https"
        target = self._proxy or self._server
        kind = HTTPSConnection if secure else HTTPConnection
        # A proxy is asked for a tunnel to a server with https.
        port = target.port or (443 if target.scheme == "https" else 80)
        link = kind(target.hostname or "", port, timeout=self._timeout_s)
        if self._proxy and secure:
            link.set_tunnel(self._server.hostname or "", self._server.port or 443)
        try:
            link.connect()
        except (OSError, HTTPException) as error:
            link.close()
            raise NotSentError(getattr(error, "strerror", None) or str(error)) from error
        return link


def _proxy_of(server: SplitResult) -> SplitResult | None:
    """Return the address of the proxy, by the usual variables such as ``https_proxy`` and ``no_proxy``."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    # Imported here only: it takes 20 ms, and few have a proxy.
    requests = import_module("urllib.request")
    proxy = requests.getproxies_environment().get(server.scheme)
    if not proxy or requests.proxy_bypass_environment(server.netloc):
        return None
    return urlsplit(proxy if "//" in proxy else f"//{proxy}")
