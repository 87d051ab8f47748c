"""Buckets of the accounting: additions of starts, ends and levels, and the largest parts (ADR 64)."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final, TypeAlias

from django.db import connection, transaction
from django.db.models import Model, QuerySet

from wms.jobs.domain.accounting import Grouping, UnmatchedCount
from wms.jobs.domain.data import WAITS_FOR_ROOM
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.sql.compiled import sql_of
from wms.kernel.db import transaction_required

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

#: Begin, place, key and sums, as ``largest_parts`` returns them.
PartRow: TypeAlias = tuple[datetime, int, int | str | None, *tuple[float, ...]]

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
    cells: QuerySet[Model, object], sums: Sequence[str], *, ranked_by: Sequence[str], most: int
) -> Sequence[PartRow]:
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
    compiled, parameters = sql_of(cells)
    statement = _LARGEST_PARTS.format(
        sums=", ".join(sums), cells=compiled, parts=parts, totals=", ".join(f"sum({name})" for name in sums)
    )
    with transaction.atomic(), connection.cursor() as cursor:
        # Without memory for all cells, the buckets are sorted, which takes as long as all the rest.
        cursor.execute("SET LOCAL work_mem = '64MB'")
        cursor.execute(statement, (*parameters, most + 1, most + 1))
        return list(cursor.fetchall())
