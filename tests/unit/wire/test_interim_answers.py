"""Interim answers (RFC 9110 §15.2) before the final one are skipped."""

import socket
from collections.abc import Iterator
from threading import Thread

import pytest

from wms.wire.http import HttpClient

ANSWER = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def sent() -> Iterator[list[bytes]]:
    """Return what a server on loopback sends to each connection; its address is in the last element."""
    parts: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        parts.append(f"http://127.0.0.1:{listening.getsockname()[1]}".encode())

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                for part in parts[:-1]:
                    connection.sendall(part)

        thread = Thread(target=serve)
        thread.start()
        yield parts
        thread.join()


@pytest.mark.parametrize(
    "interim",
    [
        [b"HTTP/1.1 102 Processing\r\n\r\n"],
        [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"],
        [b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"],
        [],
    ],
)
def test_the_final_answer_is_returned(sent: list[bytes], interim: list[bytes]) -> None:
    address = sent[-1].decode()
    sent[:0] = [*interim, ANSWER]
    exchange = HttpClient(address, user_agent="test", timeout_s=20).send("GET", "/", headers={}, repeatable=False)
    assert (exchange.response.status, exchange.read()) == (201, b"ok")
    exchange.close()
