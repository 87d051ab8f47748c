"""The addresses on which the web server may listen."""

import socket
from pathlib import Path

import pytest

from wms.stack.listening import Listener, PortTakenError, UnreachableAddressError


@pytest.mark.parametrize(
    ("text", "url", "options", "is_open"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000/", ["--host", "127.0.0.1", "--port", "8000"], False),
        ("::1", "http://[::1]:8000/", ["--host", "::1", "--port", "8000"], False),
        ("10.0.0.3", "http://10.0.0.3:8000/", ["--host", "10.0.0.3", "--port", "8000"], True),
        ("0.0.0.0", "http://127.0.0.1:8000/", ["--host", "0.0.0.0", "--port", "8000"], True),
        ("unix:/run/wms/web", "", ["--uds", "/run/wms/web", "--uds-permissions", "0o660"], False),
    ],
)
def test_listening_addresses_are_parsed(text: str, url: str, options: list[str], is_open: bool) -> None:
    listener = Listener.named(text, port=8000)
    assert (listener.url, listener.server_options, listener.is_open) == (url, options, is_open)


@pytest.mark.parametrize("text", ["", "localhost", "unix", "10.0.0.3:80"])
def test_an_invalid_listening_address_is_refused(text: str) -> None:
    with pytest.raises(UnreachableAddressError, match="is not an address to listen at"):
        Listener.named(text, port=8000)


def test_a_socket_in_use_is_refused_and_one_left_behind_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "web"
    listener = Listener.named(f"unix:{path}", port=8000)
    listener.check()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(PortTakenError, match="Another program listens at"):
            listener.check()
    listener.check()
    assert not path.exists()


@pytest.mark.parametrize("name", ["missing/web", "x" * 200])
def test_a_socket_that_cannot_be_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnreachableAddressError, match="cannot be a socket"):
        Listener.named(f"unix:{tmp_path / name}", port=8000).check()
