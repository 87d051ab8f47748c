"""Locking other users out by failed log-ins in their name, and guessing passwords in spite of the log-in delay."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from pytest_django import Settings
from rest_framework.test import APIClient

from tests.cases import quick_cases
from tests.factories import make_user
from wms.accounts import services
from wms.accounts.domain import digest_of
from wms.accounts.models import FailedLogIn, User
from wms.accounts.services import devices, log_in_delay

pytestmark = pytest.mark.django_db

LOG_IN = "/accounts/login/"
PASSWORD = "correct horse battery staple"
#: Where everybody seems to be behind a proxy that is not named in WMS_TRUSTED_PROXIES.
PROXY = "10.0.0.5"


WAIT_OF_BOB = services.waiting_cookie_name("bob")


@pytest.fixture
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let devices wait no time at all."""
    monkeypatch.setattr(devices, "DEVICE_WAIT", timedelta(0))


@pytest.fixture
def bob() -> User:
    return make_user(username="bob", password=PASSWORD)


def log_in(browser: Client, username: str, password: str = PASSWORD, **extra: Any) -> Any:
    return browser.post(LOG_IN, {"username": username, "password": password}, REMOTE_ADDR=PROXY, **extra)


def ask_for_token(username: str, password: str = PASSWORD, **extra: Any) -> Any:
    body = {"username": username, "password": password}
    return APIClient().post("/api/v1/auth/token/", body, format="json", **{"REMOTE_ADDR": PROXY, **extra})


def known_browser(username: str) -> Client:
    """Return a browser with which the user has logged in before and out again."""
    before = Client()
    assert log_in(before, username).status_code == 302
    after = Client()
    for name, cookie in before.cookies.items():
        if name.startswith("wms_device_"):
            after.cookies[name] = cookie.value
    assert len(after.cookies) == 1
    return after


def guess(username: str, times: int, **extra: Any) -> None:
    for _ in range(times):
        assert ask_for_token(username, "guess", **extra).status_code in {401, 429}


# ---- others are not locked out ---------------------------------------------------------------------------------------


def test_a_known_browser_logs_in_while_others_guess_passwords(bob: User) -> None:
    browser = known_browser("bob")
    guess("bob", 30)
    assert log_in(Client(), "bob").status_code == 429
    assert log_in(browser, "bob").status_code == 302


def test_known_programs_log_in_while_others_guess_from_the_same_address(bob: User) -> None:
    """A client that asks for tokens as `wms login` does: known again like a browser."""
    program = APIClient()
    body = {"username": "bob", "password": PASSWORD}
    assert program.post("/api/v1/auth/token/", body, format="json", REMOTE_ADDR=PROXY).status_code == 201
    guess("bob", 10)
    assert ask_for_token("bob").status_code == 429
    answer = program.post("/api/v1/auth/token/", body, format="json", REMOTE_ADDR=PROXY)
    assert answer.status_code == 201
    (cookie,) = (each for name, each in program.cookies.items() if name.startswith("wms_device_"))
    assert cookie["httponly"]
    assert (cookie["path"], cookie["samesite"]) == ("/api/v1/auth/token/", "Strict")


def test_an_unknown_browser_is_delayed_by_seconds_only(bob: User) -> None:
    guess("bob", 10)
    answer = log_in(Client(), "bob")
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) <= 10
    FailedLogIn.objects.update(failed_at=datetime.now(tz=UTC) - timedelta(seconds=10))
    assert log_in(Client(), "bob").status_code == 302


def test_failures_of_a_hundred_random_names_delay_nobody(bob: User) -> None:
    operator = make_user(username="olga", password=PASSWORD, operator=True)
    browser = known_browser(operator.username)
    for number in range(110):
        assert ask_for_token(f"random{number}", "guess").status_code in {401, 429}
    assert log_in(browser, "olga").status_code == 302
    assert log_in(Client(), "bob").status_code == 302


