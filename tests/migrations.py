"""Databases as they were before a migration."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.db.migrations.executor import MigrationExecutor


@contextmanager
def before_migration(app: str, name: str) -> Iterator[None]:
    """Undo one migration, with the rows that there are, and apply it again at the end.

    Later ones that concern the same tables have to be undone before it, so that the tests that follow find the database
    as it was.
    """
    _migrate(app, name, forward=False)
    yield
    _migrate(app, name, forward=True)


@contextmanager
def before_compressed_outputs() -> Iterator[None]:
    """Undo what made the last lines of outputs those of attempts, and compressed them."""
    with before_migration("jobs", "0027_tails_of_attempts"), before_migration("jobs", "0025_compressed_outputs"):
        yield


@contextmanager
def before_narrow_jobs() -> Iterator[None]:
    """Undo what made the rows of jobs narrow: descriptions and outputs are in them."""
    with before_compressed_outputs(), before_migration("jobs", "0018_narrow_jobs"):
        yield


def _migrate(app: str, name: str, *, forward: bool) -> None:
    loader = MigrationExecutor(connection).loader
    before = loader.project_state((app, name), at_end=False)
    migration = loader.get_migration(app, name)
    with connection.cursor() as cursor:
        # No table is altered while foreign keys are still to be checked.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    with connection.schema_editor() as editor:
        (migration.apply if forward else migration.unapply)(before, editor)
