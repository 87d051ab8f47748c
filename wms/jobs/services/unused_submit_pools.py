"""Removal of submit pools that no job refers to any more (RFC7); task queues refer only to pools of waiting jobs."""

from collections.abc import Collection
from datetime import datetime

from taskqueues.services import submit_pools
from wms.jobs.models import Job
from wms.jobs.models.jobs import REFERRING_TO_POOLS


def remove_unused(*, now: datetime) -> int:
    """Remove the pools without reference for the time of grace; return how many."""
    return submit_pools.remove_unused(now=now, in_use=_referred_to)


def _referred_to(pool_ids: Collection[str]) -> Collection[str]:
    # Uses index: job_that_names_pools
    jobs = Job.objects.filter(status__one_of=sorted(REFERRING_TO_POOLS), submit_pools__overlap=sorted(pool_ids))
    jobs = jobs.exclude(submit_pools=[])
    return {pool_id for pools in jobs.values_list("submit_pools", flat=True) for pool_id in pools}
