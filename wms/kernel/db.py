"""Transactions and locks: transaction_required, advisory locks, and the order in which rows are locked.

Lock order, for every transaction of the system: advisory → Pilot → Group → TaskQueue → QueuedJob → Counter → Job →
Match; several rows of one table by primary key. Exception: jobs that go (back) into a queue are locked in the last
locking step of a transaction (ADR 3). Claims lock the counters of limits and of throttles before they write anything
(ADR 17).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from enum import IntEnum
from functools import wraps
from typing import Final, ParamSpec, TypeVar
from zlib import crc32

import msgspec
import psycopg
from django.db import DatabaseError, InterfaceError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BigIntegerField, CharField, DateTimeField, Func, Lookup
from django.db.models.sql import Query
from django.db.models.sql.compiler import SQLCompiler

from wms.kernel.errors import with_causes
from wms.kernel.fast.statements import query_prepared


class LockKey(IntEnum):
    """Advisory-lock keys. A permanent registry: never renumber, never reuse."""

    RECALCULATE_PRIORITIES = 1
    REFRESH_SUBMIT_POOLS = 2
    #: A lock of the session (``session_lock``).
    EXPIRE_LEASES = 3
    CONFIGURE = 4
    REMOVE_EMPTY_TASK_QUEUES = 5
    SEND_PILOTS = 6
    #: Taken by triggers and the claim (matching/sql/limits.sql).
    COUNT_LIMITS = 7
    COUNT_WAITING_JOBS = 8
    REEVALUATE_INPUT_DATA = 9
    COUNT_LOG_INS = 10
    #: For one user's uploads, by the user's id.
    SANDBOX_QUOTA = 11
    #: For one content, by the beginning of its digest; after SANDBOX_QUOTA.
    SANDBOX_FILE = 12
    #: For one batch queue.
    REGISTER_PILOTS = 13
    #: A lock of the session (``session_lock``).
    SUBMISSIONS_IN_FLIGHT = 14
    COUNT_JOBS_OF_USER = 15
    ADD_JOB_COUNTS = 16
    ACCOUNT_JOBS = 17
    ADD_PEOPLE = 18
    #: For one periodic task, by its name; a lock of the session.
    PERIODIC_TASK = 19
    REMOVE_ENDED = 20
    ID_MARK = 21
    SET_LIMITS = 22
    SET_DOWNTIMES = 23


class DatabaseNow(Func):
    """The database's clock, by which leases and expiry are measured (docs/architecture.md, Time).

    The SQL function adds the setting ``wms.clock_offset_s``, so that a test can move the clock.
    """

    function = "wms_now"
    template = "%(function)s()"
    output_field = DateTimeField()


def database_now() -> datetime:
    """Return the current time of the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT wms_now()")
        now: datetime = cursor.fetchone()[0]
    return now


@BigIntegerField.register_lookup
class Among(Lookup):
    """``pk__among=ids``: membership in thousands of ids, passed as one parameter; ``pk__in`` passes one for each.

    For a thousand ids, writing, binding and reading ``in`` takes longer than finding the rows. The ids may also be a
    queryset of one column. It is evaluated first, also if the lookup is one of several alternatives; PostgreSQL would
    evaluate that of ``in`` for each row of the outer query.
    """

    lookup_name = "among"
    prepare_rhs = False

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[str | int, ...]]:
        """Return the SQL condition."""
        column, parameters = self.process_lhs(compiler, connection)
        if isinstance(self.rhs, Query):
            subquery, of_subquery = compiler.compile(self.rhs)
            return f"{column} = ANY(ARRAY{subquery})", (*parameters, *of_subquery)
        # No row has an id beyond the column's range: leave such ids out, as ``in`` does.
        possible = [key for key in self.rhs if -(2**63) <= key < 2**63]
        return f"{column} = ANY(%s::bigint[])", (*parameters, array_of(possible))


@CharField.register_lookup
class OneOf(Lookup):
    """``status__one_of=words``, for constraints: the words, which need no quotes, are one constant.

    PostgreSQL parses the text of a constraint with each statement that writes a row. Parsing that of ``in``, one
    expression per word, in two constraints took as long as writing all indexes of the row.
    """

    lookup_name = "one_of"
    prepare_rhs = False

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[str | int, ...]]:
        """Return the SQL condition."""
        column, parameters = self.process_lhs(compiler, connection)
        return f"{column} = ANY (%s::text[])", (*parameters, array_of(self.rhs))


