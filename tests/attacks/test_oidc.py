"""Attacks on the log-in by OpenID Connect: ID tokens that are not for this log-in, and accounts of others."""

import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from tests import oidc
from tests.api.credentials.addresses import every_address
from tests.factories import make_group, make_user
from tests.oidc import ID, SUBJECT, UNSIGNED, ScriptedProvider
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import ApiToken, FailedLogIn, Invitation, Membership, SecurityEvent, User
from wms.accounts.oidc.id_tokens import LEEWAY_S
from wms.accounts.services.people import WaitingError
from wms.accounts.services.tokens import issue_token

pytestmark = pytest.mark.django_db

LOG_IN = "/accounts/login/"
GROUPS = {"wlcg.groups": {"/lhcb": ["lhcb_user"]}}


@pytest.fixture
def provider(settings: Settings) -> Iterator[ScriptedProvider]:
    make_group(name="lhcb_user")
    with oidc.scripted_provider(settings, groups=GROUPS) as provider:
        provider.claims = {"preferred_username": "alice", "wlcg.groups": ["/lhcb"]}
        yield provider


def is_logged_in(browser: Client) -> bool:
    return browser.get("/accounts/waiting/").status_code == 200 or browser.get("/jobs/").status_code == 200


def begin_device(client: APIClient) -> Any:
    return client.post(f"/api/v1/auth/oidc/{ID}/device/", {}, format="json")


def ask_device(client: APIClient, handle: str, **more: str) -> Any:
    return client.post(f"/api/v1/auth/oidc/{ID}/token/", {"handle": handle, **more}, format="json")


# ---- ID tokens -------------------------------------------------------------------------------------------------------

NOW = int(time.time())
WRONG: dict[str, dict[str, Any]] = {
    "another audience": {"aud": "another-client"},
    "no audience": {"aud": None},
    "an audience shared with another client": {"aud": [oidc.CLIENT_ID, "another-client"]},
    "issued to another client": {"aud": [oidc.CLIENT_ID, "another-client"], "azp": "another-client"},
    "another authorised party": {"azp": "another-client"},
    "another issuer": {"iss": "https://evil.example"},
    "no issuer": {"iss": None},
    "expired": {"exp": NOW - LEEWAY_S - 60},
    "without an end": {"exp": None},
    "from the future": {"iat": NOW + 7200, "exp": NOW + 9000},
    "not valid yet": {"nbf": NOW + 7200},
    "no subject": {"sub": None},
    "a subject that is too long": {"sub": "x" * 192},
}
OF_BROWSERS: dict[str, dict[str, Any]] = {"another nonce": {"nonce": "of another log-in"}, "no nonce": {"nonce": None}}


@pytest.mark.parametrize("name", [*WRONG, *OF_BROWSERS])
def test_an_id_token_that_is_not_for_this_log_in_is_refused(provider: ScriptedProvider, name: str) -> None:
    provider.id_token_claims = (WRONG | OF_BROWSERS)[name]
    browser = Client()
    assert oidc.log_in(browser)["Location"] == LOG_IN
    assert not is_logged_in(browser)
    assert not SocialAccount.objects.exists()
    event = SecurityEvent.objects.get(kind=SecurityEventKind.LOG_IN_REFUSED)
    assert (event.target, event.facts) == (f"provider {ID}", {"reason": "provider_token_refused"})
    assert FailedLogIn.objects.count() == 1


@pytest.mark.parametrize("name", WRONG)
def test_an_id_token_for_another_log_in_is_refused_in_the_device_flow(provider: ScriptedProvider, name: str) -> None:
    provider.id_token_claims = WRONG[name]
    client = APIClient()
    begun = begin_device(client).json()
    provider.decide(begun["user_code"])
    answer = ask_device(client, begun["handle"])
    assert (answer.status_code, answer.json()["code"]) == (401, "provider_token_refused")
    assert not SocialAccount.objects.exists()
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize("algorithm", [UNSIGNED, "HS256", "ES256"])
def test_an_id_token_without_a_signature_of_the_provider_is_refused(provider: ScriptedProvider, algorithm: str) -> None:
    provider.algorithm = algorithm
    browser = Client()
    oidc.log_in(browser)
    assert not is_logged_in(browser)
    assert not SocialAccount.objects.exists()


