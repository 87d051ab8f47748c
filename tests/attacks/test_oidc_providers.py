"""Providers of OpenID Connect that hold the server up, flood it, or send it elsewhere; and one in another's place."""

import gzip
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event

import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from pytest_django import Settings

from tests import oidc
from tests.factories import make_group
from tests.oidc import ScriptedProvider
from tests.pace import within
from tests.serving import LoopbackServer
from tests.storage import write_certificate
from wms.accounts.oidc import connection
from wms.accounts.oidc.configuration import OIDCProvider
from wms.accounts.oidc.connection import MAX_REQUESTS, MOST_BYTES, ProviderFailedError, discovered, forget_documents

#: The answer of a provider to any request.
Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def provider_that(answer: Answer, *, certificate: Path | None = None) -> Iterator[OIDCProvider]:
    """Run a provider, over TLS if it has a certificate."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    forget_documents()
    with LoopbackServer(Handler) as server:
        url = server.url
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server._http.socket = context.wrap_socket(server._http.socket, server_side=True)
            url = url.replace("http://", "https://")
        yield OIDCProvider(id="cern", name="CERN", issuer=url, client_id="wms")
    forget_documents()


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a certificate that this process trusts."""
    write_certificate(file := tmp_path / "provider.pem")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(file))
    return file


def document(handler: BaseHTTPRequestHandler, *, scheme: str = "http") -> bytes:
    return json.dumps({"issuer": f"{scheme}://{handler.headers['Host']}"}).encode()


@pytest.mark.parametrize("part", ["status line", "headers", "body"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_provider_that_drips_is_given_up(
    part: str, scheme: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte arrives within the time-out of the socket, and the whole answer would be right."""
    monkeypatch.setattr(connection, "LONGEST_S", 0.5)
    given_up = Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        content = document(handler, scheme=scheme)
        parts = [b"HTTP/1.0 200 OK\r\n", f"Content-Length: {len(content)}\r\n\r\n".encode(), content]
        names = ["status line", "headers", "body"]
        with suppress(OSError):  # who has given up closes the connection
            for name, words in zip(names, parts, strict=True):
                for byte in words:
                    handler.wfile.write(bytes([byte]))
                    if name == part:
                        given_up.wait(0.2)

    with provider_that(drip, certificate=certificate if scheme == "https" else None) as provider:
        with pytest.raises(ProviderFailedError):
            discovered(provider)
        given_up.set()
    assert connection._places._value == MAX_REQUESTS


def test_an_answer_over_tls_that_comes_in_time_is_read(certificate: Path) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n" + document(handler, scheme="https"))

    with provider_that(answer, certificate=certificate) as provider:
        assert discovered(provider)["issuer"] == provider.issuer


def test_an_endless_answer_is_not_read() -> None:
    sent, over = [0], Event()

    def flood(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
        try:
            while sent[0] < 64 * MOST_BYTES:
                sent[0] += handler.wfile.write(b"x" * MOST_BYTES)
        except OSError:
            pass
        finally:
            over.set()

    with provider_that(flood) as provider:
        with pytest.raises(ProviderFailedError):
            discovered(provider)
        assert over.wait(within(60))
    assert sent[0] < 32 * MOST_BYTES  # what buffers of the sockets hold comes to some megabytes


def test_a_compressed_answer_is_not_expanded() -> None:
    accepted: list[str] = []

    def bomb(handler: BaseHTTPRequestHandler) -> None:
        accepted.append(handler.headers["Accept-Encoding"])
        words = gzip.compress(document(handler))
        handler.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + words)

    with provider_that(bomb) as provider, pytest.raises(ProviderFailedError):
        discovered(provider)
    assert accepted == ["identity"]


def test_a_provider_sends_the_server_nowhere_else() -> None:
    visits: list[str] = []

    def internal(handler: BaseHTTPRequestHandler) -> None:
        visits.append(handler.path)
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n{}")

    with ExitStack() as stack:
        target = stack.enter_context(provider_that(internal))

        def redirect(handler: BaseHTTPRequestHandler) -> None:
            handler.wfile.write(f"HTTP/1.0 302 Found\r\nLocation: {target.issuer}/secret\r\n\r\n".encode())

        provider = stack.enter_context(provider_that(redirect))
        with pytest.raises(ProviderFailedError):
            discovered(provider)
    assert visits == []


# ---- one provider in the place of another ----------------------------------------------------------------------------


@pytest.fixture
def two(settings: Settings) -> Iterator[tuple[ScriptedProvider, ScriptedProvider]]:
    """Return an honest provider, ``cern``, and one of an attacker, ``evil``."""
    make_group(name="lhcb_user")
    with oidc.scripted_provider(settings) as honest, oidc.scripted_provider(settings) as evil:
        entries = json.loads(honest.setting()) | {"evil": json.loads(evil.setting(name="Evil"))[oidc.ID]}
        settings.WMS_OIDC_PROVIDERS = json.dumps(entries)
        yield honest, evil


@pytest.mark.django_db
@pytest.mark.parametrize("end_at", ["cern", "evil"])
def test_a_log_in_that_began_at_one_provider_does_not_end_at_another(
    end_at: str, two: tuple[ScriptedProvider, ScriptedProvider]
) -> None:
    """The attacker's provider sends the browser to the honest one, with what belongs to this log-in."""
    honest, evil = two
    browser = Client()
    begun = oidc.begin(browser, page="/accounts/oidc/evil/")
    back = oidc.back_from(begun.replace(evil.url, honest.url))
    assert browser.get(back.replace("/evil/", f"/{end_at}/"))["Location"] == "/accounts/login/"
    assert browser.get("/jobs/").status_code == 302
    assert not SocialAccount.objects.exists()