@CharField.register_lookup
class Like(Lookup):
    r"""``name__like=pattern``: texts that match a pattern in which each ``*`` stands for any characters."""

    lookup_name = "like"

    def get_prep_lookup(self) -> str:
        """Return the pattern as PostgreSQL writes it."""
        return re.sub(r"([\\%_])", r"\\\1", str(self.rhs)).replace("*", "%")

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[str | int, ...]]:
        """Return ``column LIKE pattern``."""
        column, parameters = self.process_lhs(compiler, connection)
        pattern, pattern_parameters = self.process_rhs(compiler, connection)
        return f"{column} LIKE {pattern}", (*parameters, *pattern_parameters)


def array_of(values: Iterable[int | str]) -> str:
    """Return ids, or words that need no quotes, as a PostgreSQL array literal: psycopg takes ten times as long."""
    return "{" + ",".join(map(str, values)) + "}"


def ids_in(text: str | None) -> list[int]:
    """Return the ids of a text by ``string_agg(id::text, ',')``: a row for each id takes ten times as long to read."""
    return list(map(int, text.split(","))) if text else []


def array_of_lines(lines: Sequence[str]) -> str:
    """Return texts without control characters as a PostgreSQL array literal, in which JSON's quotes are valid ones.

    psycopg takes ten times as long. A control character would be written as JSON does, and read as something else.
    """
    return f"{{{msgspec.json.encode(lines)[1:-1].decode()}}}"


P = ParamSpec("P")
R = TypeVar("R")


def transaction_required(step: Callable[P, R]) -> Callable[P, R]:
    """Mark a *step*: a function that runs only inside a transaction opened by its caller."""

    @wraps(step)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        if not connection.in_atomic_block:
            raise transaction.TransactionManagementError(f"{step.__qualname__} must be called inside a transaction")
        return step(*args, **kwargs)

    return inside


@transaction_required
def lock(key: LockKey, *, of: int | None = None) -> None:
    """Wait for the advisory lock and hold it until the end of the transaction; with *of*, the lock of that row."""
    with connection.cursor() as cursor:
        if of is None:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [int(key)])
        else:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [int(key), of])


@transaction_required
def try_lock(key: LockKey) -> bool:
    """Take the advisory lock until the end of the transaction; return False if another transaction holds it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [int(key)])
        (taken,) = cursor.fetchone()
    return bool(taken)


@contextmanager
def session_lock(key: LockKey, *, of: int, places: int, spared: int = 0) -> Iterator[bool]:
    """Hold one of *places* locks of a row until the end of the block, across transactions.

    PostgreSQL frees it when the connection ends, also when the process dies.

    NB: does not work through a pool that shares connections between transactions (PgBouncer's transaction mode).

    Args:
        key: the kind of limit.
        of: the row's id.
        places: number of locks that may be held at a time; 0: no limit.
        spared: number of the locks that are left to others, if there are more.

    Returns:
        Whether a lock was free.
    """
    if not places:
        yield True
        return
    # The lower bits number the locks of a row; rows whose numbers collide after 2**31 only share their locks.
    first = of * places % 2**31
    usable = range(first, first + max(1, places - spared))
    taken = next((at for at in usable if _try_session_lock(key, at % 2**31)), None)
    try:
        yield taken is not None
    finally:
        if taken is not None and connection.connection is not None:
            try:
                query_prepared("SELECT pg_advisory_unlock(%s::integer, %s::integer)", int(key), taken % 2**31)
            except (DatabaseError, InterfaceError):
                connection.close()  # the block raises the cause; closing the connection frees the lock


def periodic_task_lock(name: str) -> AbstractContextManager[bool]:
    """Hold the lock of a periodic task, of which one run at a time works (ADR 95); as ``session_lock``."""
    return session_lock(LockKey.PERIODIC_TASK, of=crc32(name.encode()), places=1)


def _try_session_lock(key: LockKey, of: int) -> bool:
    ((taken,),) = query_prepared("SELECT pg_try_advisory_lock(%s::integer, %s::integer)", int(key), of)
    return bool(taken)


#: Beginnings of PostgreSQL's codes: exceptions of the connection, no space, memory or connections left, interventions
#: of its operator, a database that may only be read (as while it recovers), a transaction that the server has ended,
#: for others or because it lasted too long, as of a process that was stopped, and errors of its files.
_CODES: Final = ("08", "53", "57P", "25006", "25P03", "25P04", "40", "58030")
#: Seconds after which a client may try again: a restart takes about as long.
RETRY_AFTER_S: Final = 10


def is_database_away(error: BaseException | None) -> bool:
    """Return whether an error, or a cause of it, is of a database that cannot work at present, not of a statement."""
    return any(isinstance(each, psycopg.Error) and _is_outage(each) for each in with_causes(error))


def _is_outage(error: psycopg.Error) -> bool:
    if error.sqlstate is not None:
        return error.sqlstate.startswith(_CODES)
    # The server has said nothing.
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
