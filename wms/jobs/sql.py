"""SQL for jobs that the ORM cannot express, or executes ten times as slowly for ten thousand jobs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

import msgspec
from django.core.exceptions import EmptyResultSet
from django.db import connection, transaction
from django.db.models import BooleanField, QuerySet, UUIDField
from django.db.models.expressions import RawSQL
from django.db.models.sql import UpdateQuery
from psycopg import sql

from wms.jobs.domain.accounting import Grouping, UnmatchedCount
from wms.jobs.domain.data import WAITS_FOR_ROOM
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.models import Job, JobQuerySet, Submission
from wms.kernel.db import array_of, array_of_lines, ids_in, transaction_required
from wms.kernel.fast.statements import ask_prepared

Value: TypeAlias = int | str | UUID | datetime | Sequence[str] | None

#: As a subquery; otherwise the sequence is looked up for each job.
_RESERVE_IDS: Final = """
    SELECT nextval((SELECT pg_get_serial_sequence('jobs_job', 'id'))::regclass) FROM generate_series(1, %s)
"""

#: Ordered, because two transactions that store the same descriptions wait for each other.
_STORE_DESCRIPTIONS: Final = """
    WITH named AS MATERIALIZED (
        SELECT number, content::jsonb AS description, sha256(jsonb_send(content::jsonb)) AS digest
          FROM json_array_elements(%s::json) WITH ORDINALITY AS its (content, number)
    ), known AS MATERIALIZED (
        SELECT named.number, stored.id
          FROM named JOIN jobs_storeddescription AS stored ON stored.digest = named.digest
    ), added AS (
        INSERT INTO jobs_storeddescription (description)
        SELECT description FROM named WHERE number NOT IN (SELECT number FROM known) ORDER BY digest
            ON CONFLICT (digest) DO NOTHING
        RETURNING id, digest
    )
    SELECT number, id FROM known
     UNION ALL
    SELECT named.number, added.id FROM named JOIN added ON added.digest = named.digest
"""

#: Inserts jobs with their history, but not those whose description another transaction is adding at the moment. The
#: description of a kind is parsed once, however many jobs differ in arguments only. Ordered, because two transactions
#: that store the same descriptions wait for each other.
_ARRIVE: Final = """
    WITH kind AS MATERIALIZED (
        SELECT *
          FROM json_to_recordset(%s::json) AS its (
                   number integer, job_group text, job_type text, priority smallint, submit_pools text[], status text,
                   minor_status text, input_sites text[], description jsonb
               )
    ), described AS MATERIALIZED (
        SELECT its.number, its.arguments, its.kind,
               sha256(jsonb_send(kind.description || jsonb_build_object('arguments', its.arguments))) AS digest
          FROM unnest(%s::integer[], %s::text[]) WITH ORDINALITY AS its (kind, arguments, number)
          JOIN kind ON kind.number = its.kind
    ), known AS MATERIALIZED (
        SELECT described.number, stored.id
          FROM described JOIN jobs_storeddescription AS stored ON stored.digest = described.digest
    ), added AS (
        INSERT INTO jobs_storeddescription (description)
        SELECT kind.description || jsonb_build_object('arguments', described.arguments)
          FROM described JOIN kind ON kind.number = described.kind
         WHERE described.number NOT IN (SELECT number FROM known)
         ORDER BY described.digest
            ON CONFLICT (digest) DO NOTHING
        RETURNING id, digest
    ), stored AS (
        SELECT number, id FROM known
         UNION ALL
        SELECT described.number, added.id FROM described JOIN added ON added.digest = described.digest
    ), come AS (
        INSERT INTO jobs_job (
            id, submission_id, owner_id, group_id, vo_id, submitted_at, status_changed_at, status, minor_status,
            application_status, reschedules, job_name, job_group, job_type, priority, submit_pools, input_sites,
            stored_description_id
        )
        SELECT job.id, %s::uuid, %s::bigint, %s::bigint, %s::bigint, %s::timestamptz, %s::timestamptz, kind.status,
               kind.minor_status, '', 0, job.name, kind.job_group, kind.job_type, kind.priority, kind.submit_pools,
               kind.input_sites, stored.id
          FROM unnest(%s::bigint[], %s::integer[], %s::text[]) AS job (id, described, name)
          JOIN described ON described.number = job.described
          JOIN stored ON stored.number = job.described
          JOIN kind ON kind.number = described.kind
         ORDER BY job.id
        RETURNING id, submitted_at, status, minor_status
    ), begun AS (
        INSERT INTO jobs_jobhistory (job_id, changed_at, status, minor_status, application_status, source)
        SELECT come.id, come.submitted_at, its.status, its.minor_status, '', %s::text
          FROM come,
               LATERAL (VALUES (1, %s::text, ''), (2, come.status, come.minor_status))
                    AS its (number, status, minor_status)
         ORDER BY come.id, its.number
    )
    SELECT id FROM come
"""

#: Wraps an UPDATE of jobs written by the ORM.
_AND_WRITE_HISTORY: Final = """
    WITH changed AS ({update} RETURNING id, status_changed_at, status, minor_status, application_status)
    INSERT INTO jobs_jobhistory (job_id, changed_at, status, minor_status, application_status, source)
    SELECT id, status_changed_at, status, minor_status, application_status, %s FROM changed ORDER BY id
"""


#: Changes of the last seconds are in no counter yet.
_ACTED_IN_GROUPS_LEFT: Final = """
    SELECT EXISTS (
        SELECT FROM (
            SELECT group_id FROM jobs_jobcount WHERE owner_id = %s
            UNION ALL SELECT group_id FROM jobs_jobcountchange WHERE owner_id = %s
        ) AS counted
        WHERE NOT EXISTS (
            SELECT FROM accounts_membership AS membership
             WHERE membership.user_id = %s AND membership.group_id = counted.group_id
        )
    )
