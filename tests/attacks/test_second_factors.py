"""Log-in with the password of a user who has a second factor, or without a factor where one is required."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings
from rest_framework.test import APIClient

from tests.factories import make_group, make_token, make_user
from tests.second_factors import code_of, make_app, make_recovery_codes, stored, wrong_code_of
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import ApiToken, FailedLogIn, SecurityEvent, User
from wms.kernel.secrets import rotate

pytestmark = pytest.mark.django_db

LOG_IN = "/accounts/login/"
CODE = "/accounts/login/code/"
OWN = "/accounts/second-factor/"
PASSWORD = "correct horse battery staple"
#: Of the session's user, of the administration, and of the REST interface.
BEYOND = (
    "/jobs/",
    "/jobs/submit/",
    "/admin/",
    "/api/v1/auth/me/",
    "/api/v1/jobs/",
    OWN,
    f"{OWN}app/",
    "/accounts/again/",
)


@pytest.fixture
def bob() -> User:
    return make_user(username="bob", password=PASSWORD, groups=[make_group()], staff=True, operator=True)


@pytest.fixture
def secret(bob: User) -> str:
    return make_app(bob)


def by_password(**form: str) -> Client:
    """Return a browser in which Bob's password was entered."""
    browser = Client()
    assert browser.post(LOG_IN, {"username": "bob", "password": PASSWORD, **form}).status_code == 302
    return browser


def is_in(browser: Client) -> bool:
    return browser.get("/jobs/").status_code == 200


def ask_for_token(**more: str) -> Any:
    return APIClient().post("/api/v1/auth/token/", {"username": "bob", "password": PASSWORD, **more}, format="json")


# ---- half logged in --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", BEYOND)
@pytest.mark.parametrize("method", ["get", "post"])
def test_the_password_alone_gives_no_access(address: str, method: str, secret: str) -> None:
    answer = getattr(by_password(), method)(address)
    refused = {401, 403} if address.startswith("/api/") else {302, 405}
    assert answer.status_code in refused
    if answer.status_code == 302:
        assert answer.headers["Location"].startswith((LOG_IN, "/admin/login/"))


def test_password_and_code_log_in(secret: str) -> None:
    browser = by_password(next="/jobs/submit/")
    assert browser.get(CODE).status_code == 200
    assert browser.post(CODE, {"code": code_of(secret)}).headers["Location"] == "/jobs/submit/"
    assert is_in(browser)


def test_a_code_without_the_password_is_refused(secret: str) -> None:
    browser = Client()
    assert browser.post(CODE, {"code": code_of(secret)}).headers["Location"] == LOG_IN
    assert not is_in(browser)


def test_a_code_of_another_user_is_refused(secret: str) -> None:
    of_eve = make_app(make_user(username="eve"))
    browser = by_password()
    browser.post(CODE, {"code": code_of(of_eve)})
    assert not is_in(browser)


def test_a_password_change_ends_a_pending_log_in(bob: User, secret: str) -> None:
    """A log-in that began with the old password ends when the password is changed."""
    browser = by_password()
    bob.set_password("another correct horse")
    bob.save()
    assert browser.post(CODE, {"code": code_of(secret)}).headers["Location"] == LOG_IN
    assert not is_in(browser)


def test_a_pending_log_in_ends_with_a_suspension_even_if_lifted(bob: User, secret: str) -> None:
    before, meanwhile = by_password(), by_password()
    User.objects.filter(pk=bob.pk).update(is_active=False)
    meanwhile.post(CODE, {"code": code_of(secret)})
    User.objects.filter(pk=bob.pk).update(is_active=True)
    before.post(CODE, {"code": code_of(secret)})
    assert not is_in(before)
    assert not is_in(meanwhile)


def test_a_pending_log_in_ends_with_a_suspension(bob: User, secret: str) -> None:
    browser = by_password()
    User.objects.filter(pk=bob.pk).update(is_active=False)
    browser.post(CODE, {"code": code_of(secret)})
    assert not is_in(browser)


