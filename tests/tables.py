"""Changes of rows in tests: found by checksums and counts, undone, and all rows deleted after a test."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.db import connection, transaction

#: Of all tables; a row in each takes a third of it. More space of deleted rows would change plans of later tests.
_MOST_BYTES: Final = 2 << 20


def checksums(*, without: Collection[str] = (), but_session: str = "") -> Mapping[str, str]:
    """Return a checksum of each table but *without*; in the table of sessions, the one with this key is left out."""
    tables = sorted({*connection.introspection.table_names()} - {*without})
    sums = " UNION ALL ".join(
        f"SELECT '{table}', coalesce(md5(string_agg(t::text, ',' ORDER BY t::text)), '') FROM {table} t"
        + (" WHERE session_key <> %(session)s" if table == Session._meta.db_table else "")
        for table in tables
    )
    with connection.cursor() as cursor:
        cursor.execute(sums, {"session": but_session})
        return dict(cursor.fetchall())


def rows_written(*, without: Collection[str] = ()) -> int:
    """Return the number of rows that this transaction has written so far, undone ones included, but those *without*."""
    # The view pg_stat_xact_user_tables has the same numbers, but counts those of all indexes first.
    count = " + ".join(f"pg_stat_get_xact_tuples_{done}(oid)" for done in ("inserted", "updated", "deleted"))
    tables = "relkind = 'r' AND relnamespace = current_schema()::regnamespace AND relname <> ALL(%s)"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT sum({count}) FROM pg_class WHERE {tables}", [[*without]])
        return int(cursor.fetchone()[0])


@contextmanager
def undone() -> Iterator[None]:
    """Undo, at the end of the context, all changes of rows in it."""
    # Not atomic(): the services insist on being the outermost, but for the test's own transaction.
    before = transaction.savepoint()
    try:
        yield
    finally:
        transaction.savepoint_rollback(before)


def empty_tables() -> None:
    """Delete all rows but those of content types and permissions, which Django makes with the tables.

    Django's TRUNCATE of all tables, which this replaces, makes new files for 90 tables and their indexes each time.
    """
    kept = {ContentType._meta.db_table, Permission._meta.db_table}
    tables = sorted({*connection.introspection.django_table_names(only_existing=True, include_views=False)} - kept)
    names = ", ".join(tables)
    with_rows = " UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT FROM {table})" for table in tables)
    with transaction.atomic(), connection.cursor() as cursor:
        # As TRUNCATE does: waits for the end of transactions that others have begun.
        cursor.execute(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE")
        cursor.execute("SELECT sum(pg_relation_size(name::regclass)) FROM unnest(%s::text[]) AS name", [tables])
        if cursor.fetchone()[0] > _MOST_BYTES:
            cursor.execute(f"TRUNCATE {names}")
            return
        # No trigger, and so no foreign key, acts.
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(with_rows)
        for (table,) in cursor.fetchall():
            cursor.execute(f"DELETE FROM {table}")
