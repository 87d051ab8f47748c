"""Let the registration tokens that sites have expire a year from now; those of the configuration file do not."""

from datetime import timedelta

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps
from django.utils import timezone

_YEAR = timedelta(days=365)


def let_expire(apps: StateApps, _: BaseDatabaseSchemaEditor) -> None:
    """Give those that were issued an expiry."""
    tokens = apps.get_model("resources", "SiteToken").objects
    issued = tokens.filter(purpose="register", configured=False, revoked_at=None, expires_at=None)
    issued.update(expires_at=timezone.now() + _YEAR)


class Migration(migrations.Migration):
    dependencies = [("resources", "0017_registration_tokens_expire")]

    operations = [migrations.RunPython(let_expire, migrations.RunPython.noop)]