def test_a_new_browser_need_only_wait_while_others_guess_its_password(bob: User, no_wait: None) -> None:
    guess("bob", 30)
    browser = Client()
    answer = log_in(browser, "bob")
    assert (answer.status_code, int(answer.headers["Retry-After"])) == (429, 10)
    assert log_in(Client(), "bob").status_code == 429
    assert log_in(browser, "bob").status_code == 302


def test_a_new_program_need_only_wait_as_well(bob: User, no_wait: None) -> None:
    guess("bob", 30)
    program, body = APIClient(), {"username": "bob", "password": PASSWORD}
    answers = [program.post("/api/v1/auth/token/", body, format="json", REMOTE_ADDR=PROXY) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [429, 201]


def test_a_device_waits_twenty_seconds_from_its_first_refusal(bob: User) -> None:
    guess("bob", 10)
    browser = Client()
    assert log_in(browser, "bob").status_code == 429
    cookie = browser.cookies[WAIT_OF_BOB].value
    assert log_in(browser, "bob").status_code == 429
    assert browser.cookies[WAIT_OF_BOB].value == cookie
    refused_at = datetime.now(tz=UTC)
    for wait_s, has_waited in ((10, False), (21, True), (235, True), (241, False)):
        device = services.waited_device(
            {WAIT_OF_BOB: cookie}, username="bob", now=refused_at + timedelta(seconds=wait_s)
        )
        assert bool(device) is has_waited


def test_waiting_allows_four_attempts_with_one_name_and_each_device_one(bob: User, no_wait: None) -> None:
    make_user(username="eve", password=PASSWORD)
    guess("bob", 10)
    guess("eve", 10)
    browsers = [Client() for _ in range(6)]
    for device in browsers:
        log_in(device, "bob", "guess")
    cookies = [device.cookies[WAIT_OF_BOB].value for device in browsers]
    browsers[0].cookies[services.waiting_cookie_name("eve")] = cookies[0]
    assert log_in(browsers[0], "eve", "guess").status_code == 429  # a cookie is for one name
    assert log_in(browsers[0], "bob", "guess").status_code == 200
    browsers[0].cookies[WAIT_OF_BOB] = cookies[0]
    assert log_in(browsers[0], "bob", "guess").status_code == 429
    assert [log_in(each, "bob", "guess").status_code for each in browsers[1:]] == [200] * 3 + [429] * 2


@pytest.mark.parametrize(
    ("names", "guesses_before", "most_guesses"),
    quick_cases([("bob", 0, 30), ("another each time", 850, 166), ("20 others", 850, 100)], quick=1),
)
def test_a_new_device_is_in_within_thirty_seconds_beside_a_guesser(
    names: str, guesses_before: int, most_guesses: int
) -> None:
    """The rule, simulated: somebody at the same address tries every other second for five minutes, and goes on."""
    start, arrives_s, guesses = datetime(2026, 6, 1, 12, tzinfo=UTC), 300, 0
    FailedLogIn.objects.bulk_create(
        FailedLogIn(name_digest=digest_of(f"other{number}"), address=PROXY, failed_at=start + timedelta(seconds=200))
        for number in range(guesses_before)
    )
    for elapsed_s in range(0, arrives_s + 31, 2):
        now, waited_s = start + timedelta(seconds=elapsed_s), elapsed_s - arrives_s
        name = {"bob": "bob", "20 others": f"user{elapsed_s % 40}"}.get(names, f"new{elapsed_s}")
        guesses += is_checked(name, now)
        if waited_s >= 0 and waited_s % 4 == 0 and is_checked("bob", now, "w1" if waited_s >= 20 else ""):
            break
    else:
        pytest.fail("the device was not let in")
    assert guesses <= most_guesses


def is_checked(name: str, now: datetime, waited_device: str = "") -> bool:
    """Whether the password of an attempt is checked; it then fails."""
    attempt = log_in_delay.attempt_of_password(username=name, address=PROXY, device="", waited_device=waited_device)
    try:
        log_in_delay.begin(attempt, now=now)
    except services.TooManyFailuresError:
        return False
    return True


def test_a_user_is_not_locked_out_by_a_thousand_addresses(bob: User) -> None:
    now = datetime.now(tz=UTC)
    FailedLogIn.objects.bulk_create(
        FailedLogIn(name_digest=digest_of("bob"), address=f"198.51.{n // 250}.{n % 250}", failed_at=now)
        for n in range(1000)
    )
    assert ask_for_token("bob", REMOTE_ADDR="192.0.2.1").status_code == 201


def test_behind_a_trusted_proxy_each_client_has_an_address_of_its_own(bob: User, settings: Settings) -> None:
    settings.WMS_TRUSTED_PROXIES = [PROXY]
    guess("bob", 20, HTTP_X_FORWARDED_FOR="203.0.113.66")
    assert ask_for_token("bob", HTTP_X_FORWARDED_FOR="203.0.113.66").status_code == 429
    assert ask_for_token("bob", HTTP_X_FORWARDED_FOR="203.0.113.7").status_code == 201


# ---- and who guesses is stopped --------------------------------------------------------------------------------------


def test_an_invented_forwarded_address_gives_no_further_tries(bob: User, settings: Settings) -> None:
    settings.WMS_TRUSTED_PROXIES = [PROXY]
    answers = [
        ask_for_token("bob", "guess", REMOTE_ADDR="203.0.113.66", HTTP_X_FORWARDED_FOR=f"198.51.100.{number}")
        for number in range(11)
    ]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]