"""


def acted_in_groups_left(owner_id: int) -> bool:
    """Return whether the user has had jobs in a group without being a member of it now."""
    ((acted,),) = ask_prepared(_ACTED_IN_GROUPS_LEFT, owner_id, owner_id, owner_id)
    return bool(acted)


_INSERT_SUBMISSION: Final = """
    INSERT INTO jobs_submission (id, owner_id, group_id, submitted_at, request_id, body_digest)
    VALUES (%s, %s, %s, %s, %s, %s)
        ON CONFLICT (owner_id, request_id) WHERE request_id IS NOT NULL DO NOTHING
    RETURNING id
"""


@transaction_required
def insert_submission(submission: Submission) -> bool:
    """Insert the submission, unless its owner has used the request id; waits for a concurrent insertion of the same.

    Returns:
        Whether it was inserted.
    """
    values = (submission.pk, submission.owner_id, submission.group_id, submission.submitted_at)
    return bool(ask_prepared(_INSERT_SUBMISSION, *values, submission.request_id, submission.body_digest))


def reserve_job_ids(count: int) -> list[int]:
    """Return *count* new job ids, ascending.

    Reserved before the insert, because texts of a job may contain its id (``%j``). The ORM does not support sequences.
    """
    return sorted(job_id for (job_id,) in ask_prepared(_RESERVE_IDS, count))


#: Jobs up to which a statement is planned once for all requests; for more it is planned for their number.
_FEW_JOBS: Final = 20


class NewKind(NamedTuple):
    """The columns, and the description, of submitted jobs that differ in name and arguments only."""

    job_group: str
    job_type: str
    priority: int
    submit_pools: Sequence[str]
    #: Waiting, or Checking.
    status: str
    minor_status: str
    #: Sites with all of its input data; None: it has no input data.
    input_sites: Sequence[str] | None
    #: As it is stored (``description.as_stored``); the arguments are those of the job.
    description: str


class NewJob(NamedTuple):
    """A submitted job; jobs of one kind refer to one object."""

    id: int
    #: Of one line.
    job_name: str
    arguments: str
    kind: NewKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Arriving:
    """The columns that all jobs of a submission share."""

    submission_id: UUID
    owner_id: int
    group_id: int
    vo_id: int
    submitted_at: datetime
    #: Of the submission, in the history.
    source: str


@transaction_required
def insert_new_jobs(jobs: Sequence[NewJob], arriving: Arriving) -> None:
    """Insert jobs with their descriptions, and a history of Received and the status of each.

    A transaction that is adding the same description at the moment is waited for.
    """
    kinds = {id(job.kind): job.kind for job in jobs}
    number_of_kind = {kind: number for number, kind in enumerate(kinds)}
    number_of: dict[tuple[int, str], int] = {}
    numbers = [number_of.setdefault((number_of_kind[id(job.kind)], job.arguments), len(number_of) + 1) for job in jobs]
    rows = [_row_of_kind(kind, number) for number, kind in enumerate(kinds.values())]
    its_kinds, arguments = zip(*number_of, strict=True)
    described = (msgspec.json.encode(rows).decode(), array_of(its_kinds), list(arguments))
    left = jobs
    # Again for those whose descriptions another transaction has added meanwhile: the statement does not see them.
    while left:
        parameters = (
            *described,
            *(arriving.submission_id, arriving.owner_id, arriving.group_id, arriving.vo_id),
            *(arriving.submitted_at, arriving.submitted_at),
            *(array_of([job.id for job in left]), array_of(numbers), array_of_lines([job.job_name for job in left])),
            *(arriving.source, JobStatus.RECEIVED.value),
        )
        come = {job_id for (job_id,) in _ask(_ARRIVE, parameters, prepared=len(jobs) <= _FEW_JOBS)}
        numbers = [number for job, number in zip(left, numbers, strict=True) if job.id not in come]
        left = [job for job in left if job.id not in come]


def _row_of_kind(kind: NewKind, number: int) -> dict[str, object]:
    return {**kind._asdict(), "number": number, "description": msgspec.Raw(kind.description.encode())}


def _ask(statement: str, parameters: Sequence[Any], *, prepared: bool) -> list[tuple[Any, ...]]:
    if prepared:
        return ask_prepared(statement, *parameters)
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


@transaction_required
def store_descriptions(texts: Iterable[str]) -> dict[str, int]:
    """Return {description as JSON text: id of its row}; what is not stored yet is added.

    A transaction that is adding the same description at the moment is waited for.
    """
    ids: dict[str, int] = {}
    missing = list(dict.fromkeys(texts))
    with connection.cursor() as cursor:
        # Again for those that another transaction has added meanwhile: the statement does not see them.
        while missing:
            cursor.execute(_STORE_DESCRIPTIONS, [f"[{','.join(missing)}]"])
            ids |= {missing[number - 1]: pk for number, pk in cursor.fetchall()}
            missing = [text for text in missing if text not in ids]
    return ids


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
#: The trigger that counts each changed job looks at it (migration 0023).
_COUNTED_BY: Final = "SELECT set_config('wms.jobs_counted_by', %s, true)"
#: Changes of more jobs are counted by their statement; for fewer, that would take longer than the trigger.
_FEW_CHANGES: Final = 20


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
    update, parameters = _update(JobQuerySet(Job).filter(movable), columns)
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


def _update(jobs: JobQuerySet, columns: Mapping[str, object]) -> tuple[str, Sequence[Any]]:
    query = jobs.query.chain(UpdateQuery)
    query.add_update_values(columns)  # type: ignore[attr-defined]  # the stubs lose the class of the query
    update, parameters = query.get_compiler(connection=connection).as_sql()
    return update, parameters


def ids_of(jobs: JobQuerySet) -> frozenset[int]:
    """Return the ids of the jobs."""
    try:
        found, parameters = _sql_of(jobs.values("pk"))
    except EmptyResultSet:
        return frozenset()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT string_agg(id::text, ',') FROM ({found}) AS found (id)", parameters)  # noqa: S608 - made by the ORM
        (ids,) = cursor.fetchone()
    return frozenset(ids_in(ids))


def change(jobs: JobQuerySet, columns: Mapping[str, object], *, source: str) -> None:
    """Set columns of the jobs, and add each job's resulting status to its history, by id.

    One statement, so that no row is searched and read twice; the ORM's UPDATE returns nothing.
    """
    update, parameters = _update(jobs, columns)
    with connection.cursor() as cursor:
        cursor.execute(_AND_WRITE_HISTORY.format(update=update), [*parameters, source])


def copy_rows(table: str, columns: Sequence[str], rows: Iterable[Sequence[Value]]) -> None:
    """Insert *rows* by COPY; constraints are checked as for INSERT, defaults of the models are not applied.

    ``bulk_create`` of ten thousand jobs takes seconds of Python, this a tenth of that.
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

