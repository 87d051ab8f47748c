"""Statements of this app that the ORM cannot say, or says ten times as slowly for ten thousand jobs."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Final, TypeAlias
from uuid import UUID

from django.db import connection
from django.db.models.sql import UpdateQuery
from psycopg import sql

from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import JobQuerySet
from wms.kernel.db import array_of, transaction_required

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


# ---- Sandboxes -------------------------------------------------------------------------------------------------------

_HOLD_SANDBOXES: Final = "SELECT id FROM jobs_sandbox WHERE id = ANY(%s::bigint[]) ORDER BY id FOR KEY SHARE"

_BYTES_OF_UPLOADS: Final = """
    SELECT coalesce(sum(greatest(sandbox.size_bytes, %s)), 0)
      FROM jobs_sandbox AS sandbox
     WHERE sandbox.digest <> %s
       AND sandbox.id IN (SELECT sandbox_id FROM jobs_sandboxupload WHERE owner_id = %s AND NOT is_output)
"""

#: Those that a submission names at this moment are looked at the next time.
_SANDBOXES_TO_CHECK: Final = """
    SELECT id FROM jobs_sandbox WHERE check_use_at <= %s ORDER BY check_use_at LIMIT %s FOR UPDATE SKIP LOCKED
"""

#: A job whose owner did not upload the content named it by the upload of a mate.
_REMOVE_EXPIRED_UPLOADS: Final = """
    DELETE FROM jobs_sandboxupload AS upload
     WHERE upload.sandbox_id = ANY(%(ids)s::bigint[]) AND upload.uploaded_at < %(before)s
       AND NOT EXISTS (
           SELECT FROM jobs_job AS job
            WHERE job.output_sandbox_id = upload.sandbox_id AND job.owner_id = upload.owner_id
              AND job.status <> %(deleted)s
       )
       AND NOT EXISTS (
           SELECT FROM jobs_inputsandbox AS input JOIN jobs_job AS job ON job.id = input.job_id
            WHERE input.sandbox_id = upload.sandbox_id AND job.status <> %(deleted)s
              AND (
                  job.owner_id = upload.owner_id
                  OR NOT EXISTS (
                      SELECT FROM jobs_sandboxupload AS own
                       WHERE own.sandbox_id = input.sandbox_id AND own.owner_id = job.owner_id
                  )
              )
       )
"""

_UNNEEDED_SANDBOXES: Final = """
    SELECT id FROM jobs_sandbox AS sandbox
     WHERE sandbox.id = ANY(%(ids)s::bigint[])
       AND NOT EXISTS (SELECT FROM jobs_sandboxupload AS upload WHERE upload.sandbox_id = sandbox.id)
       AND NOT EXISTS (
           SELECT FROM jobs_job AS job WHERE job.output_sandbox_id = sandbox.id AND job.status <> %(deleted)s
       )
       AND NOT EXISTS (
           SELECT FROM jobs_inputsandbox AS input JOIN jobs_job AS job ON job.id = input.job_id
            WHERE input.sandbox_id = sandbox.id AND job.status <> %(deleted)s
       )
"""
_FORGET_INPUT: Final = "DELETE FROM jobs_inputsandbox WHERE sandbox_id = ANY(%s::bigint[])"
_FORGET_OUTPUT: Final = "UPDATE jobs_job SET output_sandbox_id = NULL WHERE output_sandbox_id = ANY(%s::bigint[])"
_REMOVE_SANDBOXES: Final = "DELETE FROM jobs_sandbox WHERE id = ANY(%s::bigint[]) RETURNING digest"


def held_sandboxes(ids: Iterable[int]) -> frozenset[int]:
    """Return those of the sandboxes that exist; none of them is removed until the end of the transaction."""
    with connection.cursor() as cursor:
        cursor.execute(_HOLD_SANDBOXES, [array_of(ids)])
        return frozenset(pk for (pk,) in cursor.fetchall())


def bytes_of_uploads(owner_id: int, *, without: str, least_bytes: int) -> int:
    """Return the bytes of the contents that a user uploaded, each once, but for the one of this digest.

    A smaller content counts as *least_bytes*; outputs of jobs do not count.
    """
    with connection.cursor() as cursor:
        cursor.execute(_BYTES_OF_UPLOADS, [least_bytes, without, owner_id])
        (total,) = cursor.fetchone()
    return int(total)


@transaction_required
def sandboxes_to_check(now: datetime, *, at_most: int) -> list[int]:
    """Return the ids of sandboxes, locked, at whose use is to be looked by now."""
    with connection.cursor() as cursor:
        cursor.execute(_SANDBOXES_TO_CHECK, [now, at_most])
        return [pk for (pk,) in cursor.fetchall()]


@transaction_required
def remove_expired_uploads(ids: Sequence[int], *, before: datetime) -> None:
    """Remove the uploads of these sandboxes from before a moment that no job which is not Deleted needs."""
    with connection.cursor() as cursor:
        cursor.execute(_REMOVE_EXPIRED_UPLOADS, {"ids": array_of(ids), "before": before, "deleted": JobStatus.DELETED})


@transaction_required
def remove_unneeded_sandboxes(ids: Sequence[int]) -> list[str]:
    """Remove those of these sandboxes that have no upload and no job that is not Deleted; return their digests."""
    with connection.cursor() as cursor:
        cursor.execute(_UNNEEDED_SANDBOXES, {"ids": array_of(ids), "deleted": JobStatus.DELETED})
        unneeded = array_of(pk for (pk,) in cursor.fetchall())
        cursor.execute(_FORGET_INPUT, [unneeded])
        cursor.execute(_FORGET_OUTPUT, [unneeded])
        cursor.execute(_REMOVE_SANDBOXES, [unneeded])
        return [digest for (digest,) in cursor.fetchall()]
