"""One-time links for passwords: used twice, expired, replaced by a newer one, or used by the wrong person."""

import logging
import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from tests.factories import make_group, make_token, make_user, make_vo
from wms.accounts import queries, services
from wms.accounts.models import PasswordLink, SecurityEvent, User

pytestmark = pytest.mark.django_db

PASSWORD = "a new and longer passphrase"
OVER = "This link was used already, or has expired"


@pytest.fixture
def alice() -> User:
    return make_user(username="alice", password="the old passphrase", groups=[make_group(vo=make_vo(name="lhcb"))])


@pytest.fixture
def operator() -> Client:
    client = Client()
    client.force_login(make_user(username="olivia", staff=True, operator=True))
    return client


def address_of(user: User) -> str:
    return reverse("admin:auth_user_password_change", args=[user.pk])


def link_of(operator: Client, user: User) -> str:
    page = operator.post(address_of(user))
    assert "no-store" in page["Cache-Control"]
    found = re.search(r'id="link">http://testserver(/[^<]+)<', page.content.decode())
    assert found is not None
    return found[1]


def use(link: str, password: str = PASSWORD, *, browser: Client | None = None) -> int:
    """Return the status of the form's answer: 302 when the password was set."""
    browser = browser or Client()
    browser.get(link, follow=True)
    form = {"new_password1": password, "new_password2": password}
    return int(browser.post(reverse("portal:password-by-link"), form).status_code)


def has_password(user: User, password: str) -> bool:
    return User.objects.get(pk=user.pk).check_password(password)


def test_a_link_sets_a_password_once_and_ends_tokens_and_sessions(operator: Client, alice: User) -> None:
    token, browser = make_token(alice), Client()
    browser.force_login(alice)
    link = link_of(operator, alice)
    assert has_password(alice, "the old passphrase")
    assert use(link) == 302
    assert has_password(alice, PASSWORD)
    assert queries.bearer_of(token, now=timezone.now()) is None
    assert browser.get("/jobs/").status_code == 302
    assert use(link, "yet another passphrase") == 404
    assert has_password(alice, PASSWORD)


def test_opening_a_link_keeps_it_valid_and_the_page_has_no_secret(operator: Client, alice: User) -> None:
    link = link_of(operator, alice)
    for _ in range(2):  # programs that preview links open them too
        response = Client().get(link)
        assert response["Location"] == reverse("portal:password-by-link")
    page = Client()
    assert link.split("/")[-2] not in page.get(link, follow=True).content.decode()
    assert use(link) == 302


def test_an_expired_password_link_is_refused(operator: Client, alice: User) -> None:
    link = link_of(operator, alice)
    PasswordLink.objects.update(expires_at=timezone.now())
    assert use(link) == 404
    assert has_password(alice, "the old passphrase")


def test_a_link_expires_after_its_setting(settings: Settings, alice: User) -> None:
    settings.WMS_PASSWORD_LINK_S, now = 60, timezone.now()
    secret = services.issue_password_link(alice, now=now).secret
    assert services.user_of_link(secret, now=now + timedelta(seconds=59)) == alice
    with pytest.raises(services.LinkOverError):
        services.user_of_link(secret, now=now + timedelta(seconds=60))


def test_a_newer_link_ends_an_older_one(operator: Client, alice: User) -> None:
    older, newer = link_of(operator, alice), link_of(operator, alice)
    assert use(older) == 404
    assert use(newer) == 302


def test_whoever_knew_the_session_before_the_link_sets_no_password(operator: Client, alice: User) -> None:
    victim, attacker = Client(), Client()
    session = victim.session  # planted by the attacker
    session["planted"] = True
    session.save()
    attacker.cookies["wms_session"] = victim.cookies["wms_session"].value
    victim.get(link_of(operator, alice))
    form = {"new_password1": PASSWORD, "new_password2": PASSWORD}
    assert attacker.post(reverse("portal:password-by-link"), form).status_code == 404
    assert victim.post(reverse("portal:password-by-link"), form).status_code == 302


def test_a_page_that_was_opened_before_does_not_outlive_the_link(operator: Client, alice: User) -> None:
    thief, link = Client(), link_of(operator, alice)
    thief.get(link, follow=True)
    assert use(link) == 302
    form = {"new_password1": "the thief's passphrase", "new_password2": "the thief's passphrase"}
    assert thief.post(reverse("portal:password-by-link"), form).status_code == 404
    assert has_password(alice, PASSWORD)


