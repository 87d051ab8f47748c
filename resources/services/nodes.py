"""Storage of the platforms that nodes of queues report (ADR 28)."""

from datetime import datetime, timedelta
from typing import Final

from resources.models import Queue, ReportedPlatform
from resources.queries.nodes import REPORT_HOLDS_FOR
from wms.kernel.db import transaction_required

#: Least time between two updates of a report; the nodes of a queue report often.
NOTED_EVERY: Final = timedelta(minutes=1)
#: Platforms stored per queue, so that a pilot with invented names cannot fill the table.
MOST_PLATFORMS: Final = 50


@transaction_required
def note_platform(queue: Queue, *, platform: str, host_name: str, now: datetime) -> None:
    """Store that a node of the queue reported this platform; a first report of a platform removes expired ones."""
    of_queue = ReportedPlatform.objects.filter(queue=queue)
    rows = of_queue.filter(platform=platform)
    noted = rows.filter(seen_at__gt=now - NOTED_EVERY).exists()
    if noted or rows.update(seen_at=now, host_name=host_name):
        return
    of_queue.filter(seen_at__lte=now - REPORT_HOLDS_FOR).delete()
    if of_queue.count() < MOST_PLATFORMS:
        row = ReportedPlatform(queue=queue, platform=platform, host_name=host_name, seen_at=now)
        ReportedPlatform.objects.bulk_create([row], ignore_conflicts=True)
