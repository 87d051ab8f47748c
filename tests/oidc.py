"""Providers of OpenID Connect on this machine: one that tests make misbehave, and a browser's way through a log-in."""

import base64
import hashlib
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from html import unescape
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
import requests
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from django.test import Client
from pytest_django import Settings

from tests.pace import wait_for, within
from tests.serving import LoopbackServer
from wms.accounts.models import User
from wms.accounts.oidc.connection import forget_documents
from wms.accounts.services import second_factors

CLIENT_ID: Final = "wms"
CLIENT_SECRET: Final = "not-a-secret-of-anybody"
SUBJECT: Final = "8f2c-alice"
ID: Final = "cern"
#: An ID token is signed by an algorithm without a key.
UNSIGNED: Final = "none"
_DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"


@cache
def private_key(name: str) -> RSAPrivateKey:
    """Return a key by name; making one takes a while."""
    return generate_private_key(public_exponent=65537, key_size=2048)


@dataclass(slots=True, kw_only=True)
class Grant:
    """A code that the provider has issued, and what was asked for."""

    subject: str
    nonce: str = ""
    challenge: str = ""
    redirect_uri: str = ""
    #: Of the device flow: "pending", "approved" or "denied".
    state: str = "approved"


@dataclass(slots=True, kw_only=True)
class ScriptedProvider:
    """A provider whose answers the test sets: it is a real server, which checks its client as the standard says."""

    url: str = ""
    #: Who logs in at its page.
    subject: str = SUBJECT
    claims: dict[str, Any] = field(default_factory=dict)
    #: Claims of the ID token, in place of the right ones; None leaves one out.
    id_token_claims: dict[str, Any] = field(default_factory=dict)
    algorithm: str = "RS256"
    key_name: str = "first"
    userinfo_subject: str = ""
    discovery: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    slow_down: bool = False
    grants: dict[str, Grant] = field(default_factory=dict)
    #: {user code: device code}.
    user_codes: dict[str, str] = field(default_factory=dict)
    access_tokens: dict[str, str] = field(default_factory=dict)
    #: (Method, path) of each request.
    requests: list[tuple[str, str]] = field(default_factory=list)

    def setting(self, **more: object) -> str:
        """Return WMS_OIDC_PROVIDERS with this provider."""
        entry = {
            "name": "CERN",
            "issuer": self.url,
            "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET,
            **more,
        }
        return json.dumps({ID: entry})

    def document(self) -> Mapping[str, Any]:
        """Return the discovery document."""
        endpoints = {
            "authorization_endpoint": "authorize",
            "token_endpoint": "token",
            "userinfo_endpoint": "userinfo",
            "jwks_uri": "keys",
            "device_authorization_endpoint": "device",
        }
        document = {"issuer": self.url, **{name: f"{self.url}/{path}" for name, path in endpoints.items()}}
        return document | self.discovery

    def keys(self) -> Mapping[str, Any]:
        """Return the public key that it publishes."""
        key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(private_key("first").public_key()))
        return {"keys": [{**key, "kid": "first", "use": "sig", "alg": "RS256"}]}

    def authorize(self, query: Mapping[str, str]) -> str:
        """Log the person in at once, and return the address to send the browser to."""
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        if self.error:
            answer = {"error": self.error, "state": query["state"]}
        else:
            code = secrets.token_urlsafe(16)
            self.grants[code] = Grant(
                subject=self.subject,
                nonce=query["nonce"],
                challenge=query["code_challenge"],
                redirect_uri=query["redirect_uri"],
            )
            answer = {"code": code, "state": query["state"]}
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def begin_device(self) -> Mapping[str, Any]:
        """Begin a device flow."""
        device_code, user_code = secrets.token_urlsafe(16), f"{secrets.token_hex(2)}-{secrets.token_hex(2)}".upper()
        self.grants[device_code] = Grant(subject=self.subject, state="pending")
        self.user_codes[user_code] = device_code
        page = f"{self.url}/activate"
        whole = f"{page}?user_code={user_code}"
        return {
            "device_code": device_code,
            "user_code": user_code,
            "verification_uri": page,
            "verification_uri_complete": whole,
            "expires_in": 600,
            "interval": 1,
        }

    def decide(self, user_code: str, *, state: str = "approved", subject: str = SUBJECT) -> None:
        """Confirm or refuse the log-in of a user code, as its person does in a browser."""
        grant = self.grants[self.user_codes[user_code]]
        grant.state, grant.subject = state, subject

    def token(self, form: Mapping[str, str], authorization: str) -> tuple[int, Mapping[str, Any]]:
        """Return status and answer of the token endpoint."""
        expected = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if authorization != f"Basic {expected}":
            return 401, {"error": "invalid_client"}
        is_device = form["grant_type"] == _DEVICE_GRANT
        code = form["device_code" if is_device else "code"]
        grant = self.grants.get(code)
        if grant is None:
            return 400, {"error": "invalid_grant"}
        if grant.state != "approved":
            pending = "slow_down" if self.slow_down else "authorization_pending"
            return 400, {"error": "access_denied" if grant.state == "denied" else pending}
        del self.grants[code]
        if not is_device and not self._is_right_client(form, grant):
            return 400, {"error": "invalid_grant"}
        access_token = secrets.token_urlsafe(16)
        self.access_tokens[access_token] = grant.subject
        id_token = self.id_token(grant.subject, nonce=grant.nonce)
        return 200, {"access_token": access_token, "token_type": "Bearer", "id_token": id_token, "expires_in": 300}

    def id_token(self, subject: str, *, nonce: str) -> str:
        """Return an ID token, with what the test has put into it."""
        now = int(time.time())
        claims = {"iss": self.url, "sub": subject, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": nonce}
        claims |= self.id_token_claims
        stated = {claim: value for claim, value in claims.items() if value is not None}
        headers = {"kid": "first"}
        if self.algorithm == UNSIGNED:
            return jwt.encode(stated, "", algorithm=UNSIGNED, headers=headers)
        if self.algorithm == "HS256":  # by what is public
            return jwt.encode(stated, json.dumps(self.keys()), algorithm="HS256", headers=headers)
        if self.algorithm == "ES256":  # by its header only
            token = jwt.encode(stated, private_key(self.key_name), algorithm="RS256", headers=headers)
            header = base64.urlsafe_b64encode(json.dumps({**headers, "alg": "ES256"}).encode()).rstrip(b"=").decode()
            return f"{header}.{token.partition('.')[2]}"
        return jwt.encode(stated, private_key(self.key_name), algorithm=self.algorithm, headers=headers)

    def userinfo(self, authorization: str) -> tuple[int, Mapping[str, Any]]:
        """Return status and claims of the userinfo endpoint."""
        subject = self.access_tokens.get(authorization.removeprefix("Bearer "))
        if subject is None:
            return 401, {"error": "invalid_token"}
        return 200, {**self.claims, "sub": self.userinfo_subject or subject}

    @staticmethod
    def _is_right_client(form: Mapping[str, str], grant: Grant) -> bool:
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        return challenge == grant.challenge and form.get("redirect_uri") == grant.redirect_uri


def _handler(provider: ScriptedProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            provider.requests.append(("GET", address.path))
            query = {name: values[0] for name, values in parse_qs(address.query).items()}
            match address.path:
                case "/.well-known/openid-configuration":
                    self._answer(200, provider.document())
                case "/keys":
                    self._answer(200, provider.keys())
                case "/userinfo":
                    self._answer(*provider.userinfo(self.headers.get("Authorization", "")))
                case "/authorize":
                    self.send_response(302)
                    self.send_header("Location", provider.authorize(query))
                    self.end_headers()
                case _:
                    self._answer(404, {})

        def do_POST(self) -> None:
            provider.requests.append(("POST", self.path))
            body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            if self.path == "/device":
                self._answer(200, provider.begin_device())
            else:
                self._answer(*provider.token(form, self.headers.get("Authorization", "")))

        def _answer(self, status: int, content: Mapping[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextmanager
def scripted_provider(settings: Settings, **setting: object) -> Iterator[ScriptedProvider]:
    """Run a provider, and configure it."""
    provider = ScriptedProvider()
    forget_documents()
    with LoopbackServer(_handler(provider)) as server:
        provider.url = server.url
        settings.WMS_OIDC_PROVIDERS = provider.setting(**setting)
        yield provider


@contextmanager
def mock_provider(settings: Settings, **setting: object) -> Iterator[str]:
    """Run oidc-provider-mock as a process, configure it, and yield its issuer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port), "--require-nonce"]
    environment = {**os.environ, "AUTHLIB_INSECURE_TRANSPORT": "1"}
    issuer = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        wait_for(lambda: _is_listening(port) or server.poll() is not None, 60.0)
        assert server.poll() is None
        forget_documents()
        settings.WMS_OIDC_PROVIDERS = ScriptedProvider(url=issuer).setting(**setting)
        yield issuer
        server.terminate()


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def address_in(page: bytes) -> str:
    """Return the provider's address in the page that sends the browser there."""
    found = re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', page.decode())
    assert found is not None, page.decode()
    return unescape(found[1])


def begin(browser: Client, *, next_url: str = "", page: str = f"/accounts/oidc/{ID}/") -> str:
    """Click on the provider's button, and return the address where the browser is sent."""
    response = browser.post(page, {"next": next_url})
    assert response.status_code == 200, response.headers
    return address_in(response.content)


def back_from(address: str) -> str:
    """Log in at the provider, and return the path and query to which it sends the browser back."""
    response = requests.get(address, allow_redirects=False, timeout=within(30))
    assert response.status_code == 302, response.text
    back = urlsplit(response.headers["Location"])
    return f"{back.path}?{back.query}"


def log_in_without_provider(browser: Client, user: User) -> None:
    """Log in as *user*, as if a provider had authenticated them just now."""
    browser.force_login(user)
    session = browser.session
    session[second_factors._LOGGED_IN_AT] = time.time()
    session.save()


def log_in(browser: Client, *, next_url: str = "") -> Any:
    """Log in by the provider, and return the last answer."""
    return browser.get(back_from(begin(browser, next_url=next_url)))
