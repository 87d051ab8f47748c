"""Tokens over REST: named, scoped, dated, listed, revoked."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings
from rest_framework.test import APIClient

from tests.factories import make_token, make_user
from wms.accounts import queries, services
from wms.accounts.domain import LAST_USE_STEP, TokenScope
from wms.accounts.models import ApiToken, SecurityEvent, User

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery staple"


@pytest.fixture
def alice() -> User:
    return make_user(username="alice", password=PASSWORD)


def client_with(token: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def log_in(**others: object) -> Any:
    body = {"username": "alice", "password": PASSWORD, **others}
    return APIClient().post("/api/v1/auth/token/", body, format="json")


def test_a_log_in_without_scope_gives_a_token_for_everything(alice: User) -> None:
    assert log_in().status_code == 201
    token = ApiToken.objects.get()
    assert (token.scope, token.name, token.last_used_at) == ("manage", "", None)


def test_a_log_in_may_request_a_narrower_scope(alice: User) -> None:
    answer = log_in(scope="read", name="monitoring", days=1)
    assert answer.status_code == 201
    token = ApiToken.objects.get()
    assert (token.scope, token.name) == ("read", "monitoring")
    assert token.expires_at - token.created_at == timedelta(days=1)
    refused = client_with(answer.json()["token"]).post("/api/v1/jobs/", {"executable": "x"}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (403, "insufficient_scope")
    assert (
        refused.json()["detail"] == 'This token has the scope "read"; this request needs one with the scope "submit".'
    )


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"scope": "write"}, "scope"),
        ({"scope": ["read"]}, "scope"),
        ({"days": 0}, "days"),
        ({"days": 31}, "days"),
        ({"days": 2**62}, "days"),
        ({"days": "1"}, "days"),
        ({"name": "x" * 101}, "name"),
    ],
)
def test_an_invalid_scope_or_lifetime_is_reported_by_field(wrong: dict[str, object], field: str, alice: User) -> None:
    answer = log_in(**wrong)
    assert (answer.status_code, list(answer.json()["errors"])) == (400, [field])
    assert not ApiToken.objects.exists()


def test_tokens_are_listed_and_never_shown(alice: User) -> None:
    secret = log_in(name="laptop", scope="read").json()["token"]
    make_token(alice, expires_at=datetime.now(tz=UTC))
    make_token(alice, revoked_at=datetime.now(tz=UTC))
    make_token(make_user())
    answer = client_with(secret).get("/api/v1/auth/tokens/")
    assert secret not in answer.content.decode()
    (row,) = answer.json()["results"]
    assert set(row) == {"id", "name", "scope", "created_at", "expires_at", "last_used_at"}
    assert (row["name"], row["scope"]) == ("laptop", "read")
    assert datetime.fromisoformat(row["last_used_at"]) <= datetime.now(tz=UTC)


def test_a_token_revokes_another_of_the_same_user(alice: User) -> None:
    mine, other = make_token(alice), make_token(alice)
    pk = ApiToken.objects.latest("pk").pk
    assert client_with(mine).delete(f"/api/v1/auth/tokens/{pk}/").status_code == 204
    assert client_with(other).get("/api/v1/auth/me/").status_code == 401
    assert client_with(mine).delete(f"/api/v1/auth/tokens/{pk}/").status_code == 404
    assert SecurityEvent.objects.filter(kind="token.revoked", target="user alice", facts__token_id=pk).exists()


def test_an_operator_revokes_anybodys_token(alice: User) -> None:
    token = make_token(alice)
    operator = client_with(make_token(make_user(operator=True)))
    assert operator.delete(f"/api/v1/auth/tokens/{ApiToken.objects.get(user=alice).pk}/").status_code == 204
    assert client_with(token).get("/api/v1/auth/me/").status_code == 401


def test_the_last_use_is_written_at_intervals_only(alice: User) -> None:
    token, now = make_token(alice), datetime.now(tz=UTC)
    row = ApiToken.objects.get()
    for before, written in ((None, True), (now - LAST_USE_STEP / 2, False), (now - LAST_USE_STEP, True)):
        ApiToken.objects.update(last_used_at=before)
        bearer = queries.bearer_of(token, now=now)
        assert bearer is not None
        services.note_use(bearer, now=now)
        row.refresh_from_db()
        assert (row.last_used_at == now) is written


def test_no_token_is_issued_for_a_password_that_was_changed_since_it_was_checked(alice: User) -> None:
    checked = User.objects.get(pk=alice.pk)
    alice.set_password("another one")
    alice.save()
    with pytest.raises(services.WrongCredentialsError):
        services.issue_token(checked, now=datetime.now(tz=UTC))
    assert not ApiToken.objects.exists()


def test_the_command_accepts_scope_name_and_days(alice: User) -> None:
    call_command("token", "alice", "--scope", "submit", "--name", "cron", "--days", "90")
    token = ApiToken.objects.get()
    assert (token.scope, token.name, token.expires_at - token.created_at) == (
        TokenScope.SUBMIT,
        "cron",
        timedelta(days=90),
    )


@pytest.mark.parametrize("options", [("--days", "0"), ("--days", "4000"), ("--name", "x" * 101), ("--scope", "x")])
def test_the_command_refuses_invalid_options(options: tuple[str, str], alice: User) -> None:
    with pytest.raises(CommandError):
        call_command("token", "alice", *options)
    assert not ApiToken.objects.exists()


def test_a_longer_setting_allows_longer_tokens(alice: User, settings: Settings) -> None:
    settings.WMS_USER_TOKEN_S = 90 * 86400
    assert log_in(days=90).status_code == 201
