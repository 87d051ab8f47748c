"""`manage.py migrate`: Django's command, which refuses databases from before version 0.1.0."""

from contextlib import nullcontext

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder


class Command(migrate.Command):
    def handle(self, *args: object, database: str, **options: object) -> None:
        connection = connections[database]
        _refuse_from_before_squashing(connection)
        # All or nothing: a squashed migration that was interrupted could not be told from a version before 0.1.0.
        is_new = not MigrationRecorder(connection).applied_migrations()
        with transaction.atomic(using=connection.alias) if is_new else nullcontext():
            super().handle(*args, database=database, **options)


def _refuse_from_before_squashing(connection: BaseDatabaseWrapper) -> None:
    """Raise an error if only some of the migrations that a squashed one replaces are applied."""
    applied = MigrationRecorder(connection).applied_migrations().keys()
    migrations = MigrationLoader(None).disk_migrations
    for migration in migrations.values():
        removed = set(migration.replaces) - migrations.keys()
        if removed & applied and removed - applied:
            raise CommandError("The database is of a version before 0.1.0: upgrade with 0.1.0 first.")