#: Rows locked by a current submission are checked the next time.
_SANDBOXES_TO_CHECK: Final = """
    SELECT id FROM jobs_sandbox WHERE check_use_at <= %s ORDER BY check_use_at LIMIT %s FOR UPDATE SKIP LOCKED
"""

#: A job of an owner without an upload of the content uses the upload of a group mate.
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

# Uses index: job_of_output_sandbox
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
    """Return which of the sandboxes exist, and lock them against removal until the end of the transaction."""
    with connection.cursor() as cursor:
        cursor.execute(_HOLD_SANDBOXES, [array_of(ids)])
        return frozenset(pk for (pk,) in cursor.fetchall())


def bytes_of_uploads(owner_id: int, *, without: str, least_bytes: int) -> int:
    """Return the bytes of the contents that a user uploaded, each once, without the content of this digest.

    A smaller content counts as *least_bytes*; outputs of jobs do not count.
    """
    with connection.cursor() as cursor:
        cursor.execute(_BYTES_OF_UPLOADS, [least_bytes, without, owner_id])
        (total,) = cursor.fetchone()
    return int(total)


@transaction_required
def sandboxes_to_check(now: datetime, *, at_most: int) -> list[int]:
    """Return the ids of sandboxes that are due for a check, locked."""
    with connection.cursor() as cursor:
        cursor.execute(_SANDBOXES_TO_CHECK, [now, at_most])
        return [pk for (pk,) in cursor.fetchall()]


@transaction_required
def remove_expired_uploads(ids: Sequence[int], *, before: datetime) -> None:
    """Remove the uploads of these sandboxes from before a time, if only Deleted jobs used them."""
    with connection.cursor() as cursor:
        cursor.execute(_REMOVE_EXPIRED_UPLOADS, {"ids": array_of(ids), "before": before, "deleted": JobStatus.DELETED})


@transaction_required
def remove_unneeded_sandboxes(ids: Sequence[int]) -> list[str]:
    """Remove those of these sandboxes without upload and without a job that is not Deleted; return their digests."""
    with connection.cursor() as cursor:
        cursor.execute(_UNNEEDED_SANDBOXES, {"ids": array_of(ids), "deleted": JobStatus.DELETED})
        unneeded = array_of(pk for (pk,) in cursor.fetchall())
        cursor.execute(_FORGET_INPUT, [unneeded])
        cursor.execute(_FORGET_OUTPUT, [unneeded])
        cursor.execute(_REMOVE_SANDBOXES, [unneeded])
        return [digest for (digest,) in cursor.fetchall()]


# ---- Lists -----------------------------------------------------------------------------------------------------------


#: *kinds* are the properties and numbers of jobs, *jobs* the jobs of one kind: an ordered scan of the index of kinds.
#: The first jobs of all are among those kinds whose own first jobs are the first.
_FIRST_OF_KINDS: Final = """
    WITH kind ({columns}, jobs) AS MATERIALIZED ({kinds}),
         beginning AS MATERIALIZED (
        SELECT kind.* FROM kind, LATERAL ({jobs} LIMIT 1) AS found (id) ORDER BY found.id {order} LIMIT %s
    )
    SELECT found.id FROM beginning AS kind, LATERAL ({jobs} LIMIT least(kind.jobs, %s)) AS found (id)
     ORDER BY found.id {order} LIMIT %s
"""


#: *candidates* are submissions with their largest (smallest) id, *jobs* those of one candidate. Jobs that are found on
#: the way from the newest (oldest) candidate tell which id is not too far; candidates beyond it need not be read.
_FIRST_OF_SUBMISSIONS = """
    WITH candidate (submission_id, edge) AS MATERIALIZED ({candidates}),
         reached AS MATERIALIZED (
        SELECT found.id
          FROM (SELECT * FROM candidate ORDER BY edge {order}) AS candidate, LATERAL ({jobs} LIMIT %s) AS found (id)
         LIMIT %s
    ), farthest AS MATERIALIZED (
        SELECT CASE WHEN count(*) = %s THEN {last}(id) END AS id FROM reached
    )
    SELECT found.id
      FROM farthest JOIN candidate ON farthest.id IS NULL OR candidate.edge {reaches} farthest.id,
           LATERAL ({jobs} LIMIT %s) AS found (id)
     ORDER BY found.id {order} LIMIT %s
"""
#: OFFSET 0 keeps it a look-up for each kind: the planner, which does not know the kinds, would read all jobs.
_COUNTS_IN_KINDS: Final = """
    WITH kind ({columns}, jobs) AS MATERIALIZED ({kinds})
    SELECT {names}, count(*) FROM kind, LATERAL ({jobs} OFFSET 0) AS found ({names}) GROUP BY {names} ORDER BY {names}
"""

