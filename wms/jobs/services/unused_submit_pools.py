"""Removal of submit pools that no job refers to any more (RFC7); task queues refer only to pools of waiting jobs."""

from collections.abc import Collection
from datetime import datetime
from typing import Final

from taskqueues.services import submit_pools
from wms.jobs.domain.lifecycle import FINAL, JobStatus
from wms.jobs.models import Job

#: Statuses of jobs that may return to a task queue but are in none. The pools of Waiting jobs are known by their task
#: queues; a failed job that is rescheduled registers its pool anew.
REFERRING: Final = frozenset(JobStatus) - FINAL - {JobStatus.WAITING}


def remove_unused(*, now: datetime) -> int:
    """Remove the pools without reference for the time of grace; return how many."""
    return submit_pools.remove_unused(now=now, in_use=_referred_to)


def _referred_to(pool_ids: Collection[str]) -> Collection[str]:
    # Uses index: job_of_status
    jobs = Job.objects.filter(status__in=sorted(REFERRING), submit_pools__overlap=sorted(pool_ids))
    return {pool_id for pools in jobs.values_list("submit_pools", flat=True) for pool_id in pools}
