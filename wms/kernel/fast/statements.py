"""Statements that are prepared once per connection (docs/architecture.md, Answering machines fast)."""

from time import monotonic
from typing import Any, Final

import psycopg
from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, connections
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGresult

#: SQLSTATE: the prepared statement does not exist on this connection.
_NOT_PREPARED: Final = b"26000"


def query_prepared(statement: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Return the rows of a statement that the database plans once per connection.

    Django's own cursor writes the values into the text, so that each statement is a new one to the database. It also
    tests the connection in each request, which would take a tenth of a match. Here a lost connection is opened anew and
    the statement is sent again: it must be safe to repeat, as the first one may have been committed.
    """
    try:
        return _query_prepared(statement, parameters)
    except OperationalError:
        lost = connection.connection is not None and connection.connection.closed
        if connection.in_atomic_block or not lost:
            raise
        connection.close()
        return _query_prepared(statement, parameters)


def _query_prepared(statement: str, parameters: tuple[object, ...]) -> list[tuple[Any, ...]]:
    connection.ensure_connection()
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        return cursor.execute(statement, parameters, prepare=True).fetchall()


def query_directly(name: str, statement: str, *parameters: str | None) -> list[tuple[str | None, ...]]:
    """Return the rows of a statement as ``query_prepared`` does, for a quarter of its CPU time.

    Parameters ($1, $2, …) and values are texts in PostgreSQL's format, so the statement casts them. *name* is the name
    of the prepared statement. Inside a transaction, which the driver may still have to open, the driver executes it.
    """
    # Django's ``connection`` looks for the thread's own at each use, which would take a tenth of a heartbeat.
    own = connections[DEFAULT_DB_ALIAS]
    if own.connection is None:
        own.ensure_connection()
    if own.in_atomic_block:
        with own.wrap_database_errors, psycopg.RawCursor(own.connection) as cursor:
            return cursor.execute(statement, parameters, prepare=True).fetchall()
    result = _ask_server(name, statement, parameters)
    if own.connection.closed:
        own.close()
        own.ensure_connection()
        result = _ask_server(name, statement, parameters)
    if result.status != ExecStatus.TUPLES_OK:
        with own.wrap_database_errors:
            raise psycopg.errors.error_from_result(result)
    cells = ([result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples))
    return [tuple(None if cell is None else cell.decode() for cell in row) for row in cells]


def close_aged() -> None:
    """Close the connection if it is older than WMS_DATABASE_CONNECTION_MAX_AGE_S, as Django does at each request."""
    own = connections[DEFAULT_DB_ALIAS]
    if own.close_at is not None and monotonic() >= own.close_at and not own.in_atomic_block:
        own.close()


def _ask_server(name: str, statement: str, parameters: tuple[str | None, ...]) -> PGresult:
    server = connections[DEFAULT_DB_ALIAS].connection.pgconn
    values = [None if value is None else value.encode() for value in parameters]
    result: PGresult = server.exec_prepared(name.encode(), values)
    if result.status == ExecStatus.TUPLES_OK or result.error_field(DiagnosticField.SQLSTATE) != _NOT_PREPARED:
        return result
    # New on this connection, or deallocated by the driver, as all statements are after a rollback.
    prepared: PGresult = server.prepare(name.encode(), statement.encode())
    return server.exec_prepared(name.encode(), values) if prepared.status == ExecStatus.COMMAND_OK else prepared
