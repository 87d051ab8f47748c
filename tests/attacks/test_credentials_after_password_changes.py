"""Stolen tokens, sessions and links end when the password is changed or the user suspended, by any interface."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.contrib.auth.management.commands import changepassword
from django.core.management import call_command
from django.db import connection
from django.test import Client
from rest_framework.test import APIClient

from tests.factories import make_group, make_token, make_user, make_vo
from wms.accounts.models import User

pytestmark = pytest.mark.django_db

OLD, NEW = "correct horse battery", "a new and longer passphrase"
Door = Callable[[User, Path, pytest.MonkeyPatch], None]


@pytest.fixture
def alice() -> User:
    vo = make_vo(name="lhcb")
    return make_user(username="alice", password=OLD, groups=[make_group(name="lhcb_user", vo=vo)])


def opens(token: str) -> bool:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    status = client.get("/api/v1/auth/me/").status_code
    assert status in {200, 401}
    return bool(status == 200)


def browser_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def is_logged_in(browser: Client) -> bool:
    return bool(browser.get("/jobs/").status_code == 200)


# ---- doors by which a password changes -------------------------------------------------------------------------------


def by_saving(user: User, _: Path, __: pytest.MonkeyPatch) -> None:
    user.set_password(NEW)
    user.save()


def by_an_update(user: User, _: Path, __: pytest.MonkeyPatch) -> None:
    other = User(username="x")
    other.set_password(NEW)
    User.objects.filter(pk=user.pk).update(password=other.password)


def by_sql(user: User, _: Path, __: pytest.MonkeyPatch) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE accounts_user SET password = '!' WHERE id = %s", [user.pk])


def by_the_command(user: User, _: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(changepassword.Command, "_get_pass", lambda *args, **kwargs: NEW)
    call_command("changepassword", user.username, verbosity=0)


def by_the_configuration_file(user: User, directory: Path, _: pytest.MonkeyPatch) -> None:
    file = directory / "configuration.yaml"
    file.write_text(f"users: [{{username: alice, password: {NEW}, groups: [lhcb_user]}}]")
    call_command("configure", str(file), verbosity=0)


def by_suspension(user: User, _: Path, __: pytest.MonkeyPatch) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)
    User.objects.filter(pk=user.pk).update(is_active=True)


DOORS: list[Door] = [
    by_saving, by_an_update, by_sql, by_the_command, by_the_configuration_file, by_suspension
]  # fmt: skip


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_tokens_and_sessions_end_with_password_or_suspension(
    door: Door, alice: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stolen, thief = make_token(alice), browser_of(alice)
    bystander = make_user(username="bob", password=OLD)
    of_bystander, browser_of_bystander = make_token(bystander), browser_of(bystander)
    assert opens(stolen)
    assert is_logged_in(thief)
    door(alice, tmp_path, monkeypatch)
    assert not opens(stolen)
    assert not is_logged_in(thief)
    assert opens(of_bystander)
    assert is_logged_in(browser_of_bystander)


def test_a_stale_save_does_not_restore_sessions_after_a_suspension(alice: User) -> None:
    thief, stale = browser_of(alice), User.objects.get(pk=alice.pk)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    User.objects.filter(pk=alice.pk).update(is_active=True)
    stale.save()
    assert not is_logged_in(thief)


def test_other_changes_of_a_user_revoke_nothing(alice: User) -> None:
    token, browser = make_token(alice), browser_of(alice)
    alice.email, alice.is_staff = "alice@example.org", True
    alice.save()
    User.objects.filter(pk=alice.pk).update(last_login=datetime.now(tz=UTC) + timedelta(hours=1))
    assert opens(token)
    assert is_logged_in(browser)