#: *indexed* are those jobs of a kind that match as far as the index of kinds has columns, *jobs* those that match. A
#: job of a submission all of whose jobs match is not read. No EXISTS, which might be planned as a scan of all jobs.
_COUNTS_OF_SUBMISSIONS: Final = """
    WITH kind ({columns}, jobs) AS MATERIALIZED ({kinds}),
         submission (id, all_match) AS MATERIALIZED ({submissions})
    SELECT {names}, count(*)
      FROM kind, LATERAL ({indexed} OFFSET 0) AS found (id, submission_id, {names})
      JOIN submission ON submission.id = found.submission_id
     WHERE submission.all_match OR ({matching}) IS NOT NULL
     GROUP BY {names} ORDER BY {names}
"""


def first_of_kinds(kinds: QuerySet[Any], jobs: JobQuerySet, *, at_most: int, newest_first: bool) -> JobQuerySet:
    """Return the first *jobs*, by their ids, that are of any of these kinds.

    Args:
        kinds: of a counter, as values: columns of a job, then the number of jobs.
        jobs: which jobs of each kind.
        at_most: the number of jobs.
        newest_first: whether those with the largest ids are the first.
    """
    columns = kinds.query.values_select
    jobs = _of_kind(jobs, columns)
    try:
        of_kind, its_parameters = _sql_of(jobs.order_by("-pk" if newest_first else "pk").values("pk"))
        counted, parameters = _sql_of(kinds)
    except EmptyResultSet:
        return jobs.none()
    statement = _FIRST_OF_KINDS.format(
        columns=", ".join(columns), kinds=counted, jobs=of_kind, order="DESC" if newest_first else "ASC"
    )
    values = (*parameters, *its_parameters, at_most, *its_parameters, at_most, at_most)
    found = RawSQL(statement, values)  # noqa: S611 - made of statements of the ORM
    return JobQuerySet(jobs.model).filter(pk__in=found)


#: In ``first_of_submissions``, the submission whose jobs are looked up.
CANDIDATE: Final = RawSQL("candidate.submission_id", (), output_field=UUIDField())


def first_of_submissions(
    candidates: QuerySet[Any], jobs: JobQuerySet, *, at_most: int, newest_first: bool
) -> JobQuerySet:
    """Return the first *jobs*, by their ids, of any of these submissions.

    Args:
        candidates: contents of submissions.
        jobs: which jobs of each submission.
        at_most: the number of jobs.
        newest_first: whether those with the largest ids are the first.
    """
    edge = "last_job_id" if newest_first else "first_job_id"
    of_candidate = jobs.filter(submission_id=RawSQL("candidate.submission_id", ()))
    try:
        found, its_parameters = _sql_of(of_candidate.order_by("-pk" if newest_first else "pk").values("pk"))
        possible, parameters = _sql_of(candidates.order_by().values_list("submission_id", edge))
    except EmptyResultSet:
        return jobs.none()
    statement = _FIRST_OF_SUBMISSIONS.format(
        candidates=possible,
        jobs=found,
        order="DESC" if newest_first else "ASC",
        last="min" if newest_first else "max",
        reaches=">=" if newest_first else "<=",
    )
    values = (*parameters, *its_parameters, at_most, at_most, at_most, *its_parameters, at_most, at_most)
    return JobQuerySet(jobs.model).filter(pk__in=RawSQL(statement, values))  # noqa: S611 - made by the ORM


def counts_in_kinds(kinds: QuerySet[Any], jobs: JobQuerySet, fields: Sequence[str]) -> Sequence[Sequence[Any]]:
    """Return the numbers of the *jobs* that are of any of these kinds: values of *fields*, in their order, and number.

    Args:
        kinds: of a counter, as values: columns of a job, then the number of jobs.
        jobs: which jobs of each kind.
        fields: of a job or of its related rows.
    """
    columns = kinds.query.values_select
    try:
        of_kind, its_parameters = _sql_of(_of_kind(jobs, columns).order_by().values(*fields))
        counted, parameters = _sql_of(kinds)
    except EmptyResultSet:
        return ()
    names = ", ".join(f"value_{number}" for number in range(len(fields)))
    statement = _COUNTS_IN_KINDS.format(columns=", ".join(columns), kinds=counted, jobs=of_kind, names=names)
    with connection.cursor() as cursor:
        cursor.execute(statement, (*parameters, *its_parameters))
        rows: Sequence[Sequence[Any]] = cursor.fetchall()
    return rows