@pytest.mark.parametrize("has_app", [False, True])
def test_the_session_key_changes_with_the_second_factor(bob: User, has_app: bool) -> None:
    secret = make_app(bob) if has_app else ""
    victim, attacker = Client(), Client()
    session = victim.session
    session["planted"] = True
    session.save()
    name = "wms_session"
    known = victim.cookies[name].value
    attacker.cookies[name] = known
    victim.post(LOG_IN, {"username": "bob", "password": PASSWORD})
    between = victim.cookies[name].value
    assert between != known
    if has_app:
        assert attacker.get(CODE).status_code == 302  # not even the page that asks for the code
        victim.post(CODE, {"code": code_of(secret)})
        assert victim.cookies[name].value not in {known, between}
    assert is_in(victim)
    for each in {known, between} - {victim.cookies[name].value}:
        attacker.cookies[name] = each
        assert not is_in(attacker)


def test_a_known_browser_still_needs_a_code(secret: str) -> None:
    browser = by_password()
    browser.post(CODE, {"code": code_of(secret)})
    browser.post("/accounts/logout/")
    browser.post(LOG_IN, {"username": "bob", "password": PASSWORD})
    assert not is_in(browser)


# ---- codes -----------------------------------------------------------------------------------------------------------


def test_a_code_is_accepted_once(secret: str) -> None:
    code = code_of(secret)
    first, second, third = by_password(), by_password(), by_password()
    first.post(CODE, {"code": code})
    assert is_in(first)
    second.post(CODE, {"code": code})
    assert not is_in(second)
    third.post(CODE, {"code": f" {code[:3]} {code[3:]}"})  # the same one, spelt otherwise
    assert not is_in(third)
    assert ask_for_token(code=code).json()["code"] == "wrong_code"


@pytest.mark.django_db(transaction=True)
def test_the_set_up_code_of_an_app_is_not_accepted_again(bob: User) -> None:
    browser = by_password()
    browser.post(f"/accounts/again/?next={OWN}app/", {"password": PASSWORD})
    page = browser.get(f"{OWN}app/")
    secret = page.context["form"].secret
    code = code_of(secret)
    assert browser.post(f"{OWN}app/", {"code": code}).headers["Location"] == f"{OWN}codes/"
    assert SecurityEvent.objects.filter(kind=SecurityEventKind.SECOND_FACTOR_ADDED, actor=bob).count() == 2
    another = by_password()
    another.post(CODE, {"code": code})
    assert not is_in(another)


def test_a_recovery_code_is_accepted_once(bob: User, secret: str) -> None:
    code = make_recovery_codes(bob)[3]
    first, second = by_password(), by_password()
    first.post(CODE, {"code": code})
    assert is_in(first)
    second.post(CODE, {"code": code})
    assert not is_in(second)


def test_repeated_wrong_codes_are_delayed(secret: str) -> None:
    wrong = wrong_code_of(secret)
    browsers = [by_password() for _ in range(3)]
    for number in range(6):
        browsers[number % 3].post(CODE, {"code": wrong})
    assert FailedLogIn.objects.filter(of_code=True).count() == 5  # the others were not looked at
    browsers[0].post(CODE, {"code": code_of(secret)})
    assert not is_in(browsers[0])  # whether the code is right is not told for a while, at any door
    assert ask_for_token(code=code_of(secret)).status_code == 429
    FailedLogIn.objects.update(failed_at=datetime.now(tz=UTC) - timedelta(seconds=20))
    browsers[0].post(CODE, {"code": code_of(secret)})
    assert is_in(browsers[0])


def test_wrong_codes_elsewhere_do_not_delay_a_known_browser(secret: str) -> None:
    own = by_password()
    own.post(CODE, {"code": code_of(secret)})
    own.post("/accounts/logout/")
    attacker = by_password()
    for _ in range(20):
        attacker.post(CODE, {"code": wrong_code_of(secret)})
    own.post(LOG_IN, {"username": "bob", "password": PASSWORD})
    own.post(CODE, {"code": code_of(secret, steps=1)})
    assert is_in(own)


