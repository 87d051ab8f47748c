"""Drain commands for drained pilots that still have jobs."""

from datetime import datetime

from django.db import transaction

from matching.models import Match
from pilots.models import Pilot
from wms.jobs.models import JobCommand
from wms.wire.protocol import DRAIN


@transaction.atomic(durable=True)
def tell_drained_pilots(*, now: datetime) -> int:
    """Write a drain command for each open lease of each drained pilot; return the number of commands.

    The pilot gets it with the answer to its reports on that lease until it acknowledges it, as a kill command. Each
    pilot gets it once: while drained it gets no other lease.
    """
    leases = Match.objects.filter(ended_at=None)
    # Uses index: match_open. From leases to pilots: few of millions of pilots have one.
    drained = Pilot.objects.filter(
        pk__in=leases.values("pilot"), ended_at=None, drained_at__isnull=False, drain_told_at=None
    )
    pilots = list(drained.order_by("pk").select_for_update(skip_locked=True).values_list("pk", flat=True))
    job_ids = leases.filter(pilot__in=pilots).order_by("job").values_list("job", flat=True)
    orders = [JobCommand(job_id=job_id, name=DRAIN, created_at=now) for job_id in job_ids]
    JobCommand.objects.bulk_create(orders)
    Pilot.objects.filter(pk__in=pilots).update(drain_told_at=now)
    return len(orders)
