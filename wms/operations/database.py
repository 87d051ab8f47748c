"""Facts about the PostgreSQL server, as its statistics have them; each function is one statement."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db import connection

#: Condition of connections of clients. Roles without pg_monitor do not see the kind of others' connections.
_OF_CLIENTS = "usesysid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend'"


class Transaction(NamedTuple):
    """An open transaction."""

    seconds: float
    #: Empty: its client has named none.
    application_name: str
    #: Process of the server.
    pid: int


def connections() -> Mapping[str, int]:
    """Return {application_name: number of connections} of all clients of the server; empty names are of no name."""
    statement = f"SELECT application_name, count(*) FROM pg_stat_activity WHERE {_OF_CLIENTS} GROUP BY 1"  # noqa: S608 - a constant
    return dict(_rows(statement))


def most_connections() -> int:
    """Return how many connections the server accepts from roles that are no superusers."""
    ((most,),) = _rows(
        "SELECT current_setting('max_connections')::integer"
        " - current_setting('superuser_reserved_connections')::integer"
    )
    return int(most)


def longest_transaction() -> Transaction | None:
    """Return the longest open transaction of a client of this database but this connection's; None: there is none."""
    statement = (
        "SELECT extract(epoch FROM clock_timestamp() - xact_start)::double precision, application_name, pid"  # noqa: S608 - a constant
        f" FROM pg_stat_activity WHERE {_OF_CLIENTS} AND datname = current_database() AND pid <> pg_backend_pid()"
        " AND xact_start IS NOT NULL ORDER BY xact_start, pid LIMIT 1"
    )
    rows = _rows(statement)
    return Transaction(*rows[0]) if rows else None


def database_size_bytes() -> int:
    """Return the size of this database with its indexes."""
    ((size,),) = _rows("SELECT pg_database_size(current_database())")
    return int(size)


def dead_rows() -> Mapping[str, int]:
    """Return {table: estimated number of rows that are dead and not removed yet}, most first."""
    return dict(
        _rows("SELECT relname, n_dead_tup FROM pg_stat_user_tables WHERE n_dead_tup > 0 ORDER BY n_dead_tup DESC, 1")
    )


def _rows(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())
