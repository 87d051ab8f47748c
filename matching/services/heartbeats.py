"""The ordinary heartbeat, one round trip to the database that is one transaction; its text is ``sql/heartbeat.sql``."""

import json
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings

from wms.jobs.models import JobCommand
from wms.kernel.db import ask_prepared

#: A pilot that reports on a lease is known to live by that; its own row is written only so often …
SEEN_WITHIN_S: Final = 120.0
#: … and in less than this part of the silence after which it is lost.
PART_OF_SILENCE: Final = 0.1

_HEARTBEAT: Final = "SELECT * FROM wms_heartbeat(%s, %s, %s, %s, %s, %s, %s, %s)"


class Renewal(NamedTuple):
    """What an ordinary heartbeat comes to."""

    expires_at: datetime
    #: That are to be obeyed, the oldest first.
    commands: list[JobCommand]


def renew(
    match_id: UUID,
    *,
    cpu_s: float | None,
    wall_s: float | None,
    memory_mb: float | None,
    disk_mb: float | None,
    std_output: str | None,
) -> Renewal | None:
    """Renew a lease on a job that does not come back from silence; None, and no change, if it is no such lease.

    Args:
        match_id: the lease.
        cpu_s, wall_s, memory_mb, disk_mb: what the payload has used so far; None: not measured.
        std_output: last lines; None: as before.
    """
    rows = ask_prepared(
        _HEARTBEAT,
        match_id,
        cpu_s,
        wall_s,
        memory_mb,
        disk_mb,
        std_output,
        float(settings.WMS_LEASE_S),
        min(SEEN_WITHIN_S, PART_OF_SILENCE * settings.WMS_PILOT_LOST_S),
    )
    if not rows:
        return None
    ((expires_at, orders),) = rows
    # NB: Django has psycopg leave JSON as it is.
    found = [] if orders is None else json.loads(orders)
    return Renewal(expires_at, [JobCommand(pk=pk, name=name, arguments=arguments) for pk, name, arguments in found])
