"""Log-in by the device flow over REST."""

from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.core.cache import caches
from pytest_django import Settings
from rest_framework.test import APIClient

from tests import oidc
from tests.factories import make_group, make_token, make_user
from tests.oidc import ID, SUBJECT, ScriptedProvider
from tests.second_factors import code_of, make_app, wrong_code_of
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import ApiToken, FailedLogIn, SecurityEvent, User
from wms.accounts.oidc import device
from wms.kernel.rates import CACHE

pytestmark = pytest.mark.django_db

GROUPS = {"wlcg.groups": {"/lhcb": ["lhcb_user"]}}


@pytest.fixture
def provider(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedProvider]:
    make_group(name="lhcb_user")
    with oidc.scripted_provider(settings, groups=GROUPS) as provider:
        provider.claims = {"preferred_username": "alice", "wlcg.groups": ["/lhcb"]}
        yield provider


def begin(**options: Any) -> Any:
    return APIClient().post(f"/api/v1/auth/oidc/{ID}/device/", {}, format="json", **options)


def ask(handle: str, **more: object) -> Any:
    return APIClient().post(f"/api/v1/auth/oidc/{ID}/token/", {"handle": handle, **more}, format="json")


def allow_a_question(provider: ScriptedProvider) -> None:
    """Let the time pass after which the provider is asked again."""
    for device_code in provider.user_codes.values():
        caches[CACHE].delete(f"device-log-in:{sha256(device_code.encode()).hexdigest()}")


def person() -> User:
    user: User = SocialAccount.objects.get(uid=SUBJECT).user
    return user


def test_without_a_provider_there_are_no_oidc_endpoints() -> None:
    assert APIClient().get("/api/v1/auth/oidc/").json()["code"] == "no_provider"
    assert begin().status_code == 404
    assert ask("x").status_code == 404


def test_providers_are_listed_without_their_secrets(provider: ScriptedProvider) -> None:
    answer = APIClient().get("/api/v1/auth/oidc/")
    assert answer.json() == {"providers": [{"id": ID, "name": "CERN"}]}


def test_a_confirmed_device_log_in_returns_a_token_once(provider: ScriptedProvider) -> None:
    begun = begin()
    assert begun.status_code == 201
    assert begun.headers["Cache-Control"] == "no-store"
    log_in = begun.json()
    assert log_in["verification_uri"] == f"{provider.url}/activate"
    assert log_in["verification_uri_complete"].endswith(log_in["user_code"])
    assert log_in["interval_s"] == 1
    provider.decide(log_in["user_code"])
    answer = ask(log_in["handle"], scope="read", name="laptop", days=3)
    assert answer.status_code == 201
    assert answer.headers["Cache-Control"] == "no-store"
    token = ApiToken.objects.get()
    assert (token.user, token.scope, token.name) == (person(), "read", "laptop")
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {answer.json()['token']}")
    assert client.get("/api/v1/auth/me/").json()["username"] == "alice@cern"
    assert not FailedLogIn.objects.exists()
    assert SecurityEvent.objects.filter(kind=SecurityEventKind.LOG_IN_ACCEPTED).count() == 1
    # Replayed: the provider has forgotten the code.
    again = APIClient()
    allow_a_question(provider)
    assert again.post(f"/api/v1/auth/oidc/{ID}/token/", {"handle": log_in["handle"]}, format="json").status_code == 401


def test_an_unconfirmed_log_in_limits_the_polling_rate(provider: ScriptedProvider) -> None:
    handle = begin().json()["handle"]
    answer = ask(handle)
    assert answer.status_code == 202
    assert (answer.json()["slow_down"], answer.json()["code_needed"]) == (False, False)
    questions = len(provider.requests)
    assert ask(handle).json()["slow_down"] is True  # at once again
    assert len(provider.requests) == questions
    allow_a_question(provider)
    provider.slow_down = True
    assert ask(handle).json()["slow_down"] is True
    assert len(provider.requests) == questions + 1


def test_a_refused_device_log_in_ends(provider: ScriptedProvider) -> None:
    log_in = begin().json()
    provider.decide(log_in["user_code"], state="denied")
    answer = ask(log_in["handle"])
    assert (answer.status_code, answer.json()["code"]) == (401, "device_log_in_over")
    event = SecurityEvent.objects.get(kind=SecurityEventKind.LOG_IN_REFUSED)
    assert event.target == f"provider {ID}"
    assert FailedLogIn.objects.count() == 1


