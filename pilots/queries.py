"""Named reads about pilots."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Q

from pilots.domain import ENDED, PROTOCOL_VERSION, PilotStatus, WatchdogMargins
from pilots.domain.logs import MAX_CHUNK_LENGTH, Part, joined, newest_of
from pilots.domain.pauses import Outcome
from pilots.models import Pilot, PilotLog, PilotLogPart, PilotQuerySet
from resources.domain.words import ResourceState
from resources.models import ComputingElement, Queue
from wms.accounts.models import User

#: Outcomes of a CE that are looked at: enough to see how many of its last cycles failed.
LATEST = 100
#: A pilot that has started asks for a job within seconds, and again; one that was not heard of for so long is stuck.
ASKS_WITHIN = timedelta(minutes=2)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowding:
    """The pilots at a queue: how many have not ended, and how many of these still wait in its batch system."""

    living: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JoblessPilots:
    """Pilots of one kind at one queue that have not had a job yet; without a group they are generic ones."""

    queue_id: int
    vo_id: int
    group_id: int | None
    #: None: made for all of a group that shares jobs.
    owner_id: int | None
    pilots: int


def open_queues(*, types: Collection[str], now: datetime) -> Sequence[Queue]:
    """Return the queues that take new pilots at *now*, at CEs of these types, each with its CE and site."""
    queues = Queue.objects.filter(ce__type__in=types).select_related("ce__site").order_by("pk")
    return [
        queue
        for queue in queues
        if all(level.state_at(now) is ResourceState.ACTIVE for level in (queue, queue.ce, queue.ce.site))
    ]


def crowding(queues: Collection[Queue]) -> Mapping[int, Crowding]:
    """Return how many pilots are at each of the queues; one without any is missing."""
    # Uses index: pilot_alive_at_queue
    living = Pilot.objects.filter(queue__in=queues, ended_at__isnull=True)
    # A stalled one "no longer counts as waiting" (DESIGN §3.7).
    waits = Q(started_at__isnull=True) & ~Q(status=PilotStatus.STALLED)
    counts = living.values("queue").annotate(living=Count("pk"), waiting=Count("pk", filter=waits)).order_by("queue")
    return {row["queue"]: Crowding(living=row["living"], waiting=row["waiting"]) for row in counts}


def jobless_pilots(*, now: datetime) -> Sequence[JoblessPilots]:
    """Return the pilots that "have so far not matched any payload" (PIL §2.3 (ii)) and still may.

    Those that have started a moment ago count as well: they are asking for their first job.
    """
    young = now - timedelta(seconds=settings.WMS_PILOT_START_S)
    asking = Q(started_at__isnull=True) | Q(last_seen_at__gt=now - ASKS_WITHIN)
    sent = Pilot.objects.filter(secret__isnull=False, queue__isnull=False, submitted_at__gt=young)
    jobless = sent.filter(asking, ended_at__isnull=True, revoked_at__isnull=True, matched_at__isnull=True)
    kinds = jobless.values_list("queue", "vo", "group", "owner").annotate(pilots=Count("pk"))
    return [
        JoblessPilots(queue_id=queue_id, vo_id=vo_id, group_id=group_id, owner_id=owner_id, pilots=pilots)
        for queue_id, vo_id, group_id, owner_id, pilots in kinds.order_by("queue", "vo", "group", "owner")
    ]


def latest_outcomes(ce: ComputingElement, *, now: datetime) -> Sequence[Outcome]:
    """Return what became of the pilots that were sent to *ce* within a day, as far as it is known, the latest first."""
    known = Q(ended_at__isnull=False) | Q(matched_at__isnull=False)
    sent = Pilot.objects.filter(known, queue__ce=ce, secret__isnull=False, submitted_at__gt=now - timedelta(days=1))
    rows = sent.order_by("-pk").values_list("submitted_at", "ended_at", "matched_at", "status")[:LATEST]
    in_vain = {PilotStatus.ABORTED, PilotStatus.FAILED}
    return [
        Outcome(submitted_at=submitted, failed_at=ended if matched is None and status in in_vain else None)
        for submitted, ended, matched, status in rows
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLog:
    """What is kept of the log of one pilot."""

    pilot_id: int
    received: int = 0
    #: None: nothing ever came.
    changed_at: datetime | None = None
    text: str = ""
    batch_output: str = ""


def kept_log(pilot: Pilot, *, newest: int | None = None) -> KeptLog:
    """Return the log of *pilot*, with lines in brackets where something was left out.

    Args:
        pilot: whose.
        newest: characters, counted from the end, that are enough; None: all that is kept.
    """
    log = PilotLog.objects.filter(pk=pilot.pk).first()
    if log is None:
        return KeptLog(pilot_id=pilot.pk)
    parts = PilotLogPart.objects.filter(log=log)
    if newest is not None:
        parts = parts.filter(offset__gt=log.received - newest - MAX_CHUNK_LENGTH)
    rows = parts.order_by("offset").values_list("offset", "text")
    text = joined([Part(offset=offset, text=text) for offset, text in rows])
    return KeptLog(
        pilot_id=pilot.pk,
        received=log.received,
        changed_at=log.changed_at,
        text=text if newest is None else newest_of(text, most=newest, received=log.received),
        batch_output=log.batch_output,
    )


# ---- For people ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotFilter:
    """Which pilots are asked for; what is empty does not narrow. Names are whole ones."""

    status: str = ""
    site: str = ""
    ce: str = ""
    queue: str = ""
    host: str = ""
    stamp: str = ""


def search(actor: User, wanted: PilotFilter) -> PilotQuerySet:
    """Return the pilots that *actor* may see and asks for, with what a list says of each."""
    found = Pilot.objects.visible_to(actor)
    if wanted.status:
        # The end as well: the index of those that live is small, and most pilots have ended.
        found = found.filter(status=wanted.status, ended_at__isnull=wanted.status not in ENDED)
    names = {
        "queue__ce__site__name": wanted.site,
        "queue__ce__name": wanted.ce,
        "queue__name": wanted.queue,
        # Uses index: pilot_latest_on_host
        "host_name": wanted.host,
        "stamp": wanted.stamp,
    }
    found = found.filter(**{column: name for column, name in names.items() if name})
    return found.select_related("vo", "owner", "group", "queue__ce__site")


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotOfJob:
    """The pilot that runs a job or ran it last."""

    pilot_id: int
    host_name: str
    #: Whether who asks may see its page.
    is_visible: bool


def pilot_of_job(pilot_id: int | None, *, actor: User) -> PilotOfJob | None:
    """Return what who sees a job is told of its pilot; None: it has none."""
    pilot = None if pilot_id is None else Pilot.objects.filter(pk=pilot_id).first()
    if pilot is None:
        return None
    is_visible = Pilot.objects.visible_to(actor).filter(pk=pilot.pk).exists()
    return PilotOfJob(pilot_id=pilot.pk, host_name=pilot.host_name, is_visible=is_visible)
