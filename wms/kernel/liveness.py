"""Signs of life of the parts that serve no requests."""

from datetime import timedelta

from wms.kernel.db import DatabaseNow
from wms.kernel.models import Liveness

#: Celery's beat, together with a worker of the control queue.
BEAT = "beat"
#: The worker of the queue sites, to which beat sends, too.
SITES = "sites"
#: beat reports every 10 s (wms.schedule); a worker busy with longer tasks is not down.
SILENT_AFTER = timedelta(seconds=60)


def report(name: str) -> None:
    """Record that this part works."""
    Liveness.objects.update_or_create(name=name, defaults={"reported_at": DatabaseNow()})


def has_stopped(name: str) -> bool:
    """Return whether this part has reported, but not within SILENT_AFTER."""
    return Liveness.objects.filter(name=name, reported_at__lte=DatabaseNow() - SILENT_AFTER).exists()


def is_alive(name: str) -> bool:
    """Return whether this part has reported within SILENT_AFTER."""
    return Liveness.objects.filter(name=name, reported_at__gt=DatabaseNow() - SILENT_AFTER).exists()
