"""Every refusal of a caller is in the security log, whichever view answered."""

import pytest
from django.test import Client

from tests.factories import make_token, make_user
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import SecurityEvent

pytestmark = pytest.mark.django_db


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize("token", ["wmsu_" + "x" * 43, "wmsp_a.b.c", "wmsj_a.b.c", "nothing"])
def test_an_invalid_token_is_recorded_without_its_text(client: Client, token: str) -> None:
    answer = client.get("/api/v1/auth/me/", headers=bearer(token))
    assert answer.status_code == 401
    (event,) = SecurityEvent.objects.all()
    assert (event.kind, event.actor_name, event.address, event.target, event.facts) == (
        SecurityEventKind.CREDENTIAL_REFUSED,
        "",
        "127.0.0.1",
        "GET /api/v1/auth/me/",
        {"code": "invalid_token"},
    )


def test_requests_without_credentials_are_not_recorded(client: Client) -> None:
    assert client.get("/api/v1/auth/me/").status_code == 401
    assert not SecurityEvent.objects.exists()


def test_forbidden_actions_are_recorded(client: Client) -> None:
    alice = make_user(username="alice")
    answer = client.post(
        "/api/v1/matches/preview/", data={}, content_type="application/json", headers=bearer(make_token(alice))
    )
    assert answer.status_code == 403
    (event,) = SecurityEvent.objects.all()
    assert (event.kind, event.actor, event.target) == (
        SecurityEventKind.ACCESS_REFUSED,
        alice,
        "POST /api/v1/matches/preview/",
    )


def test_a_refusal_inside_an_admin_transaction_is_recorded(client: Client) -> None:
    bob = make_user(username="bob", staff=True)
    client.force_login(bob)
    assert client.post("/admin/accounts/user/add/", data={"username": "eve"}).status_code == 403
    (event,) = SecurityEvent.objects.all()
    assert (event.kind, event.actor, event.target) == (
        SecurityEventKind.ACCESS_REFUSED,
        bob,
        "POST /admin/accounts/user/add/",
    )