def counts_of_submissions(
    kinds: QuerySet[Any], indexed: JobQuerySet, jobs: JobQuerySet, submissions: QuerySet[Any], fields: Sequence[str]
) -> Sequence[Sequence[Any]]:
    """Return the numbers of the *jobs* that are of any of these kinds and of these submissions, as ``counts_in_kinds``.

    Args:
        kinds: of a counter, as values: columns of a job, then the number of jobs.
        indexed: which jobs of each kind are looked at.
        jobs: which of these are counted.
        submissions: contents of submissions, with ``all_match``: whether all of their jobs are among *jobs*.
        fields: of a job or of its related rows.
    """
    columns = kinds.query.values_select
    of_job = jobs.filter(pk=RawSQL("found.id", ()))
    try:
        of_kind, its_parameters = _sql_of(
            _of_kind(indexed, columns).order_by().values_list("pk", "submission_id", *fields)
        )
        counted, parameters = _sql_of(kinds)
        its_submissions, of_submissions = _sql_of(submissions.order_by().values_list("pk", "all_match"))
        matching, of_matching = _sql_of(of_job.order_by().values("pk"))
    except EmptyResultSet:
        return ()
    names = ", ".join(f"value_{number}" for number in range(len(fields)))
    statement = _COUNTS_OF_SUBMISSIONS.format(
        columns=", ".join(columns),
        kinds=counted,
        submissions=its_submissions,
        indexed=of_kind,
        matching=matching,
        names=names,
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, (*parameters, *of_submissions, *its_parameters, *of_matching))
        rows: Sequence[Sequence[Any]] = cursor.fetchall()
    return rows


def _of_kind(jobs: JobQuerySet, columns: Sequence[str]) -> JobQuerySet:
    return jobs.filter(**{each: RawSQL(f"kind.{each}", ()) for each in columns})  # noqa: S611 - our own columns


def _sql_of(rows: QuerySet[Any]) -> tuple[str, tuple[Any, ...]]:
    text, parameters = rows.query.get_compiler(connection=connection).as_sql()
    return text, tuple(parameters)


# ---- Numbers of jobs (ADR 53) ----------------------------------------------------------------------------------------

#: One statement, so that every snapshot holds each change once: in its own row or in the counters.
_ADD_COUNT_CHANGES: Final = """
    WITH taken AS (
        DELETE FROM jobs_jobcountchange RETURNING *
    ), sided AS MATERIALIZED (
        SELECT submission_id, owner_id, group_id, vo_id, job_type, side.*
          FROM taken, LATERAL (
               VALUES (status_before, site_before_id, exit_code_before, -jobs),
                      (status_after, site_after_id, exit_code_after, jobs)
               ) AS side (status, site_id, exit_code, jobs)
         WHERE side.status IS NOT NULL
    ), by_job_type AS (
        INSERT INTO jobs_jobcount (owner_id, group_id, vo_id, job_type, status, exit_code, jobs)
        SELECT owner_id, group_id, vo_id, job_type, status, exit_code, sum(jobs) FROM sided GROUP BY 1, 2, 3, 4, 5, 6
        HAVING sum(jobs) <> 0
        ON CONFLICT (owner_id, group_id, job_type, status, exit_code)
        DO UPDATE SET jobs = jobs_jobcount.jobs + excluded.jobs
    ), by_site AS (
        INSERT INTO jobs_sitejobcount (owner_id, group_id, vo_id, site_id, status, jobs)
        SELECT owner_id, group_id, vo_id, site_id, status, sum(jobs) FROM sided GROUP BY 1, 2, 3, 4, 5
        HAVING sum(jobs) <> 0
        ON CONFLICT (owner_id, group_id, site_id, status) DO UPDATE SET jobs = jobs_sitejobcount.jobs + excluded.jobs
    ), by_submission AS (
        INSERT INTO jobs_submissionjobcount (submission_id, owner_id, group_id, vo_id, status, exit_code, jobs)
        SELECT submission_id, owner_id, group_id, vo_id, status, exit_code, sum(jobs)
          FROM sided GROUP BY 1, 2, 3, 4, 5, 6
        HAVING sum(jobs) <> 0
        ON CONFLICT (submission_id, owner_id, group_id, status, exit_code)
        DO UPDATE SET jobs = jobs_submissionjobcount.jobs + excluded.jobs
        RETURNING submission_id
    )
    SELECT (SELECT count(*) FROM taken), ARRAY(SELECT DISTINCT submission_id FROM by_submission)
"""
#: Each submission passes through several statuses.
_FORGET_ZEROS: Final = "DELETE FROM jobs_submissionjobcount WHERE submission_id = ANY(%s) AND jobs = 0"

_RECOUNT_JOBS: Final = """
    LOCK TABLE jobs_job IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM jobs_jobcountchange;
    DELETE FROM jobs_jobcount;
    DELETE FROM jobs_sitejobcount;
    DELETE FROM jobs_submissionjobcount;
    INSERT INTO jobs_jobcount (owner_id, group_id, vo_id, job_type, status, exit_code, jobs)
    SELECT owner_id, group_id, vo_id, job_type, status, wms_counted_exit_code(status, exit_code), count(*)
      FROM jobs_job GROUP BY 1, 2, 3, 4, 5, 6;
    INSERT INTO jobs_sitejobcount (owner_id, group_id, vo_id, site_id, status, jobs)
    SELECT owner_id, group_id, vo_id, site_id, status, count(*) FROM jobs_job GROUP BY 1, 2, 3, 4, 5;
    INSERT INTO jobs_submissionjobcount (submission_id, owner_id, group_id, vo_id, status, exit_code, jobs)
    SELECT submission_id, owner_id, group_id, vo_id, status, wms_counted_exit_code(status, exit_code), count(*)
      FROM jobs_job GROUP BY 1, 2, 3, 4, 5, 6;
    SELECT wms_note_all_contents();
"""

