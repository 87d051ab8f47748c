"""Passwords that the demonstration of earlier versions published end with the upgrade."""

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from tests.factories import make_token, make_user
from wms.accounts.models import ApiToken, User


@pytest.mark.django_db
def test_published_passwords_end_with_their_tokens_and_others_stay() -> None:
    for username, password in (("olga", "olga-demo"), ("alice", "a password of her own"), ("dave", "dave-demo")):
        user = make_user(username=username)
        user.set_password(password)
        user.save()
        make_token(user)
    migration = import_module("wms.accounts.migrations.0005_end_published_passwords")

    with connection.schema_editor() as editor:
        migration.end_published_passwords(apps, editor)

    usable = {user.username: user.has_usable_password() for user in User.objects.all()}
    assert usable == {"olga": False, "alice": True, "dave": True}
    assert [token.user.username for token in ApiToken.objects.exclude(revoked_at=None)] == ["olga"]
