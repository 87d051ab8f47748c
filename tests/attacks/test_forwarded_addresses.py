"""Forged X-Forwarded-For headers, sent through a proxy, do not hide a client's address."""

from pathlib import Path

import pytest

from tests.attacks.web import HOST, answer_on, web
from wms.accounts.models import SecurityEvent

pytestmark = pytest.mark.django_db(transaction=True)

BODY = b'{"username": "nobody", "password": "guess"}'


def log_in(forwarded: bytes) -> bytes:
    """Return a request of a failing log-in; a proxy appends the client's address to X-Forwarded-For."""
    lines = (
        b"POST /api/v1/auth/token/ HTTP/1.1",
        b"Host: 127.0.0.1",
        b"Content-Type: application/json",
        b"X-Forwarded-For: " + forwarded,
        b"Content-Length: %d" % len(BODY),
    )
    return b"\r\n".join([*lines, b"", BODY])


def test_a_forged_forwarded_address_is_ignored(tmp_path: Path) -> None:
    with web(tmp_path, workers=1, WMS_TRUSTED_PROXIES=HOST) as server:
        for before in (b"", b"198.51.100.9, ", b"nonsense, ", b"\xff, ", b"\xc3\xa4, "):
            with server.send(log_in(before + b"192.0.2.7")) as opened:
                assert answer_on(opened)[0] in ({401} if before.isascii() else {400})
    assert set(SecurityEvent.objects.values_list("address", flat=True)) == {"192.0.2.7"}