#: One statement, so that jobs and counters are of one snapshot. Owner, group, VO and status are columns of each.
_WRONG_JOB_COUNTS: Final = """
    SELECT count(*) FROM (
        SELECT FROM (
            SELECT owner_id, group_id, vo_id, status, job_type, wms_counted_exit_code(status, exit_code), -1
              FROM jobs_job
            UNION ALL SELECT owner_id, group_id, vo_id, status, job_type, exit_code, jobs FROM jobs_currentjobcount
        ) AS both_sides (owner_id, group_id, vo_id, status, job_type, exit_code, jobs)
         GROUP BY owner_id, group_id, vo_id, status, job_type, exit_code HAVING sum(jobs) <> 0
        UNION ALL
        SELECT FROM (
            SELECT owner_id, group_id, vo_id, status, site_id, -1 AS jobs FROM jobs_job
            UNION ALL SELECT owner_id, group_id, vo_id, status, site_id, jobs FROM jobs_currentsitejobcount
        ) AS both_sides GROUP BY owner_id, group_id, vo_id, status, site_id HAVING sum(jobs) <> 0
        UNION ALL
        SELECT FROM (
            SELECT owner_id, group_id, vo_id, status, submission_id, wms_counted_exit_code(status, exit_code), -1
              FROM jobs_job
            UNION ALL
            SELECT owner_id, group_id, vo_id, status, submission_id, exit_code, jobs FROM jobs_currentsubmissionjobcount
        ) AS both_sides (owner_id, group_id, vo_id, status, submission_id, exit_code, jobs)
         GROUP BY owner_id, group_id, vo_id, status, submission_id, exit_code HAVING sum(jobs) <> 0
        UNION ALL
        SELECT FROM jobs_job AS job LEFT JOIN jobs_submissioncontent AS content USING (submission_id)
         WHERE content.submission_id IS NULL OR job.id NOT BETWEEN content.first_job_id AND content.last_job_id
            OR (content.owner_id, content.group_id, content.vo_id) <> (job.owner_id, job.group_id, job.vo_id)
            OR content.submitted_at <> job.submitted_at OR content.job_type <> job.job_type
            OR content.job_group <> job.job_group OR NOT starts_with(job.job_name, content.name_prefix)
            OR CASE content.name_rest
               WHEN 'nothing' THEN job.job_name <> content.name_prefix
               WHEN 'digits' THEN rtrim(job.job_name, '0123456789') <> content.name_prefix END
            OR (content.labels IS NULL) <> (content.job_group IS NOT NULL)
            OR (content.name_stems IS NULL) <> (content.name_rest <> 'anything')
            OR content.labels <> '{}' AND job.job_group <> ALL (content.labels)
            OR content.name_stems <> '{}' AND rtrim(job.job_name, '0123456789') <> ALL (content.name_stems)
    ) AS wrong
"""


@transaction_required
def add_count_changes() -> int:
    """Add all committed changes of the numbers of jobs to the counters; return the number of rows of changes."""
    with connection.cursor() as cursor:
        # The changes of some seconds are several megabytes, which would be written to temporary files, each time.
        cursor.execute("SET LOCAL work_mem = '64MB'")
        cursor.execute(_ADD_COUNT_CHANGES)
        changes, submissions = cursor.fetchone()
        cursor.execute(_FORGET_ZEROS, [submissions])
    return int(changes)


@transaction_required
def recount_jobs() -> None:
    """Replace the counters by the numbers of the jobs in the table; until the transaction ends no job can change."""
    with connection.cursor() as cursor:
        cursor.execute(_RECOUNT_JOBS)


def wrong_job_counts() -> int:
    """Return how many current numbers of jobs, of all counters, differ from those of the jobs in the table."""
    with connection.cursor() as cursor:
        cursor.execute(_WRONG_JOB_COUNTS)
        (wrong,) = cursor.fetchone()
    return int(wrong)


# ---- Accounting (ADR 64) ---------------------------------------------------------------------------------------------

_WIDTHS: Final = "(VALUES (3600, 'hour'), (86400, 'day'), (604800, 'week')) AS width (width_s, unit)"
_BUCKET: Final = "width_s, begun_at, vo_id, group_id, owner_id, site_id, job_type"
_SUM: Final = "width_s, begun_at, grouping, key, job_type"


def _into_buckets(numbers: Sequence[str]) -> str:
    """Return the end of a statement that adds the rows of its CTE ``addition`` to the buckets and to their sums."""
    names = ", ".join(numbers)
    return f"""
    bucket AS (
        INSERT INTO jobs_jobbucket ({_BUCKET}, {names}) SELECT {_BUCKET}, {names} FROM addition
            ON CONFLICT (width_s, begun_at, owner_id, group_id, site_id, job_type)
            DO UPDATE SET {", ".join(f"{name} = jobs_jobbucket.{name} + excluded.{name}" for name in numbers)}
    )
    INSERT INTO jobs_jobbucketsum ({_SUM}, {names})
    SELECT width_s, begun_at, its.grouping, its.key, its.job_type,
           {", ".join(f"sum({name})" for name in numbers)}
      FROM addition
     CROSS JOIN LATERAL (
           VALUES ('{Grouping.SITE}', coalesce(site_id, 0), ''), ('{Grouping.USER}', owner_id, ''),
                  ('{Grouping.GROUP}', group_id, ''), ('{Grouping.JOB_TYPE}', 0, addition.job_type)
           ) AS its (grouping, key, job_type)
     GROUP BY 1, 2, 3, 4, 5
        ON CONFLICT (width_s, grouping, begun_at, key, job_type)
        DO UPDATE SET {", ".join(f"{name} = jobs_jobbucketsum.{name} + excluded.{name}" for name in numbers)}
    """  # noqa: S608 - our own constants


