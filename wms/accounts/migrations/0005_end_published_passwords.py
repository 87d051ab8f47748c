"""End the passwords of the demonstration that earlier versions published, with the tokens made by them (ADR 84)."""

from django.apps.registry import Apps
from django.contrib.auth.hashers import check_password, make_password
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models.functions import Now

_NAMES = ("alice", "bob", "charlie", "mary", "olga")


def end_published_passwords(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
    """Leave such users without a password: `demo` gives new ones at its next start, operators otherwise."""
    tokens = apps.get_model("accounts", "ApiToken").objects
    for user in apps.get_model("accounts", "User").objects.filter(username__in=_NAMES):
        if check_password(f"{user.username}-demo", user.password):
            user.password = make_password(None)
            user.save(update_fields=["password"])
            tokens.filter(user=user, revoked_at=None).update(revoked_at=Now())


class Migration(migrations.Migration):
    dependencies = [("accounts", "0004_user_session")]
    operations = [migrations.RunPython(end_published_passwords, migrations.RunPython.noop)]
