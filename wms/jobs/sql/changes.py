"""Changes of jobs, with the lines of their history."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec
from django.db import connection
from django.db.models import BooleanField, CharField
from django.db.models.expressions import RawSQL

from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, JobQuerySet
from wms.jobs.sql.compiled import update_of
from wms.kernel.db import array_of, ids_in, transaction_required

#: Wraps an UPDATE of jobs written by the ORM.
_AND_WRITE_HISTORY: Final = """
    WITH changed AS ({update} RETURNING id, status_changed_at, status, minor_status, application_status)
    INSERT INTO jobs_jobhistory (job_id, changed_at, status, minor_status, application_status, source)
    SELECT id, status_changed_at, status, minor_status, application_status, %s FROM changed ORDER BY id
"""

#: In ``_MOVE`` and the UPDATE that it wraps: the locked jobs that may move.
_MOVABLE: Final = "jobs_job.id = ANY (ARRAY(SELECT id FROM locked WHERE status = ANY (%s::text[])))"

#: Wraps an UPDATE of jobs written by the ORM. Locked by primary key, before any is changed: two that move overlapping
#: sets would deadlock. A row that another transaction was changing is read as that left it, also by the UPDATE.
_MOVE: Final = """
    WITH locked AS MATERIALIZED (
        SELECT id, status, site_id, exit_code FROM jobs_job WHERE id = ANY(%s::bigint[]) ORDER BY id FOR UPDATE
    ), changed AS (
        {update}
        RETURNING id, status_changed_at, status, minor_status, application_status, {counted_columns}
    ), written AS (
        INSERT INTO jobs_jobhistory (job_id, changed_at, status, minor_status, application_status, source)
        SELECT id, status_changed_at, status, minor_status, application_status, %s FROM changed ORDER BY id
    ){counted}
    SELECT status, string_agg(id::text, ',') FROM locked GROUP BY status
"""

_COUNTED_COLUMNS: Final = "submission_id, owner_id, group_id, vo_id, job_type, site_id, exit_code"

#: What the trigger would write for each job, by groups of jobs.
_COUNTED: Final = """, counted AS (
        INSERT INTO jobs_jobcountchange (
            submission_id, owner_id, group_id, vo_id, job_type, status_before, site_before_id, exit_code_before,
            status_after, site_after_id, exit_code_after, jobs
        )
        SELECT changed.submission_id, changed.owner_id, changed.group_id, changed.vo_id, changed.job_type,
               locked.status, locked.site_id, code.before, changed.status, changed.site_id, code.after, count(*)
          FROM changed JOIN locked USING (id),
               LATERAL (
                   SELECT wms_counted_exit_code(locked.status, locked.exit_code),
                          wms_counted_exit_code(changed.status, changed.exit_code)
               ) AS code (before, after)
         WHERE (locked.status, locked.site_id, code.before)
               IS DISTINCT FROM (changed.status, changed.site_id, code.after)
         GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
    )
"""

#: The trigger that counts each changed job looks at it (`counts.sql`).
_COUNTED_BY: Final = "SELECT set_config('wms.jobs_counted_by', %s, true)"

#: Changes of more jobs are counted by their statement; for fewer, that would take longer than the trigger.
_FEW_CHANGES: Final = 20


def of_each_job(texts: Mapping[int, str]) -> RawSQL:
    """Return the value of a column that is another for each job of ``move``: its text in *texts*."""
    json = msgspec.json.encode({str(job_id): text for job_id, text in texts.items()}).decode()
    return RawSQL("%s::jsonb ->> jobs_job.id::text", [json], output_field=CharField())


@transaction_required
def move(
    job_ids: Collection[int], columns: Mapping[str, object], *, only_from: Iterable[JobStatus], source: str
) -> dict[JobStatus, list[int]]:
    """Set columns of those of the jobs that have one of these statuses, and add the resulting ones to their history.

    One statement: a job's row is found and read once.

    Args:
        job_ids: of any jobs.
        columns: of which none says to whom a job belongs, or of which type it is.
        only_from: statuses.
        source: of the change, for the history.

    Returns:
        {status before: its jobs}, of all that exist; they are locked.
    """
    # Its condition names the rows that the statement has locked.
    movable = RawSQL(_MOVABLE, [array_of(only_from)], output_field=BooleanField())  # noqa: S611 - a constant
    update, parameters = update_of(JobQuerySet(Job).filter(movable), columns)
    is_counted_here = len(job_ids) > _FEW_CHANGES
    statement = _MOVE.format(
        update=update, counted_columns=_COUNTED_COLUMNS, counted=_COUNTED if is_counted_here else ""
    )
    with connection.cursor() as cursor:
        if is_counted_here:
            cursor.execute(_COUNTED_BY, ["statement"])
        cursor.execute(statement, [array_of(job_ids), *parameters, source])
        found = {JobStatus(status): ids_in(ids) for status, ids in cursor.fetchall()}
        if is_counted_here:
            cursor.execute(_COUNTED_BY, [""])
    return found


def change(jobs: JobQuerySet, columns: Mapping[str, object], *, source: str) -> None:
    """Set columns of the jobs, and add each job's resulting status to its history, by id.

    One statement, so that no row is searched and read twice; the ORM's UPDATE returns nothing.
    """
    update, parameters = update_of(jobs, columns)
    with connection.cursor() as cursor:
        cursor.execute(_AND_WRITE_HISTORY.format(update=update), [*parameters, source])
