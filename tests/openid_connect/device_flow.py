"""The device flow against an independent, certified provider (npm's oidc-provider).

Run by name (docs/testing.md): it needs node, and a directory with ``node_modules/oidc-provider``.
"""

import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

import pytest
import requests
from allauth.socialaccount.models import SocialAccount
from pytest_django import Settings
from rest_framework.test import APIClient

from tests.factories import make_group
from tests.oidc import CLIENT_ID, CLIENT_SECRET, ID
from tests.pace import within
from tests.programs import needed
from wms.accounts.models import Membership
from wms.accounts.oidc.connection import forget_documents

pytestmark = pytest.mark.django_db

SCRIPT: Final = Path(__file__).parent / "provider.mjs"
VARIABLE: Final = "WMS_TESTS_NODE"


@pytest.fixture
def issuer(settings: Settings) -> Iterator[str]:
    needed("node")
    directory = os.environ.get(VARIABLE)
    assert directory, f"set {VARIABLE} to a directory in which `npm install oidc-provider` was run"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["node", str(SCRIPT), directory, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        assert any(line.startswith("listening") for line in server.stdout), "the provider did not start"
        forget_documents()
        issuer = f"http://127.0.0.1:{port}"
        entry = {
            "name": "CERN",
            "issuer": issuer,
            "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET,
            "scopes": ["openid", "profile", "wlcg.groups"],
            "groups": {"wlcg.groups": {"/lhcb": ["lhcb_user"]}},
        }
        settings.WMS_OIDC_PROVIDERS = json.dumps({ID: entry})
        yield issuer
        server.terminate()


def submit(browser: requests.Session, page: requests.Response, **typed: str) -> requests.Response:
    """Send the first form of *page*, with what is typed, and return the next page."""
    form = re.search(r"<form[^>]*>.*?</form>", page.text, re.DOTALL)
    assert form is not None, page.text
    action = re.search(r'action="([^"]*)"', form[0])
    hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form[0])
    address = urljoin(page.url, unescape(action[1])) if action else page.url
    return browser.post(address, {name: unescape(value) for name, value in hidden} | typed, timeout=within(30))


def confirm(url: str, *, user: str) -> requests.Response:
    """Confirm the log-in as *user* does in a browser: the code, the log-in, and the consent."""
    browser = requests.Session()
    page = browser.get(url, timeout=within(30))
    for _ in range(6):
        if "Sign-in Success" in page.text:
            return page
        typed = {"login": user, "password": "any"} if 'name="login"' in page.text else {}
        page = submit(browser, page, **typed)
    return page


def ask(handle: str) -> Any:
    return APIClient().post(f"/api/v1/auth/oidc/{ID}/token/", {"handle": handle}, format="json")


def test_a_log_in_by_device_flow_at_a_certified_provider(issuer: str) -> None:
    make_group(name="lhcb_user")
    begun = APIClient().post(f"/api/v1/auth/oidc/{ID}/device/", {}, format="json").json()
    assert begun["verification_uri"] == f"{issuer}/device"
    pending = ask(begun["handle"])
    assert pending.status_code == 202, pending.content
    page = confirm(begun["verification_uri_complete"], user="alice")
    assert "Sign-in Success" in page.text, page.text
    answer = ask(begun["handle"])
    while answer.status_code == 202 and answer.json()["slow_down"]:  # our own interval, of a second
        answer = ask(begun["handle"])
    assert answer.status_code == 201, answer.content
    account = SocialAccount.objects.get(provider=issuer, uid="alice")
    assert account.user.username == "alice@cern"
    assert Membership.objects.get(user=account.user).group.name == "lhcb_user"
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {answer.json()['token']}")
    assert client.get("/api/v1/auth/me/").status_code == 200