# ---- the other doors -------------------------------------------------------------------------------------------------


def test_a_password_gives_no_token_without_the_code(secret: str) -> None:
    answer = ask_for_token()
    assert (answer.status_code, answer.json()["code"]) == (401, "code_needed")
    assert "portal" in answer.json()["detail"]
    answer = ask_for_token(code=wrong_code_of(secret))
    assert (answer.status_code, answer.json()["code"]) == (401, "wrong_code")
    assert not ApiToken.objects.exists()
    assert ask_for_token(code=code_of(secret)).status_code == 201


def test_a_stolen_session_with_the_password_removes_no_second_factor(bob: User, secret: str) -> None:
    stolen = by_password()
    stolen.post(CODE, {"code": code_of(secret)})
    assert stolen.get(f"{OWN}app/remove/").headers["Location"].startswith("/accounts/again/code/")
    by_the_password = stolen.post(f"/accounts/again/?next={OWN}app/remove/", {"password": PASSWORD})
    assert by_the_password.headers["Location"].startswith("/accounts/again/code/")
    stolen.post(f"{OWN}app/remove/")
    assert Authenticator.objects.filter(user=bob).exists()


def test_password_guesses_in_a_session_are_delayed(bob: User) -> None:
    stolen = by_password()
    for _ in range(15):
        stolen.post("/accounts/again/?next=/jobs/", {"password": "guess"})
    assert FailedLogIn.objects.filter(of_code=False).count() == 10


def test_a_user_cannot_remove_the_key_of_another(bob: User) -> None:
    of_eve = Authenticator.objects.create(user=make_user(username="eve"), type="webauthn", data={"name": "eve's"})
    browser = by_password()
    browser.post(f"/accounts/again/?next={OWN}", {"password": PASSWORD})
    assert browser.post(f"{OWN}keys/{of_eve.pk}/remove/").status_code == 404


@pytest.mark.parametrize("address", ["signup/", "password/reset/", "email/", "login/code/confirm/", "2fa/", "social/"])
def test_other_pages_of_allauth_are_not_reachable(address: str) -> None:
    assert Client().get(f"/accounts/{address}").status_code == 404


# ---- required --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", ["operators", "staff"])
def test_without_a_required_second_factor_only_its_set_up_is_reachable(
    bob: User, settings: Settings, wanted: str
) -> None:
    settings.WMS_REQUIRE_SECOND_FACTOR = wanted
    browser = by_password()
    for address in ("/jobs/", "/admin/", "/admin/accounts/user/", "/jobs/submit/"):
        assert browser.get(address).headers["Location"] == OWN
        assert browser.post(address).headers["Location"] == OWN
    for method in ("get", "post"):
        answer = getattr(browser, method)("/api/v1/jobs/")
        assert (answer.status_code, answer.json()["code"]) == (403, "second_factor_required")
    assert browser.get(OWN).status_code == 200
    answer = ask_for_token()
    assert (answer.status_code, answer.json()["code"]) == (403, "second_factor_required")
    browser.post("/accounts/again/code/", {"code": code_of(make_app(bob))})
    assert is_in(browser)


@pytest.mark.django_db(transaction=True)
def test_setting_up_the_required_second_factor_gives_access(bob: User, settings: Settings) -> None:
    settings.WMS_REQUIRE_SECOND_FACTOR = "operators"
    browser = by_password()
    browser.post("/accounts/again/", {"password": PASSWORD})
    secret = browser.get(f"{OWN}app/").context["form"].secret
    assert browser.post(f"{OWN}app/", {"code": code_of(secret)}).headers["Location"] == f"{OWN}codes/"
    assert "Location" not in browser.get("/jobs/").headers


