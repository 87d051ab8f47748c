"""Transactions and locks: who may open, who must be inside, and in which order rows are locked.

Lock order, for every transaction of the system: advisory → Pilot → Group → TaskQueue → QueuedJob → Counter → Job →
Match; several rows of one table by primary key. A transaction that needs two of these takes them in this order, but
for jobs that go (back) into a queue: that is the last locking step of a transaction (ADR 3). Counters, of limits and of
throttles, are locked by claims before they write anything (ADR 17).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import IntEnum
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import psycopg
from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BigIntegerField, CharField, DateTimeField, Func, Lookup
from django.db.models.sql.compiler import SQLCompiler
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGresult

#: SQLSTATE of a prepared statement that the connection does not know.
_NOT_PREPARED: Final = b"26000"


class LockKey(IntEnum):
    """Advisory-lock keys. A permanent registry: never renumber, never reuse."""

    RECALCULATE_PRIORITIES = 1
    REFRESH_SUBMIT_POOLS = 2
    EXPIRE_LEASES = 3
    CONFIGURE = 4
    REMOVE_EMPTY_TASK_QUEUES = 5
    SEND_PILOTS = 6
    #: Taken by triggers and the claim (matching/sql/limits.sql).
    COUNT_LIMITS = 7
    COUNT_WAITING_JOBS = 8
    REEVALUATE_INPUT_DATA = 9
    COUNT_LOG_INS = 10
    #: Of one user's uploads, by the user's id.
    SANDBOX_QUOTA = 11
    #: Of one content, by the beginning of its digest; after SANDBOX_QUOTA.
    SANDBOX_FILE = 12
    #: Of one queue.
    REGISTER_PILOTS = 13
    #: Of the session (``session_lock``).
    SUBMISSIONS_IN_FLIGHT = 14
    COUNT_JOBS_OF_USER = 15


class DatabaseNow(Func):
    """The database's clock, which leases and expiry are measured by (DESIGN §4.5).

    The SQL function adds the setting ``wms.clock_offset_s``, so that a test can live an hour in a moment.
    """

    function = "wms_now"
    template = "%(function)s()"
    output_field = DateTimeField()


def database_now() -> datetime:
    """Return the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT wms_now()")
        now: datetime = cursor.fetchone()[0]
    return now


@BigIntegerField.register_lookup
class Among(Lookup):
    """``pk__among=ids``: one of thousands of ids, which are one parameter; ``pk__in`` is one for each of them.

    For a thousand ids ``in`` takes longer to be written, bound and read than the rows to be found.
    """

    lookup_name = "among"
    prepare_rhs = False

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[str | int, ...]]:
        """Return the condition."""
        column, parameters = self.process_lhs(compiler, connection)
        # No row has an id beyond the column; like ``in``, leave it out.
        possible = [key for key in self.rhs if -(2**63) <= key < 2**63]
        return f"{column} = ANY(%s::bigint[])", (*parameters, array_of(possible))


@CharField.register_lookup
class OneOf(Lookup):
    """``status__one_of=words``, for constraints: the words, which need no quotes, are one constant.

    PostgreSQL reads the text of a constraint anew with each statement that writes a row. To read that of ``in``, an
    expression for each word, and of one more such constraint took as long as to write all indexes of the row.
    """

    lookup_name = "one_of"
    prepare_rhs = False

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[str | int, ...]]:
        """Return the condition."""
        column, parameters = self.process_lhs(compiler, connection)
        return f"{column} = ANY (%s::text[])", (*parameters, array_of(self.rhs))


def array_of(values: Iterable[int | str]) -> str:
    """Return ids, or words that need no quotes, as PostgreSQL writes an array: psycopg takes ten times as long."""
    return "{" + ",".join(map(str, values)) + "}"


P = ParamSpec("P")
R = TypeVar("R")


def transaction_required(step: Callable[P, R]) -> Callable[P, R]:
    """Mark a *step*: a function that only makes sense inside a transaction that its caller opened."""

    @wraps(step)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        if not connection.in_atomic_block:
            raise transaction.TransactionManagementError(f"{step.__qualname__} must be called inside a transaction")
        return step(*args, **kwargs)

    return inside