def test_an_id_token_signed_by_another_key_is_refused(provider: ScriptedProvider) -> None:
    provider.key_name = "of the attacker"
    browser = Client()
    oidc.log_in(browser)
    assert not is_logged_in(browser)


def test_a_valid_id_token_is_accepted(provider: ScriptedProvider) -> None:
    provider.id_token_claims = {"aud": [oidc.CLIENT_ID], "azp": oidc.CLIENT_ID}
    browser = Client()
    oidc.log_in(browser)
    assert is_logged_in(browser)


def test_userinfo_of_another_person_is_refused(provider: ScriptedProvider) -> None:
    provider.userinfo_subject = "somebody-else"
    browser = Client()
    oidc.log_in(browser)
    assert not is_logged_in(browser)


@pytest.mark.parametrize(
    "discovery",
    [
        {"issuer": "https://evil.example"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": "file:///etc/passwd"},
    ],
)
def test_a_discovery_document_of_another_issuer_or_without_addresses_is_refused(
    provider: ScriptedProvider, discovery: dict[str, str]
) -> None:
    browser = Client()
    provider.discovery = discovery
    assert browser.post(f"/accounts/oidc/{ID}/")["Location"] == LOG_IN
    assert not is_logged_in(browser)


# ---- the flow --------------------------------------------------------------------------------------------------------


def test_the_answer_to_a_log_in_of_another_browser_is_refused(provider: ScriptedProvider) -> None:
    back = oidc.back_from(oidc.begin(Client()))
    victim = Client()
    assert victim.get(back)["Location"] == LOG_IN
    assert not is_logged_in(victim)
    assert not any(path == "/token" for _, path in provider.requests)


def test_an_answer_is_accepted_once(provider: ScriptedProvider) -> None:
    browser = Client()
    back = oidc.back_from(oidc.begin(browser))
    browser.get(back)
    browser.post("/accounts/logout/")
    assert browser.get(back)["Location"] == LOG_IN
    assert not is_logged_in(browser)


def test_a_code_of_another_log_in_is_refused(provider: ScriptedProvider) -> None:
    """The attacker's code in the victim's browser: PKCE and nonce are those of the attacker's log-in."""
    stolen = oidc.back_from(oidc.begin(Client())).partition("code=")[2].partition("&")[0]
    victim = Client()
    back = oidc.back_from(oidc.begin(victim))
    own = back.partition("code=")[2].partition("&")[0]
    victim.get(back.replace(own, stolen))
    assert not is_logged_in(victim)


def test_a_log_in_begins_only_by_a_post_from_the_portal(provider: ScriptedProvider) -> None:
    assert Client().get(f"/accounts/oidc/{ID}/").status_code == 405
    assert Client(enforce_csrf_checks=True).post(f"/accounts/oidc/{ID}/").status_code == 403
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(make_user(password="x"))
    assert browser.post(f"/accounts/oidc/{ID}/connect/").status_code == 403
    assert provider.requests == []


def test_a_refusal_at_the_provider_is_shown_and_makes_no_account(provider: ScriptedProvider) -> None:
    provider.error = "access_denied"
    browser = Client()
    oidc.log_in(browser)
    assert "was cancelled" in browser.get(LOG_IN).content.decode()
    assert not SocialAccount.objects.exists()


def test_the_servers_requests_go_to_configured_addresses_whatever_a_caller_sends(provider: ScriptedProvider) -> None:
    evil = "http://169.254.169.254/latest"
    browser = Client()
    browser.post(f"/accounts/oidc/{ID}/", {"next": evil, "issuer": evil, "server_url": evil})
    browser.get(f"/accounts/oidc/{ID}/callback/", {"code": "x", "state": "y", "iss": evil})
    assert browser.post(f"/accounts/oidc/{evil}/").status_code == 404
    answer = APIClient().post(f"/api/v1/auth/oidc/{ID}/device/", {"issuer": evil}, format="json")
    assert answer.status_code == 201
    assert {path for _, path in provider.requests} <= {"/.well-known/openid-configuration", "/device"}


# ---- accounts of others ----------------------------------------------------------------------------------------------


def test_an_equal_name_or_email_gives_no_access_to_an_account(provider: ScriptedProvider) -> None:
    victim = make_user(username="alice", password="correct horse", operator=True)
    User.objects.filter(pk=victim.pk).update(email="alice@example.org")
    provider.claims |= {"preferred_username": "alice", "email": "alice@example.org", "email_verified": True}
    oidc.log_in(Client())
    newcomer = SocialAccount.objects.get(uid=SUBJECT).user
    assert newcomer != victim
    assert newcomer.username == "alice@cern"
    assert not newcomer.is_operator


@pytest.mark.parametrize("wanted", ["bob@cern", "bob", "../bob", "BOB", "bob\x00"])
def test_a_used_or_invited_name_is_not_assigned(provider: ScriptedProvider, wanted: str) -> None:
    now = timezone.now()
    Invitation.objects.create(
        group=make_group(),
        username="bob@cern",
        invited_by=make_user(operator=True),
        created_at=now,
        expires_at=now + timedelta(days=1),
    )
    provider.claims["preferred_username"] = wanted
    oidc.log_in(Client())
    name = SocialAccount.objects.get(uid=SUBJECT).user.username
    assert name.lower() != "bob@cern"
    assert name.endswith("@cern")


def test_the_same_subject_of_another_issuer_is_another_person(settings: Settings) -> None:
    make_group(name="lhcb_user")
    victim = make_user(username="alice")
    SocialAccount.objects.create(user=victim, provider="https://other.example", uid=SUBJECT)
    with oidc.scripted_provider(settings):
        oidc.log_in(Client())
    assert SocialAccount.objects.filter(uid=SUBJECT).count() == 2
    assert SocialAccount.objects.filter(uid=SUBJECT, user=victim).count() == 1


def test_an_account_of_one_user_is_not_connected_to_another(provider: ScriptedProvider) -> None:
    oidc.log_in(Client())
    owner = SocialAccount.objects.get().user
    mallory = make_user(username="mallory")
    browser = Client()
    oidc.log_in_without_provider(browser, mallory)
    browser.get(oidc.back_from(oidc.begin(browser, page=f"/accounts/oidc/{ID}/connect/")))
    assert SocialAccount.objects.get().user == owner
    assert not Membership.objects.filter(user=mallory).exists()
    assert "that of another user" in browser.get("/accounts/").content.decode()


def test_an_account_of_another_user_cannot_be_disconnected(provider: ScriptedProvider) -> None:
    account = SocialAccount.objects.create(user=make_user(password="x"), provider=provider.url, uid="x")
    browser = Client()
    oidc.log_in_without_provider(browser, make_user())
    assert browser.post(f"/accounts/connected/{account.pk}/disconnect/").status_code == 404
    assert SocialAccount.objects.exists()


def test_the_session_key_changes_at_log_in(provider: ScriptedProvider) -> None:
    browser = Client()
    back = oidc.back_from(oidc.begin(browser))
    before = browser.session.session_key
    browser.get(back)
    assert browser.session.session_key != before


# ---- the waiting room ------------------------------------------------------------------------------------------------


def test_a_person_waiting_for_admission_opens_the_waiting_room_only(provider: ScriptedProvider) -> None:
    provider.claims = {}
    browser = Client()
    oidc.log_in(browser)
    opened = []
    for address in every_address():
        if address.name in {"portal:waiting", "portal:log-out"} or not address.name:
            continue
        url = address.url(defaultdict(lambda: 1))
        for method in ("get", "post"):
            answer = getattr(browser, method)(url)
            is_shut = answer.status_code in {403, 404} or answer.headers.get("Location") == "/accounts/waiting/"
            if not is_shut:
                opened.append((method, url, answer.status_code))
    assert opened == []


def test_a_person_waiting_for_admission_gets_no_token(provider: ScriptedProvider) -> None:
    oidc.log_in(Client())  # a member by claim
    user, now = SocialAccount.objects.get().user, timezone.now()
    token = issue_token(user, now=now).token
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    assert client.get("/api/v1/auth/me/").status_code == 200
    provider.claims = {}
    oidc.log_in(Client())
    assert client.get("/api/v1/auth/me/").status_code == 401
    with pytest.raises(WaitingError):
        issue_token(user, now=now)