def test_users_without_the_requirement_need_no_second_factor(settings: Settings) -> None:
    make_user(username="bob", password=PASSWORD, staff=True)
    settings.WMS_REQUIRE_SECOND_FACTOR = "operators"
    assert is_in(by_password())


def test_recovery_codes_alone_do_not_count_as_second_factor(bob: User, settings: Settings) -> None:
    settings.WMS_REQUIRE_SECOND_FACTOR = "operators"
    make_recovery_codes(bob)
    assert by_password().get("/jobs/").headers["Location"] == OWN


# ---- secrets, and those who lost theirs ------------------------------------------------------------------------------


def test_a_database_dump_contains_no_readable_keys_or_codes(bob: User, secret: str) -> None:
    codes = make_recovery_codes(bob)
    found = stored(bob)
    assert secret not in found
    assert not any(code in found for code in codes)


def test_keys_are_encrypted_anew_when_the_key_of_the_server_changes(bob: User, secret: str, settings: Settings) -> None:
    codes = make_recovery_codes(bob)
    old, settings.SECRET_KEY = settings.SECRET_KEY, "another key, of fifty characters or more, as it should be"
    settings.SECRET_KEY_FALLBACKS = [old]
    assert len(rotate().previous) == 2
    settings.SECRET_KEY_FALLBACKS = []
    assert ask_for_token(code=code_of(secret)).status_code == 201
    assert ask_for_token(code=codes[0]).status_code == 201


def test_only_operators_reset_others_and_it_is_recorded(bob: User) -> None:
    eve = make_user(username="eve")
    make_app(eve)
    form = {"action": "reset_second_factor", "_selected_action": [eve.pk]}
    manager = Client()
    manager.force_login(make_user(staff=True, manages=[make_group().vo]))
    manager.post("/admin/accounts/user/", form)
    assert Authenticator.objects.filter(user=eve).exists()
    operator = Client()
    operator.force_login(bob)
    operator.post("/admin/accounts/user/", form)
    assert not Authenticator.objects.filter(user=eve).exists()
    event = SecurityEvent.objects.get(kind=SecurityEventKind.SECOND_FACTOR_REMOVED)
    assert (event.actor_name, event.target) == ("bob", "user eve")


def test_a_stolen_session_of_an_operator_does_not_reset_its_own_second_factor(bob: User, secret: str) -> None:
    stolen = by_password()
    stolen.post(CODE, {"code": code_of(secret)})
    stolen.post("/admin/accounts/user/", {"action": "reset_second_factor", "_selected_action": [bob.pk]})
    assert Authenticator.objects.filter(user=bob).exists()


def test_a_command_resets_the_second_factor_of_the_last_operator(bob: User, secret: str) -> None:
    call_command("reset_second_factor", "bob")
    assert is_in(by_password())
    assert SecurityEvent.objects.get(kind=SecurityEventKind.SECOND_FACTOR_REMOVED).target == "user bob"


def test_existing_tokens_stay_valid(bob: User, settings: Settings) -> None:
    settings.WMS_REQUIRE_SECOND_FACTOR = "operators"
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(bob)}")
    assert client.get("/api/v1/auth/me/").status_code == 200


def test_a_session_by_password_needs_a_factor_set_up_elsewhere(bob: User, settings: Settings) -> None:
    """Somebody has bob's password and waits until bob has done what is required of him."""
    settings.WMS_REQUIRE_SECOND_FACTOR = "operators"
    browser = by_password()
    assert browser.get("/admin/").headers["Location"] == OWN
    secret = make_app(bob)
    for address in ("/jobs/", "/admin/", "/accounts/tokens/", "/accounts/password/"):
        assert browser.get(address).headers["Location"] == "/accounts/again/code/"
    assert browser.get("/api/v1/auth/me/").status_code == 403
    browser.post("/accounts/again/code/", {"code": code_of(secret)})
    assert browser.get("/admin/").status_code == 200