@transaction_required
def lock(key: LockKey, *, of: int | None = None) -> None:
    """Take the advisory lock until the end of the transaction, waiting for it; or that of one row of many."""
    with connection.cursor() as cursor:
        if of is None:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [int(key)])
        else:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [int(key), of])


@transaction_required
def try_lock(key: LockKey) -> bool:
    """Take the advisory lock until the end of the transaction; False when another holds it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [int(key)])
        (taken,) = cursor.fetchone()
    return bool(taken)


@contextmanager
def session_lock(key: LockKey, *, of: int, places: int) -> Iterator[bool]:
    """Hold one of so many places of one row until the end of the block, also where that is many transactions or none.

    PostgreSQL frees it when the connection ends: a process that dies keeps no place.

    NB: connections that are shared between transactions, as PgBouncer's are in that mode, would keep it.

    Args:
        key: what is limited.
        of: of which row.
        places: so many may be held at a time; 0: any number.

    Returns:
        Whether there was a place.
    """
    if not places:
        yield True
        return
    # The lower bits tell the places of a row apart; rows whose numbers meet after 2**31 only share theirs.
    first = of * places % 2**31
    taken = next((at for at in range(first, first + places) if _try_session_lock(key, at % 2**31)), None)
    try:
        yield taken is not None
    finally:
        if taken is not None and connection.connection is not None:
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [int(key), taken % 2**31])
            except (DatabaseError, InterfaceError):
                connection.close()  # what broke it is told by the block; with the connection goes the lock


def _try_session_lock(key: LockKey, of: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [int(key), of])
        return bool(cursor.fetchone()[0])


def ask_prepared(statement: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Return the rows of a statement that the server plans once for a connection; for those on the hot path.

    Django's own cursor writes the values into the text, so that each statement is a new one to the server. It also asks
    whether the connection still lives, once in each request, which would be a tenth of a match. Here a connection that
    turns out to be lost, as all are when the database was restarted, is opened anew and the statement asked again: it
    must bear that, for nobody knows whether it was committed.
    """
    try:
        return _ask_prepared(statement, parameters)
    except OperationalError:
        lost = connection.connection is not None and connection.connection.closed
        if connection.in_atomic_block or not lost:
            raise
        connection.close()
        return _ask_prepared(statement, parameters)


def _ask_prepared(statement: str, parameters: tuple[object, ...]) -> list[tuple[Any, ...]]:
    connection.ensure_connection()
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        return cursor.execute(statement, parameters, prepare=True).fetchall()


def ask_directly(name: str, statement: str, *parameters: str | None) -> list[tuple[str | None, ...]]:
    """Return the rows of a statement as ``ask_prepared`` does, for a quarter of its CPU time.

    Parameters ($1, $2, …) and values are texts as PostgreSQL writes them, so the statement casts them. The server knows
    the statement by its name. Inside a transaction, which the driver may still have to open, it is asked as any other.
    """
    connection.ensure_connection()
    if connection.in_atomic_block:
        with connection.wrap_database_errors, psycopg.RawCursor(connection.connection) as cursor:
            return cursor.execute(statement, parameters, prepare=True).fetchall()
    result = _ask_server(name, statement, parameters)
    if connection.connection.closed:
        connection.close()
        connection.ensure_connection()
        result = _ask_server(name, statement, parameters)
    if result.status != ExecStatus.TUPLES_OK:
        with connection.wrap_database_errors:
            raise psycopg.errors.error_from_result(result)
    columns = range(result.nfields)
    return [tuple(_text(result.get_value(row, column)) for column in columns) for row in range(result.ntuples)]


def _ask_server(name: str, statement: str, parameters: tuple[str | None, ...]) -> PGresult:
    server = connection.connection.pgconn
    values = [None if value is None else value.encode() for value in parameters]
    result: PGresult = server.exec_prepared(name.encode(), values)
    if result.error_field(DiagnosticField.SQLSTATE) != _NOT_PREPARED:
        return result
    # On this connection it was never asked, or the driver has forgotten all statements, as it does after a rollback.
    prepared: PGresult = server.prepare(name.encode(), statement.encode())
    return server.exec_prepared(name.encode(), values) if prepared.status == ExecStatus.COMMAND_OK else prepared


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
