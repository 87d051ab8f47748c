"""The leases of one job."""

from collections.abc import Sequence
from typing import Final

from matching.models import Match
from wms.jobs.models import Job

#: Attempts of one job that a page shows, more than WMS_MAX_RESCHEDULES allows by far.
MOST_LEASES: Final = 50


def leases_of_job(job: Job) -> Sequence[Match]:
    """Return the newest leases of *job* with their queues and sites, the oldest of them first."""
    # Uses index: the foreign key of the job.
    newest = Match.objects.filter(job=job).select_related("queue__ce__site").order_by("-leased_at", "-pk")
    return list(newest[:MOST_LEASES])[::-1]
