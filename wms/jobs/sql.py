"""Statements of this app that the ORM cannot say, or says ten times as slowly for ten thousand jobs."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Final, TypeAlias
from uuid import UUID

from django.db import connection
from psycopg import sql

from wms.kernel.db import array_of

Value: TypeAlias = int | str | UUID | datetime | Sequence[str] | None

#: In a subquery, or the sequence is looked up for each job.
_RESERVE_IDS: Final = """
    SELECT nextval((SELECT pg_get_serial_sequence('jobs_job', 'id'))::regclass) FROM generate_series(1, %s)
"""

#: Of jobs that have just come: no text can have changed since.
_BEGIN_HISTORY: Final = """
    INSERT INTO jobs_jobhistory (job_id, changed_at, status, minor_status, application_status, source)
    SELECT job.id, %s, begun.status, '', '', %s
    FROM unnest(%s::bigint[]) AS job (id), unnest(%s::text[]) WITH ORDINALITY AS begun (status, number)
    ORDER BY job.id, begun.number
"""

#: The status as the jobs now have it becomes a line of each one's history.
_WRITE_HISTORY: Final = """
    INSERT INTO jobs_jobhistory (job_id, changed_at, status, minor_status, application_status, source)
    SELECT id, status_changed_at, status, minor_status, application_status, %s
    FROM jobs_job WHERE id = ANY(%s::bigint[]) ORDER BY id
"""


def reserve_job_ids(count: int) -> list[int]:
    """Return *count* new job ids, ascending.

    Known before the insert, because texts of a job may name its id (``%j``). The ORM knows no sequences.
    """
    with connection.cursor() as cursor:
        cursor.execute(_RESERVE_IDS, [count])
        return sorted(job_id for (job_id,) in cursor.fetchall())


def write_history(job_ids: Sequence[int], *, source: str) -> None:
    """Write the present status of the jobs into their history, by id. The ORM knows no INSERT … SELECT."""
    with connection.cursor() as cursor:
        cursor.execute(_WRITE_HISTORY, [source, array_of(job_ids)])


def begin_history(job_ids: Sequence[int], *, statuses: Sequence[str], source: str, now: datetime) -> None:
    """Write for each job that it came into each of *statuses* in this moment, in their order."""
    with connection.cursor() as cursor:
        cursor.execute(_BEGIN_HISTORY, [now, source, array_of(job_ids), list(statuses)])


def copy_rows(table: str, columns: Sequence[str], rows: Iterable[Sequence[Value]]) -> None:
    """Insert *rows* by COPY; constraints are checked as for an INSERT, defaults of the models are not applied.

    ``bulk_create`` of ten thousand jobs takes seconds of Python, this a tenth of it.
    """
    with connection.cursor() as cursor, cursor.copy(_copy(table, tuple(columns))) as copy:
        for row in rows:
            copy.write_row(row)


@cache
def _copy(table: str, columns: Sequence[str]) -> bytes:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names).as_bytes()
