"""Submit pools that no job refers to any more (RFC7); task queues know only of the jobs that wait in them."""

from collections.abc import Collection
from datetime import datetime
from typing import Final

from taskqueues.services import submit_pools
from wms.jobs.domain.lifecycle import FINAL, JobStatus
from wms.jobs.models import Job

#: A job in one of these may come back to a queue, and stands in none. Those that wait are known by their queues; a
#: failed one that is rescheduled makes its pool anew.
REFERRING: Final = frozenset(JobStatus) - FINAL - {JobStatus.WAITING}


def remove_unused(*, now: datetime) -> int:
    """Remove the pools that no job has needed for the time of grace, and none refers to; return how many."""
    return submit_pools.remove_unused(now=now, in_use=_referred_to)


def _referred_to(pool_ids: Collection[str]) -> Collection[str]:
    # Uses index: job_of_status
    jobs = Job.objects.filter(status__in=sorted(REFERRING), submit_pools__overlap=sorted(pool_ids))
    return {pool_id for pools in jobs.values_list("submit_pools", flat=True) for pool_id in pools}
