"""The tables of a new database, made by one script instead of by all migrations since the first.

Django makes its models anew for most operations of a migration: all of them take more than ten seconds of CPU time, and
the script takes less than one. A test compares what both make.
"""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

SCRIPT: Final = Path(__file__).with_name("new_database.sql")


def first_line(migrations: Iterable[tuple[str, str]]) -> str:
    """Return the first line of the script that makes what these migrations (app, name) make."""
    names = "\n".join(f"{app}.{name}" for app, name in sorted(migrations))
    return f"-- Migrations: {sha256(names.encode()).hexdigest()}\n"


def make_tables(alias: str = DEFAULT_DB_ALIAS) -> bool:
    """Make the tables of a database that has none, and note all migrations as applied; return whether this was done.

    It is not done if the script was made for other migrations, such as those of another version of Django, or if tables
    are made in another schema than ``public``.
    """
    connection = connections[alias]
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_schema()")
        is_usual = cursor.fetchone() == ("public",)
        if not is_usual or connection.introspection.table_names(cursor):
            return False
    migrations = sorted(MigrationLoader(connection).disk_migrations)
    script = SCRIPT.read_text(encoding="utf-8")
    if not script.startswith(first_line(migrations)):
        return False
    with transaction.atomic(using=alias), connection.cursor() as cursor:
        cursor.execute(script)
        recorder = MigrationRecorder(connection)
        recorder.migration_qs.bulk_create(recorder.Migration(app=app, name=name) for app, name in migrations)
    return True
