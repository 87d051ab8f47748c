"""Named reads about pilots."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from pilots.domain import PROTOCOL_VERSION, WatchdogMargins
from pilots.models import Pilot
from resources.models import Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Everything that a pilot must know to work (PIL §2.1)."""

    protocol: int
    server_time: datetime
    pilot: Pilot
    #: None: made by hand, bound to no queue.
    queue: Queue | None
    heartbeat_s: int
    match_retry_after_s: int
    lease_first_s: int
    lease_s: int
    lease_grace_s: int
    sandbox_max_bytes: int
    sandbox_max_unpacked_bytes: int
    watchdog: WatchdogMargins


def configuration_of(pilot: Pilot, *, server_time: datetime) -> Configuration:
    """Return what *pilot* (with VO, group, owner and place) must know.

    Args:
        pilot: who asks.
        server_time: of the database, by which leases end.
    """
    return Configuration(
        protocol=PROTOCOL_VERSION,
        server_time=server_time,
        pilot=pilot,
        queue=pilot.queue,
        heartbeat_s=settings.WMS_HEARTBEAT_S,
        match_retry_after_s=settings.WMS_MATCH_RETRY_AFTER_S,
        lease_first_s=settings.WMS_LEASE_FIRST_S,
        lease_s=settings.WMS_LEASE_S,
        lease_grace_s=settings.WMS_LEASE_GRACE_S,
        sandbox_max_bytes=settings.WMS_SANDBOX_MAX_BYTES,
        sandbox_max_unpacked_bytes=settings.WMS_SANDBOX_MAX_UNPACKED_BYTES,
        watchdog=WatchdogMargins(),
    )
