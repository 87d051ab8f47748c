"""Statements of this app that the ORM cannot say, or says ten times as slowly for ten thousand jobs."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Final, TypeAlias
from uuid import UUID

from django.db import connection
from django.db.models.sql import UpdateQuery
from psycopg import sql

from wms.jobs.models import JobQuerySet
from wms.kernel.db import array_of

Value: TypeAlias = int | str | UUID | datetime | Sequence[str] | None

#: In a subquery, or the sequence is looked up for each job.
_RESERVE_IDS: Final = """
    SELECT nextval((SELECT pg_get_serial_sequence('jobs_job', 'id'))::regclass) FROM generate_series(1, %s)
"""

#: Of jobs that have just come.
_BEGIN_HISTORY: Final = """
    INSERT INTO jobs_jobhistory (job_id, changed_at, status, minor_status, application_status, source)
    SELECT job.id, %s, begun.status, begun.minor, '', %s
    FROM unnest(%s::bigint[]) AS job (id),
         unnest(%s::text[], %s::text[]) WITH ORDINALITY AS begun (status, minor, number)
    ORDER BY job.id, begun.number
"""

#: Around an UPDATE of jobs, as the ORM writes it.
_AND_WRITE_HISTORY: Final = """
    WITH changed AS ({update} RETURNING id, status_changed_at, status, minor_status, application_status)
    INSERT INTO jobs_jobhistory (job_id, changed_at, status, minor_status, application_status, source)
    SELECT id, status_changed_at, status, minor_status, application_status, %s FROM changed ORDER BY id
"""


def reserve_job_ids(count: int) -> list[int]:
    """Return *count* new job ids, ascending.

    Known before the insert, because texts of a job may name its id (``%j``). The ORM knows no sequences.
    """
    with connection.cursor() as cursor:
        cursor.execute(_RESERVE_IDS, [count])
        return sorted(job_id for (job_id,) in cursor.fetchall())


def change(jobs: JobQuerySet, columns: Mapping[str, object], *, source: str) -> None:
    """Set columns of the jobs, and write the status that each has then into its history, by id.

    One statement, so that no row is looked for and read again for its line; the ORM's UPDATE returns nothing.
    """
    query = jobs.query.chain(UpdateQuery)
    query.add_update_values(columns)  # type: ignore[attr-defined]  # the stubs forget which class was asked for
    update, parameters = query.get_compiler(connection=connection).as_sql()
    with connection.cursor() as cursor:
        cursor.execute(_AND_WRITE_HISTORY.format(update=update), [*parameters, source])


def begin_history(job_ids: Sequence[int], *, statuses: Sequence[tuple[str, str]], source: str, now: datetime) -> None:
    """Write for each job that it came into each of *statuses* (with a minor one) in this moment, in their order."""
    columns = [list(column) for column in zip(*statuses, strict=True)]
    with connection.cursor() as cursor:
        cursor.execute(_BEGIN_HISTORY, [now, source, array_of(job_ids), *columns])


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
