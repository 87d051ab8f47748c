"""Checksums of tables and counts of written rows, to find changes."""

from collections.abc import Collection, Mapping

from django.contrib.sessions.models import Session
from django.db import connection


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
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_xact_user_tables WHERE relname <> ALL(%s)",
            [[*without]],
        )
        return int(cursor.fetchone()[0])
