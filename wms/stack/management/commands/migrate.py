"""`manage.py migrate`: Django's command, which refuses databases from before version 0.1.0, and of newer versions."""

from contextlib import nullcontext

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from wms.kernel.database_version import record_version, refusal_of_database


class Command(migrate.Command):
    def handle(self, *args: object, database: str, **options: object) -> None:
        connection = connections[database]
        _refuse_from_before_squashing(connection)
        if refusal := refusal_of_database():
            raise CommandError(refusal)
        recorder = MigrationRecorder(connection)
        before = recorder.applied_migrations()
        # All or nothing: a squashed migration that was interrupted could not be told from a version before 0.1.0.
        with nullcontext() if before else transaction.atomic(using=connection.alias):
            super().handle(*args, database=database, **options)
            if (after := recorder.applied_migrations().keys()) != before.keys():
                record_version(applied=bool(after - before.keys()))


def _refuse_from_before_squashing(connection: BaseDatabaseWrapper) -> None:
    """Raise an error if only some of the migrations that a squashed one replaces are applied."""
    applied = MigrationRecorder(connection).applied_migrations().keys()
    migrations = MigrationLoader(None).disk_migrations
    for migration in migrations.values():
        removed = set(migration.replaces) - migrations.keys()
        if removed & applied and removed - applied:
            raise CommandError("The database is of a version before 0.1.0: upgrade with 0.1.0 first.")
