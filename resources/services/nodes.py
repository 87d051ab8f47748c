"""Keeps what the nodes of queues report of their platforms (ADR 28)."""

from datetime import datetime, timedelta
from typing import Final

from resources.models import Queue, ReportedPlatform
from wms.kernel.db import transaction_required

#: The nodes of a queue report again and again; one of them is enough.
NOTED_EVERY: Final = timedelta(minutes=1)


@transaction_required
def note_platform(queue: Queue, *, platform: str, host_name: str, now: datetime) -> None:
    """Note that a node of the queue reported this platform."""
    rows = ReportedPlatform.objects.filter(queue=queue, platform=platform)
    noted = rows.filter(seen_at__gt=now - NOTED_EVERY).exists()
    if noted or rows.update(seen_at=now, host_name=host_name):
        return
    row = ReportedPlatform(queue=queue, platform=platform, host_name=host_name, seen_at=now)
    ReportedPlatform.objects.bulk_create([row], ignore_conflicts=True)