def test_addresses_invented_before_those_of_the_proxy_give_no_further_tries(bob: User, settings: Settings) -> None:
    settings.WMS_TRUSTED_PROXIES = [PROXY]
    answers = [
        ask_for_token("bob", "guess", HTTP_X_FORWARDED_FOR=f"198.51.100.{number}, 203.0.113.66") for number in range(11)
    ]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]


def test_all_addresses_of_one_customer_count_together(bob: User) -> None:
    answers = [ask_for_token("bob", "guess", REMOTE_ADDR=f"2001:db8:1:2::{number:x}") for number in range(1, 12)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]
    assert ask_for_token("bob", REMOTE_ADDR="2001:db8:1:3::1").status_code == 201


def test_guesses_from_a_known_browser_are_delayed(bob: User) -> None:
    browser = known_browser("bob")
    answers = [log_in(browser, "bob", "guess").status_code for _ in range(11)]
    assert answers == [200] * 10 + [429]


def test_a_device_cookie_is_valid_for_its_account_and_password_only(bob: User) -> None:
    make_user(username="eve", password=PASSWORD)
    of_eve = known_browser("eve")
    (value,) = (cookie.value for cookie in of_eve.cookies.values())
    forged = Client()
    forged.cookies[services.device_cookie_name("bob")] = value
    of_bob = known_browser("bob")
    bob.set_password("another one altogether")
    bob.save()
    guess("bob", 10)
    assert log_in(forged, "bob", "another one altogether").status_code == 429
    assert log_in(of_bob, "bob", "another one altogether").status_code == 429


def test_the_device_cookie_is_httponly_and_samesite(bob: User, settings: Settings) -> None:
    settings.SESSION_COOKIE_SECURE = True
    browser = Client()
    log_in(browser, "bob")
    cookie = browser.cookies[services.device_cookie_name("bob")]
    assert (cookie["httponly"], cookie["secure"], cookie["samesite"], cookie["path"]) == (
        True,
        True,
        "Strict",
        "/accounts/",
    )


@pytest.mark.django_db(transaction=True)
def test_simultaneous_guesses_count_one_by_one() -> None:
    make_user(username="bob", password=PASSWORD)

    def one(_: int) -> int:
        try:
            return int(ask_for_token("bob", "guess").status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=8) as threads:
        answers = list(threads.map(one, range(24)))
    assert sorted(answers) == [401] * 10 + [429] * 14
