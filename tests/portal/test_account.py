"""Pages of the user's own account: password and tokens."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from tests.factories import make_token, make_user
from tests.portal.conftest import ClientOf
from wms.accounts import queries
from wms.accounts.domain import MAX_FAILURES_OF_NAME_AND_ADDRESS
from wms.accounts.models import ApiToken, User

pytestmark = pytest.mark.django_db

NEW = "a new and longer passphrase"


def changed(portal: Client, old: str = "correct horse", new: str = NEW) -> int:
    form = {"old_password": old, "new_password1": new, "new_password2": new}
    return int(portal.post("/accounts/password/", form).status_code)


def test_a_user_changes_the_own_password_and_stays_logged_in_here_only(
    portal: Client, alice: User, client_of: ClientOf
) -> None:
    elsewhere, token = client_of(alice), make_token(alice)
    assert changed(portal) == 302
    assert User.objects.get(pk=alice.pk).check_password(NEW)
    assert portal.get("/jobs/").status_code == 200
    assert elsewhere.get("/jobs/").status_code == 302
    assert queries.bearer_of(token, now=timezone.now()) is None


@pytest.mark.parametrize(("old", "new"), [("wrong", NEW), ("correct horse", "alice"), ("correct horse", "12345678")])
def test_a_wrong_or_weak_password_changes_nothing(old: str, new: str, portal: Client, alice: User) -> None:
    token = make_token(alice)
    assert changed(portal, old, new) == 200
    assert User.objects.get(pk=alice.pk).check_password("correct horse")
    assert queries.bearer_of(token, now=timezone.now()) is not None


def test_a_user_without_a_password_is_shown_how_to_get_one(client_of: ClientOf) -> None:
    page = client_of(make_user()).get("/accounts/password/").content.decode()
    assert "An operator can send you a one-time link" in page


def test_the_administration_has_no_password_page(client_of: ClientOf) -> None:
    operator = client_of(make_user(staff=True, operator=True))
    assert operator.get("/admin/password_change/")["Location"] == "/accounts/password/"
    assert '<a href="/accounts/">' in operator.get("/admin/").content.decode()


def made(portal: Client, **others: object) -> str:
    page = portal.post("/accounts/tokens/", {"name": "laptop", "scope": "read", "days": "7", **others})
    found = re.search(r'id="token">(wmsu_[^<]+)<', page.content.decode())
    assert found is not None, page.context["form"].errors
    return found[1]


def test_a_token_is_made_listed_used_and_revoked(portal: Client, alice: User) -> None:
    token = made(portal)
    row = ApiToken.objects.get()
    assert (row.name, row.scope, row.last_used_at) == ("laptop", "read", None)
    assert timedelta(days=6) < row.expires_at - timezone.now() <= timedelta(days=7)
    header = {"Authorization": f"Bearer {token}"}
    assert Client().get("/api/v1/auth/me/", headers=header).json()["username"] == "alice"
    page = portal.get("/accounts/tokens/").content.decode()
    assert "laptop" in page
    assert token not in page
    assert portal.post(f"/accounts/tokens/{row.pk}/revoke/").status_code == 302
    assert Client().get("/api/v1/auth/me/", headers=header).status_code == 401
    assert "You have no tokens." in portal.get("/accounts/tokens/").content.decode()


@pytest.mark.parametrize(
    "wrong", [{"scope": "everything"}, {"days": "0"}, {"days": "31"}, {"name": ""}, {"name": "x" * 101}]
)
def test_a_wrong_form_makes_no_token(wrong: dict[str, str], portal: Client) -> None:
    page = portal.post("/accounts/tokens/", {"name": "laptop", "scope": "read", "days": "7", **wrong})
    assert page.context["form"].errors
    assert not ApiToken.objects.exists()


def test_a_token_of_the_page_lives_no_longer_than_the_setting(settings: Settings, portal: Client) -> None:
    settings.WMS_USER_TOKEN_S = 3600
    made(portal, days="1")
    assert ApiToken.objects.get().expires_at - timezone.now() <= timedelta(hours=1)


@pytest.mark.parametrize("address", ["/accounts/password/", "/accounts/tokens/", "/accounts/tokens/1/revoke/"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_every_account_page_requires_a_log_in(address: str, method: str) -> None:
    response = getattr(Client(), method)(address)
    assert (response.status_code, response["Location"].split("?")[0]) == (302, "/accounts/login/")


def test_password_guesses_in_a_session_are_limited(portal: Client, alice: User) -> None:
    for _ in range(MAX_FAILURES_OF_NAME_AND_ADDRESS + 1):
        assert changed(portal, "guess") == 200
    assert changed(portal) == 200  # the right one has to wait
    assert User.objects.get(pk=alice.pk).check_password("correct horse")
