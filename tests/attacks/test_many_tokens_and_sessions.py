"""Bounds of the tokens and sessions of one user (ADR 86)."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from wms.accounts.models import ApiToken, User, UserSession
from wms.accounts.services import issue_token, revoke_tokens_of
from wms.accounts.services.sessions import remove_expired_sessions
from wms.schedule import BEAT


@pytest.mark.django_db
def test_tokens_of_a_user_are_bounded_over_rest_and_portal_together(eve: User, bob: User, settings: Settings) -> None:
    settings.WMS_MAX_TOKENS_PER_USER = 3
    browser, form = Client(), {"scope": "read", "days": "1", "name": "x"}
    browser.force_login(eve)
    assert "You may have 3 at a time." in browser.get("/accounts/tokens/").content.decode()
    for _ in range(3):
        assert "shown only once" in browser.post("/accounts/tokens/", form).content.decode()
    assert "You have 3 tokens, as many as a user may have" in browser.post("/accounts/tokens/", form).content.decode()
    eve.set_password("six quiet rivers")
    eve.save()
    for user, status in ((eve, 201), (eve, 201), (eve, 201), (eve, 409)):  # a change of the password ends all tokens
        body = {"username": user.username, "password": "six quiet rivers"}
        answer = APIClient().post("/api/v1/auth/token/", body, format="json")
        assert answer.status_code == status
    assert answer.json()["code"] == "too_many_tokens"
    assert issue_token(bob, now=timezone.now()).token


@pytest.mark.django_db
def test_tokens_made_and_revoked_in_turns_leave_no_rows(eve: User) -> None:
    for _ in range(5):
        issue_token(eve, now=timezone.now())
        revoke_tokens_of(eve, now=timezone.now())
    assert ApiToken.objects.filter(user=eve).count() == 1


@pytest.mark.django_db
def test_a_log_in_beyond_the_bound_ends_the_oldest_session_of_the_user(
    eve: User, bob: User, settings: Settings
) -> None:
    settings.WMS_MAX_SESSIONS_PER_USER = 3
    browsers = [Client() for _ in range(5)]
    of_bob = Client()
    of_bob.force_login(bob)
    for browser in browsers:
        browser.force_login(eve)
    assert [browser.get("/accounts/").status_code for browser in browsers] == [302, 302, 200, 200, 200]
    assert of_bob.get("/accounts/").status_code == 200
    assert Session.objects.count() == UserSession.objects.count() == 4
    browsers[4].get("/accounts/tokens/")
    browsers[4].post("/accounts/logout/")
    assert UserSession.objects.filter(user=eve).count() == 2


@pytest.mark.django_db
def test_expired_sessions_are_removed(eve: User, bob: User) -> None:
    for user in (eve, bob):
        Client().force_login(user)
    ended = UserSession.objects.get(user=eve).pk
    Session.objects.filter(pk=ended).update(expire_date=timezone.now() - timedelta(minutes=1))
    assert remove_expired_sessions(now=timezone.now()) == 1
    assert list(UserSession.objects.values_list("user", flat=True)) == [bob.pk]
    assert "accounts.remove_expired_sessions" in {entry["task"] for entry in BEAT.values()}
