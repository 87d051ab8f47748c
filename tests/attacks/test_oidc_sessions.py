"""A stolen session of somebody who logs in by a provider only, without password and second factor to be asked for."""

from collections.abc import Iterator

import pytest
from allauth.account import app_settings
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from pytest_django import Settings

from tests import oidc
from tests.factories import make_group
from tests.oidc import ID, ScriptedProvider
from tests.second_factors import code_of
from wms.accounts.services import second_factors

pytestmark = pytest.mark.django_db

OWN = "/accounts/second-factor/"
SENTENCE = "For this you must have logged in just now"


@pytest.fixture
def provider(settings: Settings) -> Iterator[ScriptedProvider]:
    make_group(name="lhcb_user")
    with oidc.scripted_provider(settings, groups={"groups": {"lhcb": ["lhcb_user"]}}) as provider:
        provider.claims = {"preferred_username": "alice", "groups": ["lhcb"]}
        yield provider


def stolen(browser: Client) -> Client:
    """Return another browser with the session of this one, whose log-in is no longer recent."""
    session = browser.session
    session[second_factors._LOGGED_IN_AT] -= app_settings.REAUTHENTICATION_TIMEOUT
    session.save()
    thief = Client()
    thief.cookies["wms_session"] = browser.cookies["wms_session"].value
    assert thief.get("/jobs/").status_code == 200
    return thief


@pytest.mark.parametrize("page", [f"{OWN}app/", f"{OWN}keys/add/"])
def test_a_stolen_session_adds_no_second_factor(page: str, provider: ScriptedProvider) -> None:
    """It would lock its user out, and log the thief in."""
    browser = Client()
    oidc.log_in(browser)
    thief = stolen(browser)
    for method in ("get", "post"):
        assert getattr(thief, method)(page)["Location"] == "/accounts/"
    assert SENTENCE in thief.get("/accounts/").content.decode()
    assert not Authenticator.objects.exists()


def test_a_stolen_session_connects_no_account_of_the_thief(provider: ScriptedProvider) -> None:
    browser = Client()
    oidc.log_in(browser)
    thief = stolen(browser)
    provider.subject = "the-thief"
    assert thief.post(f"/accounts/oidc/{ID}/connect/")["Location"] == "/accounts/"
    assert SocialAccount.objects.get().uid == oidc.SUBJECT


@pytest.mark.django_db(transaction=True)
def test_after_a_new_log_in_its_user_adds_a_second_factor(provider: ScriptedProvider) -> None:
    browser = Client()
    oidc.log_in(browser)
    stolen(browser)
    browser.post("/accounts/logout/")
    oidc.log_in(browser)
    secret = browser.get(f"{OWN}app/").context["form"].secret
    browser.post(f"{OWN}app/", {"code": code_of(secret)})
    assert Authenticator.objects.filter(type=Authenticator.Type.TOTP).count() == 1


@pytest.mark.parametrize("name", ["Al\x1b[2Jice", "Al\u202eice", "Al\r\nBcc: ice", "Al\u200bice"])
def test_a_name_at_the_provider_controls_no_terminal_and_no_direction(name: str, provider: ScriptedProvider) -> None:
    provider.claims |= {"given_name": name, "family_name": name, "preferred_username": name}
    oidc.log_in(Client())
    user = SocialAccount.objects.get().user
    assert f"{user.get_full_name()}{user.username}".isprintable()
