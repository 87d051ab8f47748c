"""Which jobs retry which others: each job is retried with changes once, then its successor is."""

from collections.abc import Collection, Mapping, Sequence

from wms.jobs.models import Job, JobRetry
from wms.jobs.sql.arrivals import copy_rows
from wms.kernel.db import transaction_required
from wms.kernel.errors import ConflictError


class AlreadyRetriedError(ConflictError):
    """The job was retried with changes before; retry its successor instead."""

    code = "already_retried"

    def __init__(self, job_id: int, *, successor_id: int) -> None:
        super().__init__(f"Job {job_id} was retried already, as job {successor_id}; retry that one.")


def successors_of(job_ids: Collection[int]) -> Mapping[int, int]:
    """Return {job: the job that retries it} of those that were retried."""
    # Uses index: the unique one of the predecessor.
    return dict(JobRetry.objects.filter(predecessor_id__in=job_ids).values_list("predecessor_id", "job_id"))


@transaction_required
def lock_predecessors(job_ids: Sequence[int]) -> None:
    """Lock jobs that are about to be retried.

    Raises:
        AlreadyRetriedError: one was retried in the meantime.
    """
    list(Job.objects.filter(pk__among=job_ids).order_by("pk").select_for_update(no_key=True).values_list("pk"))
    for predecessor_id, job_id in successors_of(job_ids).items():
        raise AlreadyRetriedError(predecessor_id, successor_id=job_id)


@transaction_required
def note_retries(job_ids: Sequence[int], predecessors: Sequence[int]) -> None:
    """Note of each new job in the place of which it is."""
    copy_rows("jobs_jobretry", ("job_id", "predecessor_id"), zip(job_ids, predecessors, strict=True))
