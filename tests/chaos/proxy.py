"""The proxy between all clients and the server, which drops, halves, doubles and delays exchanges."""

import http.client
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Event, Lock, Thread
from typing import ClassVar, NamedTuple

from tests.chaos.figures import Figures
from tests.chaos.ledger import Ledger
from tests.serving import LoopbackServer

#: Seconds for which an answer is waited for; hung parts take less.
_PATIENCE_S = 40.0
_LONGEST_DELAY_S = 4.0
#: A repetition that comes late, when the state may have changed.
_LATEST_REPETITION_S = 30.0
#: Headers that belong to one connection.
_OF_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"})
LOST_REQUEST, LOST_ANSWER = "request lost", "answer lost"
HALF_REQUEST, HALF_ANSWER = "request halved", "answer halved"
TWICE_AT_ONCE, TWICE_LATER, DELAYED = "request doubled, at once", "request doubled, later", "delayed"
FATES = (LOST_REQUEST, LOST_ANSWER, HALF_REQUEST, HALF_ANSWER, TWICE_AT_ONCE, TWICE_LATER, DELAYED)


class _Request(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class _Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class _Server(ThreadingHTTPServer):
    #: Connections that wait to be accepted, as of clients whose connections were cut all at once.
    request_queue_size = 128


class SpoilingProxy(LoopbackServer):
    """``with SpoilingProxy(…) as proxy``: listens at ``proxy.url``, and spoils a part of the exchanges.

    Args:
        server_port: of the server, on loopback.
        spoiled: probability that an exchange is spoiled.
    """

    kind = _Server

    def __init__(self, *, server_port: int, spoiled: float, seed: int, ledger: Ledger, figures: Figures) -> None:
        this = self

        class Handler(_Handler):
            proxy = this

        super().__init__(Handler)
        self.server_port = server_port
        self.spoiled = spoiled
        self._chance = Random(seed)
        self._ledger = ledger
        self._figures = figures
        self._lock = Lock()
        self._clients: set[socket.socket] = set()
        self._later: list[Thread] = []
        self._is_cut = False
        self._is_over = Event()

    def cut(self, *, for_s: float) -> None:
        """Break all connections of clients off, and refuse new ones for a while."""
        self._is_cut = True
        with self._lock:
            clients = list(self._clients)
        for client in clients:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        time.sleep(for_s)
        self._is_cut = False

    def join(self) -> None:
        """Wait for the repetitions on their way; no other is sent."""
        self._is_over.set()
        for thread in self._later:
            thread.join()

    def accepts(self, client: socket.socket) -> bool:
        """Note the connection of a client, unless all are cut."""
        with self._lock:
            self._clients.add(client)
        return not self._is_cut

    def forget(self, client: socket.socket) -> None:
        """Remove the connection of a client."""
        with self._lock:
            self._clients.discard(client)

    def fate(self) -> str | None:
        """Draw what happens to an exchange; None: nothing."""
        with self._lock:
            fate = self._chance.choice(FATES) if self._chance.random() < self.spoiled else None
        if fate is not None:
            self._figures.count(self._figures.spoiled, fate)
        return fate

    def repeat(self, request: _Request, *, latest_s: float) -> None:
        """Send the request once more, in a thread of its own."""
        pause_s = self._chance.uniform(0, latest_s)

        def later() -> None:
            if not self._is_over.wait(pause_s):
                self.forward(request)

        thread = Thread(target=later, daemon=True)
        self._later.append(thread)
        thread.start()

    def forward(self, request: _Request) -> _Answer | None:
        """Send the request to the server; None: it did not answer."""
        sent = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.server_port, timeout=_PATIENCE_S)
        try:
            connection.request(request.method, request.path, request.body or None, dict(request.headers))
            response = connection.getresponse()
            answer = _Answer(response.status, response.getheaders(), response.read())
        except (OSError, http.client.HTTPException):
            self._figures.exchanged(request.method, request.path, None)
            return None
        finally:
            connection.close()
        self._figures.exchanged(request.method, request.path, answer.status)
        self._ledger.answered(request.path, answer.status, answer.body, sent=sent, heard=time.monotonic())
        return answer

    def send_half(self, request: _Request) -> None:
        """Send the beginning of the request to the server, and close."""
        lines = [
            f"{request.method} {request.path} HTTP/1.1",
            *(f"{name}: {text}" for name, text in request.headers.items()),
        ]
        head = "\r\n".join([*lines, f"Content-Length: {len(request.body)}", "", ""]).encode("latin-1")
        whole = head + request.body
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self.server_port), timeout=_PATIENCE_S) as server,
        ):
            server.sendall(whole[: len(whole) // 2 if not request.body else len(head) + len(request.body) // 2])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    #: Of a connection that its client keeps open.
    timeout = 60.0
    proxy: ClassVar[SpoilingProxy]

    def setup(self) -> None:
        super().setup()
        self.close_connection = not self.proxy.accepts(self.connection)

    def handle(self) -> None:
        if self.close_connection:
            return
        with suppress(OSError):
            super().handle()

    def finish(self) -> None:
        self.proxy.forget(self.connection)
        with suppress(OSError):
            super().finish()

    def do_GET(self) -> None:
        """Pass the exchange on, or spoil it."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name: text for name, text in self.headers.items() if name.lower() not in _OF_CONNECTION}
        self._exchange(_Request(self.command, self.path, headers, body), self.proxy.fate())

    def do_POST(self) -> None:
        """Pass the exchange on, or spoil it."""
        self.do_GET()

    def _exchange(self, request: _Request, fate: str | None) -> None:
        if fate == LOST_REQUEST:
            return self._hang_up()
        if fate == HALF_REQUEST:
            self.proxy.send_half(request)
            return self._hang_up()
        if fate == DELAYED:
            time.sleep(_LONGEST_DELAY_S * Random().random())
        if fate in {TWICE_AT_ONCE, TWICE_LATER}:
            self.proxy.repeat(request, latest_s=0 if fate == TWICE_AT_ONCE else _LATEST_REPETITION_S)
        answer = self.proxy.forward(request)
        if answer is None or fate == LOST_ANSWER:
            return self._hang_up()
        return self._answer(answer, is_halved=fate == HALF_ANSWER)

    def _answer(self, answer: _Answer, *, is_halved: bool) -> None:
        self.send_response_only(answer.status)
        for name, text in answer.headers:
            if name.lower() not in _OF_CONNECTION:
                self.send_header(name, text)
        if answer.status not in {204, 304}:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body[: len(answer.body) // 2] if is_halved else answer.body)
        if is_halved:
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        """Write nothing."""
