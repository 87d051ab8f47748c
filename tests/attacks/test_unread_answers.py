"""Clients that do not read their answers: their connections are closed, so that others remain free."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.attacks.web import HOST, Web, web
from tests.pace import wait_for, within

pytestmark = pytest.mark.django_db(transaction=True)

CONNECTIONS = 64
STYLE = "/static/portal/portal.css"
#: Of one connection; the answers are several times what the kernel takes off the server.
REQUESTS = 100
ASKED = f"GET {STYLE} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode() * REQUESTS


def connect(server: Web) -> socket.socket:
    """Return a connection with a small receive buffer, as over a slow network."""
    opened = socket.socket()
    opened.settimeout(within(60))
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    opened.connect((HOST, server.port))
    return opened


def connections(server: Web) -> int:
    """Return the number of connections of the server."""
    return sum(
        each.status == "ESTABLISHED" and each.laddr.port == server.port
        for worker in server.workers()
        for each in worker.net_connections("tcp")
    )


@contextmanager
def unread(server: Web) -> Iterator[list[socket.socket]]:
    """Send many requests on many connections without reading the answers."""
    opened = [connect(server) for _ in range(CONNECTIONS)]
    try:
        for each in opened:
            each.sendall(ASKED)
        yield opened
    finally:
        for each in opened:
            each.close()


def test_connections_of_clients_that_read_nothing_are_closed(tmp_path: Path) -> None:
    with web(tmp_path, workers=1, WMS_WEB_BODY_S="2", WMS_WEB_HEAD_S="1") as server, unread(server):
        wait_for(lambda: connections(server) == 0, 60, state=lambda: f"{connections(server)} connections")
        assert server.ask("GET", "/healthz")[0] == 200


def test_connections_of_very_slow_readers_are_closed(tmp_path: Path) -> None:
    over = Event()
    with web(tmp_path, workers=1, WMS_WEB_BODY_S="2", WMS_WEB_HEAD_S="1") as server, unread(server) as opened:

        def drip() -> None:
            left = list(opened)
            while left and not over.wait(0.2):
                for each in list(left):
                    try:
                        each.recv(16)
                    except OSError:
                        left.remove(each)

        dripper = Thread(target=drip)
        dripper.start()
        try:
            wait_for(lambda: connections(server) == 0, 120, state=lambda: f"{connections(server)} connections")
        finally:
            over.set()
            dripper.join()


def test_a_slow_but_steady_reader_gets_the_whole_answer(tmp_path: Path) -> None:
    """The time for one answer is over several times; what has come of it counts."""
    with (
        web(tmp_path, workers=1, WMS_WEB_BODY_S="1", WMS_WEB_BODY_BYTES_PER_S="1024") as server,
        connect(server) as opened,
    ):
        opened.sendall(ASKED)
        received, pause = 0, Event()
        while received < 400_000:
            piece = opened.recv(4096)
            assert piece, f"it ended after {received} bytes"
            received += len(piece)
            pause.wait(0.05)
