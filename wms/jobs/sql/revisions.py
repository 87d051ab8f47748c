"""The revision of one job, read by one statement: its open pages ask for it every few seconds."""

from typing import Final, NamedTuple, Self

from wms.kernel.fast.statements import query_directly

#: The second part changes with the job's page, its values as one text.
_REVISION: Final = """
SELECT job.owner_id::text, job.group_id::text, job.vo_id::text, job.status, job.pilot_id::text,
       ROW(job.status_changed_at, job.minor_status, job.application_status, job.heartbeat_at, job.reschedules,
           job.output_sandbox_id, job.stored_description_id, job.priority, job.job_name,
           (SELECT max(line.id) FROM jobs_jobhistory AS line WHERE line.job_id = job.id),
           (SELECT retry.job_id FROM jobs_jobretry AS retry WHERE retry.predecessor_id = job.id))::text
  FROM jobs_job AS job WHERE job.id = $1::bigint
"""


class JobRevision(NamedTuple):
    """Owner, group and VO of a job, and values that change with its page."""

    owner_id: int
    group_id: int
    vo_id: int
    status: str
    pilot_id: int | None
    #: Another text after each change.
    others: str

    @classmethod
    def of(cls, job_id: int) -> Self | None:
        """Read that of the job with this id; None: there is none."""
        # Uses index: jobs_jobhistory_pkey, and the unique one of the predecessor.
        for owner, group, vo, status, pilot, others in query_directly("job_revision", _REVISION, str(job_id)):
            return cls(
                owner_id=int(owner or 0),
                group_id=int(group or 0),
                vo_id=int(vo or 0),
                status=str(status),
                pilot_id=None if pilot is None else int(pilot),
                others=str(others),
            )
        return None