_EVENTS: Final = ("started", "done", "failed", "killed", "cpu_s", "wall_s")
_LEVELS: Final = ("running", "waiting", "waiting_unmatched", "waiting_for_data", "waiting_for_room", "held")

#: A line repeats the status of the one before it, Stalled ones left out, if a payload goes on or only a reason changes.
#: OFFSET 0 keeps it a look-up for each line: the planner, which does not know how few there are, would read all jobs.
# Uses index: job_history_in_order, jobs_jobhistory_pkey
_ADD_TO_BUCKETS: Final = f"""
    WITH line AS MATERIALIZED (
        SELECT id, job_id, changed_at, status FROM jobs_jobhistory
         WHERE transaction_number >= %(first)s AND transaction_number < %(end)s
           AND pg_visible_in_snapshot(transaction_number::text::xid8, %(until)s::pg_snapshot)
           AND NOT pg_visible_in_snapshot(transaction_number::text::xid8, %(since)s::pg_snapshot)
           AND status IN (%(running)s, %(done)s, %(failed)s, %(killed)s)
    ), event AS (
        SELECT line.changed_at, line.status, line.status <> %(running)s AS is_end, job.*
          FROM line
         CROSS JOIN LATERAL (
               SELECT vo_id, group_id, owner_id, site_id, job_type, coalesce(cpu_s, 0) AS cpu_s,
                      coalesce(wall_s, 0) * coalesce((
                          SELECT (description ->> 'processors')::integer FROM jobs_storeddescription AS stored
                           WHERE stored.id = stored_description_id), 1) AS wall_s
                 FROM jobs_job WHERE jobs_job.id = line.job_id OFFSET 0
               ) AS job
          LEFT JOIN LATERAL (
               SELECT earlier.status FROM jobs_jobhistory AS earlier
                WHERE earlier.job_id = line.job_id AND earlier.id < line.id AND earlier.status <> %(stalled)s
                ORDER BY earlier.id DESC LIMIT 1
               ) AS before ON true
         WHERE before.status IS DISTINCT FROM line.status
    ), addition ({_BUCKET}, {", ".join(_EVENTS)}) AS MATERIALIZED (
        SELECT width_s, date_trunc(unit, changed_at, 'UTC'), vo_id, group_id, owner_id, site_id, job_type,
               count(*) FILTER (WHERE status = %(running)s), count(*) FILTER (WHERE status = %(done)s),
               count(*) FILTER (WHERE status = %(failed)s), count(*) FILTER (WHERE status = %(killed)s),
               coalesce(sum(cpu_s) FILTER (WHERE is_end), 0), coalesce(sum(wall_s) FILTER (WHERE is_end), 0)
          FROM event CROSS JOIN {_WIDTHS}
         GROUP BY 1, 2, 3, 4, 5, 6, 7
    ), {_into_buckets(_EVENTS)}
"""  # noqa: S608 - our own constants

#: One statement, so that both counters are of one snapshot. None has site and type: the jobs of an owner in a group are
#: split in proportion, which is exact unless they are of several types and at several sites.
# Uses index: job_that_waits_for_room
_SAMPLE_LEVELS: Final = f"""
    WITH of_type AS MATERIALIZED (
        SELECT vo_id, group_id, owner_id, job_type,
               sum(jobs) FILTER (WHERE status = ANY(%(leased)s)) AS running,
               sum(jobs) FILTER (WHERE status = ANY(%(queued)s)) AS waiting,
               sum(jobs) FILTER (WHERE status = %(checking)s) AS checking,
               sum(jobs) FILTER (WHERE status = %(held)s) AS held
          FROM jobs_currentjobcount
         WHERE status = ANY(%(leased)s) OR status = ANY(%(queued)s) OR status IN (%(checking)s, %(held)s)
         GROUP BY 1, 2, 3, 4
        HAVING sum(jobs) > 0
    ), at_site AS (
        SELECT vo_id, group_id, owner_id, site_id, sum(jobs) AS running FROM jobs_currentsitejobcount
         WHERE status = ANY(%(leased)s) GROUP BY 1, 2, 3, 4 HAVING sum(jobs) > 0
    ), part AS (
        SELECT vo_id, group_id, owner_id, job_type,
               running / sum(running) OVER (PARTITION BY vo_id, group_id, owner_id) AS part
          FROM of_type WHERE running > 0
    ), room AS (
        SELECT group_id, owner_id, job_type, count(*) AS jobs FROM jobs_job
         WHERE status = %(checking)s AND minor_status = %(waits_for_room)s GROUP BY 1, 2, 3
    ), unmatched AS (
        -- Jobs may have left their task queue since they were counted.
        SELECT owner_id, group_id, job_type, least(its.jobs, coalesce(waiting, 0)) AS jobs
          FROM unnest(%(owners)s::bigint[], %(groups)s::bigint[], %(types)s::text[], %(jobs)s::bigint[])
               AS its (owner_id, group_id, job_type, jobs)
          JOIN of_type USING (owner_id, group_id, job_type)
    ), level AS (
        SELECT vo_id, group_id, owner_id, site_id, job_type, running * part AS running, 0 AS waiting,
               0 AS waiting_unmatched, 0 AS waiting_for_data, 0 AS waiting_for_room, 0 AS held
          FROM at_site JOIN part USING (vo_id, group_id, owner_id)
         UNION ALL
        SELECT vo_id, group_id, owner_id, NULL, job_type, 0, coalesce(waiting, 0) - coalesce(unmatched.jobs, 0),
               coalesce(unmatched.jobs, 0), greatest(coalesce(checking, 0) - coalesce(room.jobs, 0), 0),
               coalesce(room.jobs, 0), coalesce(held, 0)
          FROM of_type LEFT JOIN room USING (group_id, owner_id, job_type)
          LEFT JOIN unmatched USING (group_id, owner_id, job_type)
         WHERE coalesce(waiting, 0) + coalesce(checking, 0) + coalesce(held, 0) > 0
    ), period AS (
        INSERT INTO jobs_jobbucketperiod (width_s, begun_at, samples)
        SELECT width_s, date_trunc(unit, %(now)s, 'UTC'), 1 FROM {_WIDTHS}
            ON CONFLICT (width_s, begun_at) DO UPDATE SET samples = jobs_jobbucketperiod.samples + 1
    ), addition ({_BUCKET}, {", ".join(_LEVELS)}) AS MATERIALIZED (
        SELECT width_s, date_trunc(unit, %(now)s, 'UTC'), vo_id, group_id, owner_id, site_id, job_type,
               {", ".join(f"sum({name})" for name in _LEVELS)}
          FROM level CROSS JOIN {_WIDTHS}
         GROUP BY 1, 2, 3, 4, 5, 6, 7
    ), {_into_buckets(_LEVELS)}
"""  # noqa: S608 - our own constants

