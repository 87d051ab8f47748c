"""Managers of VOs and tokens of people over REST: operators decide, after a fresh log-in; texts are not told."""

from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from tests.api.administration.conftest import Administration, changes_of, client_of, history_of
from tests.factories import make_token, make_user
from wms.accounts.domain import TokenScope
from wms.accounts.models import ApiToken

pytestmark = pytest.mark.django_db

MANAGERS = "/api/v1/vos/lhcb/managers/"
TOKENS = "/api/v1/users/lhcb_member/tokens/"


def names(client: APIClient) -> list[str]:
    return [each["username"] for each in client.get(MANAGERS).json()["managers"]]


def test_an_operator_makes_and_ends_a_manager_once_and_the_vo_has_the_history(administration: Administration) -> None:
    operator, address = administration.operator, f"{MANAGERS}atlas_member/"
    assert names(administration.manager) == ["mallory"]
    tried = operator.put(address, {"dry_run": True})
    assert (tried.status_code, names(operator)) == (200, ["mallory"])
    for _ in range(2):
        made = operator.put(address, {"reason": "new convener"})
        assert (made.status_code, made.json()) == (200, tried.json())
    assert made.json() == {"username": "atlas_member", "staff": False, "suspended": False}
    assert names(operator) == ["atlas_member", "mallory"]
    assert operator.delete(f"{address}?dry_run=true").status_code == 204
    assert len(names(operator)) == 2
    for _ in range(2):
        assert operator.delete(address).status_code == 204
    assert names(operator) == ["mallory"]
    assert history_of(administration.own.vo) == [
        "managers: +atlas_member", "reason: new convener", "managers: -atlas_member",
    ]  # fmt: skip
    assert [(who, target) for who, target, _ in changes_of("rights.changed")] == [("olga", "VO lhcb")] * 2


def test_a_manager_makes_no_managers_and_sees_no_tokens(administration: Administration) -> None:
    manager = administration.manager
    for username in ("mallory", "lhcb_member"):
        assert manager.put(f"{MANAGERS}{username}/", {}).status_code == 403
        assert manager.delete(f"{MANAGERS}{username}/").status_code == 403
    assert manager.get("/api/v1/vos/atlas/managers/").status_code == 404
    for address in (TOKENS, "/api/v1/users/mallory/tokens/", "/api/v1/users/nobody/tokens/"):
        assert manager.get(address).status_code == 403
        assert manager.delete(address).status_code == 403
    assert not ApiToken.objects.filter(revoked_at__isnull=False).exists()
    assert client_of(administration.own.member).get(MANAGERS).status_code == 403


def test_tokens_are_listed_without_their_texts_and_revoked(administration: Administration) -> None:
    operator, member = administration.operator, administration.own.member
    text = make_token(member, scope=TokenScope.READ)
    other = administration.other.api_token
    listed = operator.get(TOKENS)
    rows = listed.json()["results"]
    assert [row["id"] for row in rows] == list(member.api_tokens.order_by("-pk").values_list("pk", flat=True))
    assert text not in listed.content.decode()
    assert text[5:15] not in listed.content.decode()
    assert set(rows[0]) == {"id", "name", "scope", "created_at", "expires_at", "last_used_at", "revoked_at"}
    address = f"{TOKENS}{rows[0]['id']}/"
    assert operator.delete(f"{address}?dry_run=true").status_code == 204
    assert not member.api_tokens.filter(revoked_at__isnull=False).exists()
    for _ in range(2):
        assert operator.delete(address).status_code == 204
    assert member.api_tokens.filter(revoked_at__isnull=False).count() == 1
    assert operator.delete(f"{TOKENS}{other.pk}/").status_code == 404
    assert operator.delete(TOKENS).status_code == 204
    assert not member.api_tokens.filter(revoked_at=None).exists()
    other.refresh_from_db()
    assert other.revoked_at is None
    (one, all_) = changes_of("token.revoked")
    assert one[:2] == all_[:2] == ("olga", "user lhcb_member")
    assert operator.get("/api/v1/users/nobody/tokens/").status_code == 404


def test_an_older_log_in_makes_no_manager_and_revokes_no_token(administration: Administration) -> None:
    olga = make_user(username="olaf", operator=True)
    client = client_of(olga)
    ApiToken.objects.filter(user=olga).update(created_at=timezone.now() - timedelta(minutes=16))
    token = administration.own.api_token
    assert client.get(TOKENS).status_code == 200
    for answer in (
        client.put(f"{MANAGERS}lhcb_member/", {}),
        client.delete(f"{MANAGERS}mallory/"),
        client.delete(TOKENS),
        client.delete(f"{TOKENS}{token.pk}/"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "fresh_log_in_needed")
    token.refresh_from_db()
    assert token.revoked_at is None
