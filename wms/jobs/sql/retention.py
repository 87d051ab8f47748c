"""The removal of ended jobs, of their submissions, and of descriptions that no job has (ADR 100)."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from django.db import connection

from wms.jobs.domain.lifecycle import FINAL, JobStatus
from wms.kernel.db import array_of, transaction_required

#: The counters may lack the changes of the last seconds; under the locks of the jobs all is checked again. What is not
#: added to the counters yet is left to the next sweep.
# Uses index: content_since, submission_job_count_is_one_row
_NEXT_SUBMISSIONS: Final = """
    SELECT submission_id, submitted_at, coalesce((
               SELECT sum(jobs) FROM jobs_submissionjobcount AS count WHERE count.submission_id = content.submission_id
           ), 0)::integer
      FROM jobs_submissioncontent AS content
     WHERE submitted_at >= %(since)s AND (submitted_at, submission_id) > (%(since)s, %(last)s)
       AND submitted_at < %(before)s AND vo_id = ANY(%(vos)s::bigint[])
       AND submission_id NOT IN (SELECT submission_id FROM jobs_jobcountchange)
       AND NOT EXISTS (
           SELECT FROM jobs_submissionjobcount AS count
            WHERE count.submission_id = content.submission_id AND status <> ALL(%(final)s) AND jobs > 0
       )
     ORDER BY submitted_at, submission_id
     LIMIT %(most)s
"""

#: Tables of rows about one job. Inputs and commands have constraints, so they go before the job.
_ABOUT_JOBS: Final = (
    *("jobs_jobhistory", "jobs_outputtail", "jobs_usagesamples"),
    *("jobs_jobcommand", "jobs_inputsandbox", "jobs_jobretry"),
)

_REMOVE_JOBS: Final = """
    WITH gone AS (DELETE FROM jobs_job WHERE id = ANY(%s::bigint[]) RETURNING stored_description_id)
    SELECT DISTINCT stored_description_id FROM gone
"""

# Uses index: job_of_its_description
_RETIRE_DESCRIPTIONS: Final = """
    UPDATE jobs_storeddescription AS stored SET retired_at = %s
     WHERE id = ANY(%s::bigint[]) AND retired_at IS NULL
       AND NOT EXISTS (
           SELECT FROM jobs_job WHERE stored_description_id = stored.id AND ended_at IS NOT NULL
       )
"""

#: Jobs that have not ended are found by the owners and groups that ever had jobs, each of which is counted.
# Uses index: description_retired, job_of_its_description, job_of_its_kind
_REMOVE_DESCRIPTIONS: Final = """
    WITH unfinished AS MATERIALIZED (
        SELECT DISTINCT job.stored_description_id
          FROM (
               SELECT owner_id, group_id FROM jobs_jobcount UNION SELECT owner_id, group_id FROM jobs_jobcountchange
               ) AS acting
         CROSS JOIN unnest(%(unfinished)s::text[]) AS its (status)
          JOIN jobs_job AS job USING (owner_id, group_id, status)
    )
    DELETE FROM jobs_storeddescription
     WHERE id IN (
           SELECT id FROM jobs_storeddescription AS stored
            WHERE retired_at < %(before)s
              AND NOT EXISTS (
                  SELECT FROM jobs_job WHERE stored_description_id = stored.id AND ended_at IS NOT NULL
              )
              AND id NOT IN (SELECT stored_description_id FROM unfinished)
            LIMIT %(most)s
     )
"""

# Uses index: job_of_submission
_EMPTY_SUBMISSIONS: Final = """
    SELECT id FROM jobs_submission
     WHERE id = ANY(%s::uuid[]) AND NOT EXISTS (SELECT FROM jobs_job WHERE submission_id = jobs_submission.id)
"""

_REMOVE_SUBMISSIONS: Final = (
    "DELETE FROM jobs_submissionnotice WHERE submission_id = ANY(%s::uuid[])",
    "DELETE FROM jobs_submissioncanary WHERE submission_id = ANY(%s::uuid[])",
    "DELETE FROM jobs_submissioncontent WHERE submission_id = ANY(%s::uuid[])",
    "DELETE FROM jobs_submission WHERE id = ANY(%s::uuid[])",
)


class OldSubmission(NamedTuple):
    """A submission all of whose jobs seem to have ended."""

    id: UUID
    submitted_at: datetime
    #: That are there, as counted.
    jobs: int


def next_submissions(
    since: datetime, last: UUID, *, before: datetime, vo_ids: Collection[int], at_most: int
) -> list[OldSubmission]:
    """Return submissions by time, all of whose jobs seem to have ended.

    Args:
        since, last: time and id of the submission before the first one.
        before: only those submitted earlier.
        vo_ids: of their jobs.
        at_most: number.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _NEXT_SUBMISSIONS,
            {
                "since": since,
                "last": last,
                "before": before,
                "vos": array_of(vo_ids),
                "final": sorted(FINAL),
                "most": at_most,
            },
        )
        return [OldSubmission(*row) for row in cursor.fetchall()]


@transaction_required
def remove_jobs(job_ids: Sequence[int], *, submission_ids: Sequence[UUID], now: datetime) -> None:
    """Remove ended jobs, which the caller has locked, with all rows about them that this app has.

    A description that no ended job has any more is retired; a submission without a job is removed. Files of sandboxes
    are left to ``services.sandbox_upkeep``.

    Args:
        job_ids: of the jobs.
        submission_ids: of their submissions.
        now: the time.
    """
    ids = array_of(job_ids)
    with connection.cursor() as cursor:
        for table in _ABOUT_JOBS:
            cursor.execute(f"DELETE FROM {table} WHERE job_id = ANY(%s::bigint[])", [ids])  # noqa: S608 - our own constant
        cursor.execute(_REMOVE_JOBS, [ids])
        descriptions = array_of(pk for (pk,) in cursor.fetchall())
        cursor.execute(_RETIRE_DESCRIPTIONS, [now, descriptions])
        cursor.execute(_EMPTY_SUBMISSIONS, [list(submission_ids)])
        empty = [pk for (pk,) in cursor.fetchall()]
        for statement in _REMOVE_SUBMISSIONS:
            cursor.execute(statement, [empty])


@transaction_required
def remove_descriptions(*, retired_before: datetime, at_most: int) -> int:
    """Remove descriptions that no job has, and return how many.

    Args:
        retired_before: only those retired earlier: no transaction that saw them in use may still be open.
        at_most: number.
    """
    unfinished = sorted(set(JobStatus) - FINAL)
    with connection.cursor() as cursor:
        cursor.execute(_REMOVE_DESCRIPTIONS, {"unfinished": unfinished, "before": retired_before, "most": at_most})
        return int(cursor.rowcount)
