"""`manage.py migrate`: Django's command, which refuses databases from before version 0.1.0."""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder


class Command(migrate.Command):
    def handle(self, *args: object, **options: Any) -> None:  # noqa: ANN401 - as Django's
        _refuse_from_before_squashing(connections[options["database"]])
        super().handle(*args, **options)


def _refuse_from_before_squashing(connection: BaseDatabaseWrapper) -> None:
    """Raise an error if only some of the migrations that a squashed one replaces are applied.

    Several squashed ones may be applied and others not, as in a new database whose first `migrate` was interrupted.
    """
    applied = MigrationRecorder(connection).applied_migrations().keys()
    migrations = MigrationLoader(None).disk_migrations
    for migration in migrations.values():
        removed = set(migration.replaces) - migrations.keys()
        if removed & applied and removed - applied:
            raise CommandError("The database is of a version before 0.1.0: upgrade with 0.1.0 first.")