#: *cells* are the sums of each bucket and key. A key's place is by its largest part in any of these sums.
_LARGEST_PARTS: Final = """
    WITH cell (begun_at, key, {sums}) AS MATERIALIZED ({cells}),
         weighed AS (
        SELECT key, greatest({parts}) AS part FROM cell GROUP BY key
    ), placed AS MATERIALIZED (
        SELECT key, row_number() OVER (ORDER BY part DESC, key) AS place FROM weighed
    )
    SELECT begun_at, least(place, %s) AS place, CASE WHEN place < %s THEN key END, {totals}
      FROM cell JOIN placed USING (key)
     GROUP BY 1, 2, 3 ORDER BY 2, 1
"""


#: A line that this server's transactions have written has the number of one of them; xmin has its last 32 bits.
_FORGET_OTHER_SERVER: Final = """
    UPDATE jobs_jobhistory SET transaction_number = NULL
     WHERE transaction_number >= %s AND transaction_number %% 4294967296 <> xmin::text::bigint
"""


@transaction_required
def forget_other_server(*, end: int) -> int:
    """Forget the numbers of transactions of another server, whose database was restored on this one; return how many.

    Else these lines would be new once more when the transactions of this server reach their numbers.

    Args:
        end: number of the first transaction of this server that has not begun.
    """
    with connection.cursor() as cursor:
        cursor.execute(_FORGET_OTHER_SERVER, [end])
        return int(cursor.rowcount)


@transaction_required
def add_to_buckets(*, since: str, until: str, first: int, end: int) -> None:
    """Add starts and ends that are visible in the snapshot *until*, and were not in *since*, to their buckets.

    Args:
        since: a snapshot.
        until: a later one.
        first: number of the first transaction that may not be visible in *since*.
        end: number of the first transaction that is after *until*.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _ADD_TO_BUCKETS,
            {
                "first": first,
                "end": end,
                "since": since,
                "until": until,
                "running": JobStatus.RUNNING,
                "done": JobStatus.DONE,
                "failed": JobStatus.FAILED,
                "killed": JobStatus.KILLED,
                "stalled": JobStatus.STALLED,
            },
        )


@transaction_required
def sample_levels(now: datetime, *, unmatched: Collection[UnmatchedCount]) -> None:
    """Add the present numbers of running and waiting jobs to the buckets of *now*.

    Args:
        now: the time.
        unmatched: the waiting jobs that no batch queue fits, one entry for each owner, group and type.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _SAMPLE_LEVELS,
            {
                "now": now,
                "leased": sorted(LEASED),
                "queued": [JobStatus.WAITING, JobStatus.RECEIVED, JobStatus.RESCHEDULED],
                "checking": JobStatus.CHECKING,
                "held": JobStatus.HELD,
                "waits_for_room": WAITS_FOR_ROOM,
                "owners": [each.owner_id for each in unmatched],
                "groups": [each.group_id for each in unmatched],
                "types": [each.job_type for each in unmatched],
                "jobs": [each.jobs for each in unmatched],
            },
        )


def largest_parts(
    cells: QuerySet[Any], sums: Sequence[str], *, ranked_by: Sequence[str], most: int
) -> Sequence[Sequence[Any]]:
    """Return the sums of the *most* keys with the largest parts, and of all others together.

    Args:
        cells: buckets as values: begin, key (never null), then the sums.
        sums: the names of these.
        ranked_by: the sums in which a large part counts.
        most: number of keys.

    Returns:
        Begin, place from 1 on, key (None: the others), and the sums; ordered by place and begin.
    """
    parts = ", ".join(f"coalesce(sum({name}) / nullif(sum(sum({name})) OVER (), 0), 0)" for name in ranked_by)
    compiled, parameters = _sql_of(cells)
    statement = _LARGEST_PARTS.format(
        sums=", ".join(sums), cells=compiled, parts=parts, totals=", ".join(f"sum({name})" for name in sums)
    )
    with transaction.atomic(), connection.cursor() as cursor:
        # Without memory for all cells, the buckets are sorted, which takes as long as all the rest.
        cursor.execute("SET LOCAL work_mem = '64MB'")
        cursor.execute(statement, (*parameters, most + 1, most + 1))
        rows: Sequence[Sequence[Any]] = cursor.fetchall()
    return rows
