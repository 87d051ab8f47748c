"""Signs of life of the parts that no request can ask."""

from datetime import timedelta

from wms.kernel.db import DatabaseNow
from wms.kernel.models import Pulse

#: Celery's beat together with a worker of the control queue.
BEAT = "beat"
#: Its entry in wms.schedule is 10 s; a worker busy with longer tasks is not down.
SILENT_AFTER = timedelta(seconds=60)


def show(name: str) -> None:
    """Write down that this part lives."""
    Pulse.objects.update_or_create(name=name, defaults={"beaten_at": DatabaseNow()})


def is_felt(name: str) -> bool:
    """Return whether this part has shown that it lives within the last minute."""
    return Pulse.objects.filter(name=name, beaten_at__gt=DatabaseNow() - SILENT_AFTER).exists()