def test_forged_and_expired_handles_are_refused(provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    log_in = begin().json()
    assert log_in["user_code"] not in log_in["handle"]
    for handle in ("x", log_in["handle"][:-4] + "AAAA", "é"):
        assert ask(handle).json()["code"] == "device_log_in_over"
    monkeypatch.setattr(device, "LONGEST", timedelta(seconds=-1))
    provider.decide(log_in["user_code"])
    ended = begin().json()["handle"]
    assert ask(ended).json()["code"] == "device_log_in_over"


def test_a_new_person_without_a_group_waits_and_gets_no_token(provider: ScriptedProvider) -> None:
    provider.claims = {}
    log_in = begin().json()
    provider.decide(log_in["user_code"])
    answer = ask(log_in["handle"])
    assert (answer.status_code, answer.json()["code"]) == (403, "waiting")
    assert "a manager of your VO lets you in" in answer.json()["detail"]
    assert not ApiToken.objects.exists()


def test_a_suspended_user_gets_no_token(provider: ScriptedProvider) -> None:
    user = make_user(username="alice", suspended=True)
    SocialAccount.objects.create(user=user, provider=provider.url, uid=SUBJECT)
    log_in = begin().json()
    provider.decide(log_in["user_code"])
    assert ask(log_in["handle"]).json()["code"] == "suspended"
    assert not ApiToken.objects.exists()


def test_a_second_factor_is_required_and_its_code_used_once(provider: ScriptedProvider) -> None:
    user = make_user(username="alice")
    SocialAccount.objects.create(user=user, provider=provider.url, uid=SUBJECT)
    key = make_app(user)
    log_in = begin().json()
    provider.decide(log_in["user_code"])
    answer = ask(log_in["handle"])
    assert answer.status_code == 202
    assert answer.json()["code_needed"] is True
    handle = answer.json()["handle"]
    assert ask(handle, code=wrong_code_of(key)).json()["code"] == "wrong_code"
    assert ask(log_in["handle"], code=code_of(key)).json()["code"] == "device_log_in_over"  # of the first step
    assert ask(handle).json()["code"] == "device_log_in_over"  # without the code
    code = code_of(key)
    assert ask(handle, code=code).status_code == 201
    assert ask(handle, code=code).json()["code"] == "wrong_code"
    assert ApiToken.objects.count() == 1


def test_a_suspension_between_provider_and_code_ends_the_log_in(provider: ScriptedProvider) -> None:
    user = make_user(username="alice")
    SocialAccount.objects.create(user=user, provider=provider.url, uid=SUBJECT)
    key = make_app(user)
    log_in = begin().json()
    provider.decide(log_in["user_code"])
    handle = ask(log_in["handle"]).json()["handle"]
    User.objects.filter(pk=user.pk).update(is_active=False)
    User.objects.filter(pk=user.pk).update(is_active=True)
    assert ask(handle, code=code_of(key)).json()["code"] == "device_log_in_over"


def test_an_operator_without_a_required_second_factor_gets_no_token(
    provider: ScriptedProvider, settings: Settings
) -> None:
    settings.WMS_REQUIRE_SECOND_FACTOR = "operators"
    user = make_user(username="olga", operator=True)
    SocialAccount.objects.create(user=user, provider=provider.url, uid=SUBJECT)
    log_in = begin().json()
    provider.decide(log_in["user_code"])
    assert ask(log_in["handle"]).json()["code"] == "second_factor_required"


def test_a_provider_without_device_flow_is_reported(provider: ScriptedProvider) -> None:
    provider.discovery = {"device_authorization_endpoint": None}
    answer = begin()
    assert (answer.status_code, answer.json()["code"]) == (409, "no_device_flow")


def test_a_provider_that_does_not_answer_is_503(settings: Settings) -> None:
    with oidc.scripted_provider(settings):
        pass
    answer = begin()
    assert (answer.status_code, answer.json()["code"]) == (503, "provider_failed")
    assert int(answer.headers["Retry-After"]) > 0


def test_a_token_of_another_user_changes_nothing(provider: ScriptedProvider) -> None:
    """A log-in is by the provider alone, whoever sends the request."""
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(make_user())}")
    log_in = client.post(f"/api/v1/auth/oidc/{ID}/device/", {}, format="json").json()
    provider.decide(log_in["user_code"])
    assert client.post(f"/api/v1/auth/oidc/{ID}/token/", {"handle": log_in["handle"]}, format="json").status_code == 201
    assert ApiToken.objects.latest("pk").user == person()
