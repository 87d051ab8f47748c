"""An HTTP client of low cost: one thread, keep-alive connections, requests prepared as bytes.

Askers share the connections: each sends a request when it is due, and its answer sets the time of the next.
"""

import heapq
import re
import selectors
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from time import perf_counter
from typing import Final

_HEAD_END: Final = b"\r\n\r\n"
_STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3})")
_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_RETRY_AFTER: Final = re.compile(rb"(?i)\r\nretry-after: *(\d+)")
_MOST_AT_ONCE: Final = 1 << 16


class BadAnswerError(Exception):
    """The connection ended without an HTTP answer, or with bytes that are not one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; ``latency_s`` counts from when the asker was due, including the wait for a connection."""

    status: int
    head: bytes
    body: bytes
    at_s: float
    latency_s: float

    @property
    def retry_after_s(self) -> float:
        """Seconds of the header Retry-After; 0 without one."""
        told = _RETRY_AFTER.search(self.head)
        return float(told[1]) if told else 0.0


@dataclass(slots=True)
class _Connection:
    """One connection, with the request in progress on it."""

    socket: socket.socket
    request: bytes = b""
    received: bytearray = field(default_factory=bytearray)
    asker: int = 0
    due_s: float = 0.0


def post(path: str, *, port: int, token: str, body: bytes) -> bytes:
    """Return a POST request of JSON as bytes."""
    return (
        b"POST %b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %b\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
    ) % (path.encode(), port, token.encode(), len(body), body)


class Client:
    """Askers that share connections.

    Args:
        port: of a server on this machine.
        connections: number of connections.
        ask: returns the request of an asker, by its number.
        hear: takes an asker's answer; returns the seconds until its next request, None: no further one.
    """

    def __init__(
        self,
        *,
        port: int,
        connections: int,
        ask: Callable[[int], bytes],
        hear: Callable[[int, Answer], float | None],
    ) -> None:
        self._ask, self._hear = ask, hear
        self._selector = selectors.DefaultSelector()
        #: In the order of their last use: a server closes those that it does not hear of for long.
        self._free: deque[_Connection] = deque()
        self._due: list[tuple[float, int, int]] = []
        self._order = count()
        self._port = port
        self._opened = connections
        for _ in range(connections):
            connection = _Connection(self._connected())
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)
            self._free.append(connection)

    def expect(self, asker: int, *, at_s: float) -> None:
        """Let the asker send a request at this moment."""
        heapq.heappush(self._due, (at_s, next(self._order), asker))

    def run(self, *, until_s: float, enough: Callable[[], bool] = lambda: False) -> None:
        """Send requests until this moment or until it is enough; then only take outstanding answers."""
        while (now := perf_counter()) < until_s and not enough():
            self._send(now)
            self._receive(timeout_s=max(0.0, self._next_due_s(until_s) - perf_counter()))
        while len(self._free) < self._opened:
            self._receive(timeout_s=30)

    def close(self) -> None:
        """Close the connections."""
        for connection in self._free:
            connection.socket.close()
        self._selector.close()

    def _connected(self) -> socket.socket:
        opened = socket.create_connection(("127.0.0.1", self._port), timeout=30)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened

    def _reopen(self, connection: _Connection) -> None:
        """Reopen a connection that the server has closed, and repeat the request that it may have missed."""
        if connection.received:
            raise BadAnswerError("The server closed a connection in the middle of an answer.")
        self._selector.unregister(connection.socket)
        connection.socket.close()
        connection.socket = self._connected()
        self._selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.socket.sendall(connection.request)

    def _next_due_s(self, until_s: float) -> float:
        return min(until_s, self._due[0][0]) if self._free and self._due else until_s

    def _send(self, now: float) -> None:
        while self._free and self._due and self._due[0][0] <= now:
            connection = self._free.popleft()
            connection.due_s, _, connection.asker = heapq.heappop(self._due)
            connection.request = self._ask(connection.asker)
            connection.socket.sendall(connection.request)

    def _receive(self, *, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            connection: _Connection = key.data
            received = connection.socket.recv(_MOST_AT_ONCE)
            if not received:
                self._reopen(connection)
                continue
            connection.received += received
            answer = _complete(connection)
            if answer is None:
                continue
            connection.request = b""
            self._free.append(connection)
            again_s = self._hear(connection.asker, answer)
            if again_s is not None:
                self.expect(connection.asker, at_s=answer.at_s + again_s)


def _complete(connection: _Connection) -> Answer | None:
    """Return the answer if all of it has come."""
    end = connection.received.find(_HEAD_END)
    if end < 0:
        return None
    head = bytes(connection.received[:end])
    status, length = _STATUS.match(head), _LENGTH.search(head)
    if status is None:
        raise BadAnswerError(f"This is no answer: {head[:100]!r}")
    body_end = end + len(_HEAD_END) + (int(length[1]) if length else 0)
    if len(connection.received) < body_end:
        return None
    body = bytes(connection.received[end + len(_HEAD_END) : body_end])
    del connection.received[:body_end]
    now = perf_counter()
    return Answer(int(status[1]), head, body, now, now - connection.due_s)
