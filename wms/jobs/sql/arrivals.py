"""Insertion of submissions, and of their jobs with descriptions and history."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

import msgspec
from django.db import connection
from psycopg import sql

from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Submission
from wms.jobs.sql.compiled import Parameters
from wms.kernel.db import array_of, array_of_lines, transaction_required
from wms.kernel.fast.statements import query_prepared

Value: TypeAlias = int | str | UUID | datetime | Sequence[str] | None

_INSERT_SUBMISSION: Final = """
    INSERT INTO jobs_submission (id, owner_id, group_id, submitted_at, request_id, body_digest)
    VALUES (%s, %s, %s, %s, %s, %s)
        ON CONFLICT (owner_id, request_id) WHERE request_id IS NOT NULL DO NOTHING
    RETURNING id
"""

#: One row for each user; the first submission of a day begins it anew. By the database's clock.
_COUNT_TODAY: Final = """
    INSERT INTO jobs_madetoday AS known (owner_id, day, jobs, description_bytes)
    VALUES (%s, (wms_now() AT TIME ZONE 'UTC')::date, %s, %s)
        ON CONFLICT (owner_id) DO UPDATE
       SET day = excluded.day,
           jobs = excluded.jobs + CASE WHEN known.day = excluded.day THEN known.jobs ELSE 0 END,
           description_bytes = excluded.description_bytes
                               + CASE WHEN known.day = excluded.day THEN known.description_bytes ELSE 0 END
    RETURNING jobs, description_bytes,
              ceil(extract(epoch FROM (day + 1)::timestamp - (wms_now() AT TIME ZONE 'UTC')))::integer
"""

_STORED_OUTPUTS: Final = "SELECT coalesce(sum(output_bytes), 0)::bigint FROM jobs_storedbytes WHERE owner_id = %s"

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
          FROM named
          JOIN jobs_storeddescription AS stored ON stored.digest = named.digest AND stored.retired_at IS NULL
    ), added AS (
        INSERT INTO jobs_storeddescription (description)
        SELECT description FROM named WHERE number NOT IN (SELECT number FROM known) ORDER BY digest
            ON CONFLICT (digest) WHERE retired_at IS NULL DO NOTHING
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
          FROM described
          JOIN jobs_storeddescription AS stored ON stored.digest = described.digest AND stored.retired_at IS NULL
    ), added AS (
        INSERT INTO jobs_storeddescription (description)
        SELECT kind.description || jsonb_build_object('arguments', described.arguments)
          FROM described JOIN kind ON kind.number = described.kind
         WHERE described.number NOT IN (SELECT number FROM known)
         ORDER BY described.digest
            ON CONFLICT (digest) WHERE retired_at IS NULL DO NOTHING
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
def insert_submission(submission: Submission) -> bool:
    """Insert the submission, unless its owner has used the request id; waits for a concurrent insertion of the same.

    Returns:
        Whether it was inserted.
    """
    values = (submission.pk, submission.owner_id, submission.group_id, submission.submitted_at)
    return bool(query_prepared(_INSERT_SUBMISSION, *values, submission.request_id, submission.body_digest))


class Today(NamedTuple):
    """What a user has made today (``MadeToday``)."""

    jobs: int
    description_bytes: int
    #: Seconds until the next day.
    left_s: int


@transaction_required
def count_today(owner_id: int, *, jobs: int, description_bytes: int) -> Today:
    """Add to what the user has made today, and return all of it; others of the user wait for this transaction."""
    (row,) = query_prepared(_COUNT_TODAY, owner_id, jobs, description_bytes)
    return Today(*row)


def stored_outputs_of(owner_id: int) -> int:
    """Return the bytes of the outputs of a user's jobs."""
    ((size_bytes,),) = query_prepared(_STORED_OUTPUTS, owner_id)
    return int(size_bytes)


def acted_in_groups_left(owner_id: int) -> bool:
    """Return whether the user has had jobs in a group without being a member of it now."""
    ((acted,),) = query_prepared(_ACTED_IN_GROUPS_LEFT, owner_id, owner_id, owner_id)
    return bool(acted)


def reserve_job_ids(count: int) -> list[int]:
    """Return *count* new job ids, ascending.

    Reserved before the insert, because texts of a job may contain its id (``%j``). The ORM does not support sequences.
    """
    return sorted(job_id for (job_id,) in query_prepared(_RESERVE_IDS, count))


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


def _ask(statement: str, parameters: Parameters, *, prepared: bool) -> list[tuple[int]]:
    if prepared:
        return query_prepared(statement, *parameters)
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
