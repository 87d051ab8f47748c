"""Tells pilots that are drained, and have jobs, to ask for no others."""

from datetime import datetime

from django.db import transaction

from matching.models import Match
from pilots.models import Pilot
from wms.jobs.models import JobCommand


@transaction.atomic(durable=True)
def tell_drained_pilots(*, now: datetime) -> int:
    """Order each drained pilot, on each of its open leases, to drain; return how many orders were written.

    It hears one with the next report on that lease, and again until it is acknowledged, as it does those to kill. Once
    for each pilot: since it is drained it gets no other lease.
    """
    leases = Match.objects.filter(ended_at=None)
    # Uses index: match_open. From the leases to the pilots: few pilots have one, among millions.
    drained = Pilot.objects.filter(
        pk__in=leases.values("pilot"), ended_at=None, drained_at__isnull=False, drain_told_at=None
    )
    pilots = list(drained.order_by("pk").select_for_update(skip_locked=True).values_list("pk", flat=True))
    job_ids = leases.filter(pilot__in=pilots).order_by("job").values_list("job", flat=True)
    orders = [JobCommand(job_id=job_id, name="drain", created_at=now) for job_id in job_ids]
    JobCommand.objects.bulk_create(orders)
    Pilot.objects.filter(pk__in=pilots).update(drain_told_at=now)
    return len(orders)