@pytest.mark.parametrize("ended_by", ["a change of the password", "suspension"])
def test_password_links_are_revoked_by_events(ended_by: str, operator: Client, alice: User) -> None:
    link = link_of(operator, alice)
    if ended_by == "suspension":
        User.objects.filter(pk=alice.pk).update(is_active=False)
        User.objects.filter(pk=alice.pk).update(is_active=True)
    else:
        alice.set_password("changed by herself")
        alice.save()
    assert use(link) == 404
    assert not has_password(alice, PASSWORD)


def test_a_suspended_user_gets_no_link(operator: Client, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    page = operator.post(address_of(alice), follow=True).content.decode()
    assert "Alice is suspended and gets no link." in page
    assert not PasswordLink.objects.exists()


def test_a_weak_password_is_refused_and_leaves_the_link_as_it_was(operator: Client, alice: User) -> None:
    link = link_of(operator, alice)
    for weak in ("alice", "12345678", "password", ""):
        assert use(link, weak) == 200
    assert use(link) == 302


def test_only_operators_issue_links_and_of_superusers_only_superusers(alice: User) -> None:
    vo = alice.memberships.get().group.vo
    root = make_user(username="root", superuser=True, staff=True)
    tries = [
        (make_user(staff=True, manages=[vo]), alice),
        (make_user(staff=True), alice),
        (make_user(operator=True), alice),
        (make_user(staff=True, operator=True), root),
        (AnonymousUser(), alice),
    ]
    for who, whose in tries:
        client = Client()
        if isinstance(who, User):
            client.force_login(who)
        for answer in (client.get(address_of(whose)), client.post(address_of(whose))):
            assert answer.status_code in {302, 403}
    assert not PasswordLink.objects.exists()


def test_the_admin_sets_no_password_of_another_user(operator: Client, alice: User) -> None:
    form = {"password1": PASSWORD, "password2": PASSWORD, "usable_password": "true", "set-password": "1"}
    operator.post(address_of(alice), form)
    change = reverse("admin:accounts_user_change", args=[alice.pk])
    operator.post(change, {"password": "x", **form, "is_active": "on"})
    assert has_password(alice, "the old passphrase")


def test_adding_an_account_returns_a_link_and_no_password(operator: Client) -> None:
    rows = {"memberships-TOTAL_FORMS": "0", "memberships-INITIAL_FORMS": "0"}
    form = {"username": "nora", "password1": PASSWORD, "password2": PASSWORD, "usable_password": "true", **rows}
    page = operator.post(reverse("admin:accounts_user_add"), form).content.decode()
    nora = User.objects.get(username="nora")
    assert not nora.has_usable_password()
    found = re.search(r'id="link">http://testserver(/[^<]+)<', page)
    assert found is not None
    assert use(found[1]) == 302
    assert has_password(nora, PASSWORD)


def test_no_secret_of_a_link_is_stored_or_logged(
    operator: Client, alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="wms"):
        link = link_of(operator, alice)
        secret = link.split("/")[-2]
        use(link)
    assert secret not in caplog.text
    with connection.cursor() as cursor:
        for table in ("accounts_passwordlink", "accounts_securityevent", "django_admin_log"):
            cursor.execute(f"SELECT coalesce(string_agg(t::text, ' '), '') FROM {table} t")
            assert secret not in cursor.fetchone()[0]
    kinds = set(SecurityEvent.objects.values_list("kind", flat=True))
    assert {"password_link.issued", "password.changed"} <= kinds


@pytest.mark.parametrize("method", ["head", "options", "post", "put", "delete", "get"])
def test_a_link_requested_by_a_mail_scanner_is_not_logged(
    method: str, operator: Client, alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    link = link_of(operator, alice)
    with caplog.at_level(logging.DEBUG):
        answer = getattr(Client(enforce_csrf_checks=True), method)(link)
    assert answer.status_code == 302
    assert link.split("/")[-2] not in caplog.text
    use(link)  # it is as good as before


def test_guessed_links_create_no_rows(alice: User) -> None:
    browser = Client()
    page = browser.get(reverse("portal:password-link", args=["x" * 43]), follow=True)
    assert page.status_code == 404
    assert OVER in page.content.decode()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM django_session")
        assert cursor.fetchone()[0] == 0
