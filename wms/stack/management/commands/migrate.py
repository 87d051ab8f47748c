"""`manage.py migrate`: Django's command, which refuses databases from before version 0.1.0, and of newer versions."""

from contextlib import nullcontext

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import migrate
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from msgspec import MsgspecError

from wms.jobs.services import accounting
from wms.kernel.clock import current_time
from wms.kernel.database_version import record_version, refusal_of_database
from wms.operations import id_marks


class Command(migrate.Command):
    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--keep-id-mark",
            action="store_true",
            help="then compare the database with the mark of its highest ids, as at each start; a restored one goes on "
            "beyond it, and an empty one begins its accounting",
        )

    def handle(self, *args: object, database: str, keep_id_mark: bool = False, **options: object) -> None:
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
        if keep_id_mark:
            self._keep_id_mark()
            accounting.begin(now=current_time())

    def _keep_id_mark(self) -> None:
        try:
            kept = id_marks.keep()
        except (OSError, MsgspecError) as error:
            raise CommandError(
                f"The mark of the highest ids cannot be kept in {settings.WMS_ID_MARK_DIR} ({error}): after a restore, "
                "ids would be given again. Make room or mend the file, or name another directory in WMS_ID_MARK_DIR."
            ) from error
        if kept.was_set_back:
            self.stderr.write(
                "This database was set back to an earlier state. Its ids go on beyond those that were given, and "
                f"matching is paused for {settings.WMS_LEASE_S} s, until no pilot of before runs its jobs (see each VO "
                "in the admin)."
            )


def _refuse_from_before_squashing(connection: BaseDatabaseWrapper) -> None:
    """Raise an error if only some of the migrations that a squashed one replaces are applied."""
    applied = MigrationRecorder(connection).applied_migrations().keys()
    migrations = MigrationLoader(None).disk_migrations
    for migration in migrations.values():
        removed = set(migration.replaces) - migrations.keys()
        if removed & applied and removed - applied:
            raise CommandError("The database is of a version before 0.1.0: upgrade with 0.1.0 first.")
