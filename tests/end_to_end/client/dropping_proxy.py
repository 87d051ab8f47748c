"""A TCP proxy that breaks off connections at chosen bytes."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.pace import within


class Drop(NamedTuple):
    """The point at which one connection is broken off."""

    #: After this many bytes from the client; None: all pass.
    of_request: int | None
    #: After this many bytes from the server; 0: when the first is there. None: all pass.
    of_answer: int | None


PASS = Drop(None, None)


class DroppingProxy:
    """Connections to a server: the first ones are dropped as planned, those after them pass."""

    def __init__(self, server_url: str) -> None:
        parts = urlsplit(server_url)
        self._server = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._plan: list[Drop] = []
        self._threads: list[Thread] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def plan(self, drops: Sequence[Drop]) -> None:
        self._plan = list(drops)

    @property
    def is_used_up(self) -> bool:
        return not self._plan

    def serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            drop = self._plan.pop(0) if self._plan else PASS
            self._threads.append(Thread(target=self._pass_on, args=(client, drop)))
            self._threads[-1].start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _pass_on(self, client: socket.socket, drop: Drop) -> None:
        with client, socket.create_connection(self._server) as server:
            for end in (client, server):
                end.settimeout(within(60))
            back = Thread(target=_pump, args=(server, client, drop.of_answer))
            back.start()
            _pump(client, server, drop.of_request)
            back.join()


def _pump(source: socket.socket, target: socket.socket, at_most: int | None) -> None:
    """Copy bytes; at the limit, or at the end of the source, shut down both."""
    left = at_most
    with suppress(OSError):
        while True:
            received = source.recv(65536)
            if not received:
                break
            if left is None:
                target.sendall(received)
                continue
            target.sendall(received[:left])
            left = max(0, left - len(received))
            if left == 0:
                break
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def dropping_proxy(server_url: str) -> Iterator[DroppingProxy]:
    proxy = DroppingProxy(server_url)
    thread = Thread(target=proxy.serve)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()
