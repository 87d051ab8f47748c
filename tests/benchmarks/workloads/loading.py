"""The waiting jobs of a workload, inserted in bulk by COPY, with the rows that submission would write."""

import gc
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

from django.db import connection, transaction
from psycopg import sql

from taskqueues.domain.definition import JobRequirements, QueueDefinition, define
from taskqueues.domain.shares import USER_PRIORITIES as LEVELS
from taskqueues.domain.shares import total_weight
from taskqueues.services import priorities, queueing
from tests.benchmarks.workloads.loaded import SETUP, LoadedWorkload, make_vo_and_sites
from tests.benchmarks.workloads.shape import CAMPAIGN, USER_PRIORITIES, QueueShape, Workload
from wms.jobs.domain.description import as_stored, parse
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.services import counting

#: Jobs of one request at the most, all of one task queue.
BATCH = 500

_TABLES = ("jobs_submission", "jobs_storeddescription", "jobs_job", "jobs_jobhistory", "taskqueues_queuedjob")

_MAKE_BATCHES = """
CREATE TEMPORARY TABLE load_batch (
    submission_id uuid, first_job_id bigint, task_queue_id bigint, owner_id bigint, group_id bigint, vo_id bigint,
    owner text, job_group text, job_type text, description jsonb, priorities smallint[], submitted_at timestamptz
)
"""
_FILL = (
    """
    INSERT INTO jobs_submission (id, owner_id, group_id, submitted_at, body_digest)
    SELECT submission_id, owner_id, group_id, submitted_at, sha256(first_job_id::text::bytea) FROM load_batch
    """,
    # Jobs of a campaign that differ only in name share their description.
    """
    CREATE TEMPORARY TABLE load_job AS
    SELECT first_job_id AS batch, first_job_id + number - 1 AS id, 'job-' || number AS name, level.priority,
           min(first_job_id + number - 1) OVER (PARTITION BY kind, level.priority) AS description_id
      FROM (SELECT *, dense_rank() OVER (ORDER BY description) AS kind FROM load_batch) AS batch,
           unnest(priorities) WITH ORDINALITY AS level (priority, number)
    """,
    """
    INSERT INTO jobs_storeddescription (id, description)
    SELECT job.id, description || jsonb_build_object('priority', job.priority)
      FROM load_job AS job JOIN load_batch ON first_job_id = job.batch
     WHERE job.id = job.description_id
     ORDER BY job.id
    """,
    """
    INSERT INTO jobs_job (
        id, submission_id, owner_id, group_id, vo_id, status, submitted_at, status_changed_at, minor_status,
        application_status, reschedules, job_name, job_group, job_type, priority, submit_pools, stored_description_id
    )
    SELECT job.id, submission_id, owner_id, group_id, vo_id, %(waiting)s, submitted_at, submitted_at, '',
           '', 0, job.name, job_group, job_type, job.priority, '{}', job.description_id
      FROM load_job AS job JOIN load_batch ON first_job_id = job.batch
     ORDER BY job.id
    """,
    """
    INSERT INTO jobs_jobhistory (job_id, changed_at, status, minor_status, application_status, source)
    SELECT first_job_id + number - 1, submitted_at, status, '', '', owner
      FROM load_batch, generate_series(1, cardinality(priorities)) AS number, unnest(%(statuses)s::text[]) AS status
    """,
    """
    INSERT INTO taskqueues_queuedjob (job_id, task_queue_id, user_priority)
    SELECT first_job_id + number - 1, task_queue_id, priority
      FROM load_batch, unnest(priorities) WITH ORDINALITY AS level (priority, number)
    """,
    "SELECT setval(pg_get_serial_sequence('jobs_job', 'id'), %(jobs)s)",
    "SELECT setval(pg_get_serial_sequence('jobs_storeddescription', 'id'), %(jobs)s)",
    "DROP TABLE load_job",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """The jobs of one request, in the columns of the table of batches."""

    submission_id: UUID
    first_job_id: int
    task_queue_id: int
    owner_id: int
    group_id: int
    vo_id: int
    owner: str
    job_group: str
    job_type: str
    description: str
    priorities: Sequence[int]
    submitted_at: datetime


def load(workload: Workload, *, pilots: int = 4000, seed: int = 1) -> LoadedWorkload:
    """Load the workload into an empty database, with about this many pilots; return its rows."""
    chance = Random(seed)
    # Submitted over the last day; the last job a moment ago.
    begun = datetime.now(tz=UTC) - timedelta(days=1)
    with transaction.atomic():
        loaded = make_vo_and_sites(workload, pilots=pilots, now=begun)
        levels = [
            chance.choices(list(USER_PRIORITIES), list(USER_PRIORITIES.values()), k=q.jobs) for q in workload.queues
        ]
        queues = _copy_queues(loaded, levels, now=begun)
        _insert(workload, _batches(loaded, queues, levels, chance, begun=begun))
        counting.recount()  # the triggers that count were off
    priorities.recalculate()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")
        cursor.execute("CHECKPOINT")  # the pages that were loaded are written now, not while something is measured
    gc.collect()
    gc.freeze()  # nor does Python look through all that the workload consists of
    return loaded


def loaded_sizes(loaded: LoadedWorkload) -> dict[str, str | int]:
    """Return the sizes of the workload, for a report."""
    workload = loaded.workload
    return {"workload": workload.name, "task queues": len(workload.queues), "waiting jobs": workload.jobs}


def definition_of(queue: QueueShape, loaded: LoadedWorkload) -> QueueDefinition:
    """Return the task queue definition that submission computes for the jobs of *queue*."""
    return define(
        JobRequirements(
            owner_id=loaded.owners[queue.owner].pk,
            group_id=loaded.groups[loaded.workload.owners[queue.owner].group].pk,
            vo_id=loaded.vo.pk,
            setup=SETUP,
            cpu_time_s=queue.cpu_time_s,
            sites=queue.sites,
            banned_sites=queue.banned_sites,
            platforms=queue.platforms,
            tags=queue.tags,
            job_type=queue.job_type,
        ),
        rounding=queueing.rounding(),
    )


def description_of(queue: QueueShape) -> dict[str, object]:
    """Return the body of a request that submits one job into *queue*."""
    return {
        "executable": "run_simulation.sh",
        "arguments": "--events 2000 --seed 421337 --geometry run3-2026 --output histograms.root",
        "job_type": queue.job_type,
        "cpu_time_s": queue.cpu_time_s,
        "sites": list(queue.sites),
        "banned_sites": list(queue.banned_sites),
        "platforms": list(queue.platforms),
        "tags": list(queue.tags),
        "output_sandbox": ["*.log", "summary.json"],
        "environment": {"OMP_NUM_THREADS": "1"},
    }


def _copy_queues(loaded: LoadedWorkload, levels: Sequence[Sequence[int]], *, now: datetime) -> list[QueueDefinition]:
    """Make the task queues, numbered from 1 in their order, without priorities, which are computed for all together."""
    definitions = [definition_of(queue, loaded) for queue in loaded.workload.queues]
    rows = (
        _task_queue(number, definition, Counter(of_queue), now=now)
        for number, (definition, of_queue) in enumerate(zip(definitions, levels, strict=True), start=1)
    )
    first = next(rows)
    copy_into("taskqueues_taskqueue", list(first), (list(row.values()) for row in (first, *rows)))
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval(pg_get_serial_sequence('taskqueues_taskqueue', 'id'), %s)", [len(definitions)])
    return definitions


def _task_queue(
    number: int, definition: QueueDefinition, jobs_of_level: Counter[int], *, now: datetime
) -> dict[str, object]:
    return {
        **{name: list(value) if isinstance(value, tuple) else value for name, value in asdict(definition).items()},
        "id": number,
        "signature": definition.signature(),
        "priority": 0.0,
        "weight": total_weight(jobs_of_level),
        "jobs_of_level": [jobs_of_level[level] for level in range(LEVELS)],
        "created_at": now,
    }


def _batches(
    loaded: LoadedWorkload,
    queues: Sequence[QueueDefinition],
    levels: Sequence[Sequence[int]],
    chance: Random,
    *,
    begun: datetime,
) -> Iterator[_Batch]:
    """Yield the requests in order of submission: the jobs of a queue come in parts, between those of others."""
    workload = loaded.workload
    parts = [(number, start) for number, queue in enumerate(workload.queues) for start in range(0, queue.jobs, BATCH)]
    chance.shuffle(parts)
    job_id = 1
    campaign = of_campaign = 0
    for part, (number, start) in enumerate(parts):
        queue, definition = workload.queues[number], queues[number]
        of_part = levels[number][start : start + BATCH]
        if of_campaign + len(of_part) > CAMPAIGN:
            campaign, of_campaign = campaign + 1, 0
        of_campaign += len(of_part)
        yield _Batch(
            submission_id=UUID(int=chance.getrandbits(128), version=4),
            first_job_id=job_id,
            task_queue_id=number + 1,
            owner_id=definition.owner_id,
            group_id=definition.group_id,
            vo_id=definition.vo_id,
            owner=workload.owners[queue.owner].name,
            job_group=f"campaign{campaign}",
            job_type=queue.job_type,
            description=_stored_description(queue, campaign=f"campaign{campaign}"),
            priorities=of_part,
            submitted_at=begun + timedelta(days=1) * (part / len(parts)),
        )
        job_id += len(of_part)


def _stored_description(queue: QueueShape, *, campaign: str) -> str:
    wanted = parse({**description_of(queue), "job_group": campaign})
    return as_stored(wanted, setup=SETUP)


def _insert(workload: Workload, batches: Iterable[_Batch]) -> None:
    columns = list(_Batch.__slots__)
    with connection.cursor() as cursor, without_indexes(_TABLES):
        # Millions of look-ups of rows that were made a moment ago.
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(_MAKE_BATCHES)
        copy_into("load_batch", columns, ([getattr(batch, column) for column in columns] for batch in batches))
        values: dict[str, str | int | list[str]] = {
            "waiting": JobStatus.WAITING.value,
            "statuses": [JobStatus.RECEIVED.value, JobStatus.WAITING.value],
            "jobs": workload.jobs,
        }
        for statement in _FILL:
            cursor.execute(statement, values)
        cursor.execute("SET LOCAL session_replication_role = origin")


def copy_into(table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Insert the rows by COPY."""
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


@contextmanager
def without_indexes(tables: Collection[str]) -> Iterator[None]:
    """Drop the tables' indexes but those of constraints, and rebuild them at the end, in a third of the time."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = ANY(%s) AND NOT EXISTS"
            " (SELECT FROM pg_constraint WHERE conindid = indexname::regclass)",
            [list(tables)],
        )
        indexes = cursor.fetchall()
        for name, _ in indexes:
            cursor.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
        yield
        cursor.execute("SET LOCAL maintenance_work_mem = '512MB'")
        for _, definition in indexes:
            cursor.execute(definition)
