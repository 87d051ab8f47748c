"""Servers that tests start in their own process."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar, Self


class LoopbackServer:
    """A server in this process; within ``with`` it listens on a port of its own."""

    scheme: ClassVar[str] = "http"
    kind: ClassVar[type[ThreadingHTTPServer]] = ThreadingHTTPServer
    host: ClassVar[str] = "127.0.0.1"

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._http = self.kind((self.host, 0), handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self._http.server_port}"
