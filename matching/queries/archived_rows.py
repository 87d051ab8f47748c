"""The rows of jobs as their archive has them: one for each job, with all that is known about it (ADR 100)."""

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Final, TypeAlias

from django.db import connection

from wms.jobs.models import OutputTail
from wms.kernel.db import array_of

Value: TypeAlias = int | float | str | datetime | None

#: Names and kinds of the columns, in their order. Those of kind ``json`` are texts.
COLUMNS: Final = (
    ("id", "integer"),
    ("submission", "text"),
    ("vo", "text"),
    ("group", "text"),
    ("owner", "text"),
    ("status", "text"),
    ("minor_status", "text"),
    ("application_status", "text"),
    ("job_name", "text"),
    ("job_group", "text"),
    ("job_type", "text"),
    ("priority", "integer"),
    ("reschedules", "integer"),
    ("site", "text"),
    ("ce", "text"),
    ("queue", "text"),
    ("pilot_id", "integer"),
    ("submitted_at", "time"),
    ("matched_at", "time"),
    ("started_at", "time"),
    ("ended_at", "time"),
    ("status_changed_at", "time"),
    ("exit_code", "integer"),
    ("cpu_s", "number"),
    ("wall_s", "number"),
    ("max_memory_mb", "number"),
    ("max_disk_mb", "number"),
    ("output_sandbox", "text"),
    ("description", "json"),
    ("history", "json"),
    ("leases", "json"),
    ("usage_samples", "json"),
    ("input_sandboxes", "json"),
    ("commands", "json"),
    ("tails", "json"),
)

#: All but the last lines, which are compressed. Rows about a job are as their tables have them.
# Uses index: jobs_jobhistory_pkey, matching_match_job_id_aeda778d
_ROWS: Final = """
    SELECT job.vo_id, job.id, job.submission_id::text, vo.name, its_group.name, owner.username, job.status,
           job.minor_status, job.application_status, job.job_name, job.job_group, job.job_type, job.priority::integer,
           job.reschedules::integer, site.name, ce.name, queue.name, job.pilot_id, job.submitted_at, job.matched_at,
           job.started_at, job.ended_at, job.status_changed_at, job.exit_code, job.cpu_s, job.wall_s, job.max_memory_mb,
           job.max_disk_mb, output.digest, stored.description::text,
           (SELECT coalesce(json_agg(to_jsonb(its) - 'job_id' - 'transaction_number' ORDER BY its.id), '[]')::text
              FROM jobs_jobhistory AS its WHERE its.job_id = job.id),
           (SELECT coalesce(json_agg(to_jsonb(its) - 'job_id' ORDER BY its.leased_at, its.id), '[]')::text
              FROM matching_match AS its WHERE its.job_id = job.id),
           (SELECT coalesce(json_agg(to_jsonb(its) - 'job_id' ORDER BY its.attempt), '[]')::text
              FROM jobs_usagesamples AS its WHERE its.job_id = job.id),
           (SELECT coalesce(json_agg(json_build_object('digest', sandbox.digest, 'file_name', its.file_name)
                                     ORDER BY its.id), '[]')::text
              FROM jobs_inputsandbox AS its JOIN jobs_sandbox AS sandbox ON sandbox.id = its.sandbox_id
             WHERE its.job_id = job.id),
           (SELECT coalesce(json_agg(to_jsonb(its) - 'job_id' ORDER BY its.id), '[]')::text
              FROM jobs_jobcommand AS its WHERE its.job_id = job.id)
      FROM jobs_job AS job
      JOIN accounts_vo AS vo ON vo.id = job.vo_id
      JOIN accounts_group AS its_group ON its_group.id = job.group_id
      JOIN accounts_user AS owner ON owner.id = job.owner_id
      LEFT JOIN jobs_storeddescription AS stored ON stored.id = job.stored_description_id
      LEFT JOIN resources_site AS site ON site.id = job.site_id
      LEFT JOIN resources_computingelement AS ce ON ce.id = job.ce_id
      LEFT JOIN resources_queue AS queue ON queue.id = job.queue_id
      LEFT JOIN jobs_sandbox AS output ON output.id = job.output_sandbox_id
     WHERE job.id = ANY(%s::bigint[])
     ORDER BY job.id
"""


def rows_of(job_ids: Sequence[int]) -> dict[int, list[tuple[Value, ...]]]:
    """Return {VO id: rows of its jobs, by id}; the values are those of COLUMNS."""
    tails: dict[int, list[dict[str, object]]] = defaultdict(list)
    for tail in OutputTail.objects.filter(job__in=list(job_ids)).order_by("job_id", "attempt"):
        tails[tail.job_id].append({"attempt": tail.attempt, "std_output": tail.std_output, "std_error": tail.std_error})
    rows: dict[int, list[tuple[Value, ...]]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_ROWS, [array_of(job_ids)])
        for vo_id, job_id, *values in cursor.fetchall():
            rows[vo_id].append((job_id, *values, json.dumps(tails.get(job_id, []))))
    if sum(map(len, rows.values())) != len(job_ids):
        raise ValueError("Some of the jobs cannot be read whole; nothing is archived.")
    return rows
