"""Queries on pilots."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import Case, Count, DateTimeField, Exists, F, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import TruncMinute

from pilots.domain.ce_backoff import BUSY_FOR, LONGEST_PAUSE, PilotOutcome, StalledPilot, stalled_until
from pilots.domain.empty_pilot_throttle import EmptyPilotThrottle, empty_match_at, throttle_of
from pilots.domain.logs import FoundLines, LogPart, find, joined, newest_of
from pilots.domain.pilot import PilotStatus
from pilots.models import CEHealth, DirectorRun, Pilot, PilotLog, PilotLogPart, PilotQuerySet, at_sites
from resources.domain.enums import ResourceState
from resources.models import ComputingElement, Queue, ResourceLevel, Site
from wms.accounts.models import VO, User
from wms.accounts.queries import managed_vos_of
from wms.kernel.memo import UNCACHED, CachedLookups
from wms.wire.protocol import MAX_LOG_CHUNK, PROTOCOL, WatchdogMargins

#: Latest outcomes of a CE that are read: enough to count its last failed cycles.
LATEST = 100
#: A started pilot without a stored request for this time is stuck: pilots prolong the longest wait
#: (matching.services.retry_after) by up to one half, and a request is stored once a minute.
ASKS_WITHIN = timedelta(minutes=10)
#: Time after which a pilot that its CE has not accepted is no longer counted; others are sent in its place.
ACCEPTED_WITHIN = timedelta(minutes=1)
#: Time during which pilots that ended without a job keep others from being sent for the same jobs.
EMPTY_MATCH_COUNTS_FOR = timedelta(minutes=10)
#: Time during which the pilots of a queue count for its throttle.
PRESSURE_FOR = timedelta(minutes=15)
#: Time for which a CE's last number of free slots is used.
WORD_HOLDS_FOR = timedelta(minutes=15)
#: Time during which stalled pilots count: until the longest pause is reached, and longer.
STALLS_COUNT_FOR = timedelta(days=7)
#: Director cycles further apart than this were interrupted.
STANDSTILL = timedelta(seconds=60)
_PARAMETERS = ("parameters", "vo_parameters")
#: Condition: of living pilots, those that wait in their batch systems; stalled ones do not count.
WAITS = Q(started_at__isnull=True) & ~Q(status=PilotStatus.STALLED)
_NEVER = Value(None, output_field=DateTimeField())


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotConfiguration:
    """The configuration that a pilot gets after its registration (PIL §2.1)."""

    protocol: int
    server_time: datetime
    pilot: Pilot
    #: That of the pilot, else of its place, else of its VO (ADR 83).
    setup: str
    #: None: made by hand, without a queue.
    queue: Queue | None
    heartbeat_s: int
    match_retry_after_s: int
    lease_first_s: int
    lease_s: int
    lease_grace_s: int
    sandbox_max_bytes: int
    sandbox_max_unpacked_bytes: int
    watchdog: WatchdogMargins


def configuration_of(pilot: Pilot, *, server_time: datetime) -> PilotConfiguration:
    """Return the configuration of *pilot* (loaded with VO, group, owner and place).

    Args:
        pilot: the pilot.
        server_time: of the database, whose clock decides when leases end.
    """
    return PilotConfiguration(
        protocol=PROTOCOL,
        server_time=server_time,
        pilot=pilot,
        setup=pilot.setup or _setup_there(pilot) or pilot.vo.setup,
        queue=pilot.queue,
        heartbeat_s=settings.WMS_HEARTBEAT_S,
        match_retry_after_s=settings.WMS_MATCH_RETRY_AFTER_S,
        lease_first_s=settings.WMS_LEASE_FIRST_S,
        lease_s=settings.WMS_LEASE_S,
        lease_grace_s=settings.WMS_LEASE_GRACE_S,
        sandbox_max_bytes=settings.WMS_SANDBOX_MAX_BYTES,
        sandbox_max_unpacked_bytes=settings.WMS_SANDBOX_MAX_UNPACKED_BYTES,
        watchdog=_margins(pilot.vo, pilot.queue),
    )


def _setup_there(pilot: Pilot) -> str | None:
    place = pilot.queue or pilot.ce
    return None if place is None else place.setup_for(pilot.vo)


def _margins(vo: VO, queue: Queue | None) -> WatchdogMargins:
    """Return the margins of the watchdog; the stall rule is that of the queue, else of the VO, else of the server."""
    usual = WatchdogMargins(
        stream_max_mb=settings.WMS_STREAM_MAX_MB,
        min_free_disk_mb=settings.WMS_MIN_FREE_DISK_MB,
        unasked_disk_mb=settings.WMS_UNASKED_DISK_MB,
        processes_per_core=settings.WMS_PAYLOAD_PROCESSES_PER_CORE,
    )
    bounds = [vo.longest_stalled_s, *([] if queue is None or queue.max_stalled_s is None else [queue.max_stalled_s])]

    def configured(name: str) -> list[float]:
        return [value for level in (queue, vo) if level is not None and (value := getattr(level, name)) is not None]

    return usual._replace(
        stalled_s=int(next(iter(configured("stalled_s")), usual.stalled_s)),
        stalled_cpu_fraction=next(iter(configured("stalled_cpu_fraction")), usual.stalled_cpu_fraction),
        # The VO's bound is the upper one: a queue can only lower it.
        max_stalled_s=min(filter(None, bounds), default=0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotCounts:
    """Number of living pilots at a queue, and number of those that still wait in its batch system."""

    living: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JoblessPilots:
    """Pilots of one kind at one queue that have not had a job yet; generic if they have no group."""

    queue_id: int
    vo_id: int
    group_id: int | None
    #: None: made for all members of a group that shares jobs.
    owner_id: int | None
    setup: str
    #: In the form of ``Pilot.slot``.
    slot: Mapping[str, object]
    #: Of ended pilots: when they found no job, to the minute; pilots like them could not run jobs that waited then.
    empty_match_at: datetime | None = None
    pilots: int


def open_queues(*, now: datetime) -> Sequence[Queue]:
    """Return the queues that take new pilots at *now*, each with its CE and site, but without their parameters.

    Three statements: a join would create the objects of a site and of a CE anew for each queue.
    """
    sites = {site.pk: site for site in Site.objects.defer(*_PARAMETERS) if _is_open(site, now=now)}
    ces = {ce.pk: ce for ce in ComputingElement.objects.defer(*_PARAMETERS) if ce.site_id in sites}
    for ce in ces.values():
        ce.site = sites[ce.site_id]
    open_ces = {pk: ce for pk, ce in ces.items() if ce.type in settings.WMS_BACKENDS and _is_open(ce, now=now)}
    queues = Queue.objects.defer(*_PARAMETERS, "parameters_digest", "state_changed_at").order_by("pk")
    open_ = [queue for queue in queues if queue.ce_id in open_ces and _is_open(queue, now=now)]
    for queue in open_:
        queue.ce = open_ces[queue.ce_id]
    return open_


def _is_open(level: ResourceLevel, *, now: datetime) -> bool:
    return level.state_at(now) is ResourceState.ACTIVE


def pilot_counts(queues: Collection[Queue]) -> Mapping[int, PilotCounts]:
    """Return the number of pilots at each of the queues."""
    # Uses index: pilot_alive_at_queue
    living = Pilot.objects.filter(queue__isnull=False, ended_at__isnull=True)
    counts = living.values("queue").annotate(living=Count("pk"), waiting=Count("pk", filter=WAITS)).order_by("queue")
    by_queue = {row["queue"]: PilotCounts(living=row["living"], waiting=row["waiting"]) for row in counts}
    return {queue.pk: by_queue.get(queue.pk, PilotCounts()) for queue in queues}


def jobless_pilots(*, now: datetime) -> Sequence[JoblessPilots]:
    """Return the pilots that "have so far not matched any payload" (PIL §2.3 (ii)) and still may.

    Those that have just started count: they request their first job. Those that have just ended without a job count
        too,
    for the jobs that waited then.
    """
    # Uses index: pilot_submitted_at
    young = now - timedelta(seconds=settings.WMS_PILOT_START_S)
    sent = Pilot.objects.filter(secret__isnull=False, queue__isnull=False, submitted_at__gt=young, matched_at=None)
    asking = Q(started_at__isnull=True) | Q(last_seen_at__gt=now - ASKS_WITHIN)
    # If the CE does not answer, it is not known whether it has the pilot.
    lost = Q(status=PilotStatus.SUBMITTED, submitted_at__lte=now - ACCEPTED_WITHIN)
    eligible = Q(revoked_at=None, drained_at=None, black_hole=None)
    jobless = sent.filter(asking, eligible, ended_at=None).exclude(lost).annotate(empty_match_at=_NEVER)
    fruitless = sent.filter(ended_at__isnull=False, nothing_at__gt=now - EMPTY_MATCH_COUNTS_FOR)
    # Those of earlier versions have none, and serve jobs of the VO's default.
    its_setup = Case(When(setup="", then=F("vo__setup")), default=F("setup"))
    kinds = ("queue", "vo", "group", "owner", "its_setup", "slot", "empty_match_at")
    return [
        JoblessPilots(
            queue_id=queue,
            vo_id=vo,
            group_id=group,
            owner_id=owner,
            setup=setup,
            slot=slot,
            empty_match_at=empty_match_at,
            pilots=pilots,
        )
        for rows in (jobless, fruitless.annotate(empty_match_at=TruncMinute("nothing_at")))
        for queue, vo, group, owner, setup, slot, empty_match_at, pilots in rows.annotate(its_setup=its_setup)
        .values_list(*kinds)
        .annotate(pilots=Count("pk"))
        .order_by(*kinds)
    ]


def directors_running_since(*, now: datetime) -> datetime:
    """Return since when director cycles have run, and so probably the server, without a break."""
    run = DirectorRun.objects.filter(pk=1).first()
    return now if run is None or stand_still(run, now=now) else run.running_since


def stand_still(last: DirectorRun, *, now: datetime) -> bool:
    """Return whether the directors, whose last cycle is given, should have had another since."""
    return now - last.ran_at > max(STANDSTILL, timedelta(seconds=3 * settings.WMS_DIRECTOR_CYCLE_S))


def empty_pilot_throttles(queues: Collection[Queue], *, now: datetime) -> Mapping[int, EmptyPilotThrottle]:
    """Return the empty-pilot throttle of each of the queues, from its pilots of the last PRESSURE_FOR."""
    since = now - PRESSURE_FOR
    # Uses index: pilot_submitted_at
    young = now - timedelta(seconds=settings.WMS_PILOT_START_S) - PRESSURE_FOR
    sent = Pilot.objects.filter(secret__isnull=False, queue__isnull=False, submitted_at__gt=young)
    counting = sent.filter(Q(matched_at__gt=since) | Q(matched_at=None, nothing_at__gt=since))
    empty_at: defaultdict[int, list[float | None]] = defaultdict(list)
    for queue_id, matched_at, nothing_at in counting.values_list("queue", "matched_at", "nothing_at"):
        empty_at[queue_id].append(empty_match_at(matched_at=matched_at, nothing_at=nothing_at))
    return {queue.pk: throttle_of(empty_at[queue.pk]) for queue in queues}


def without_rounds(*, now: datetime) -> Q:
    """Return the condition on the health of CEs that get no round now: they are paused, or have a round under way.

    A time further away than the longest pause comes from a wrong clock and is ignored.
    """
    fails = Q(ask_after__gt=now, ask_after__lte=now + LONGEST_PAUSE)
    return fails | Q(busy_until__gt=now, busy_until__lte=now + BUSY_FOR)


def ces_left_to_site() -> QuerySet[ComputingElement]:
    """Return the CEs where the site alone starts pilots: none is sent, and none that was sent is left to look after.

    Such a CE is not queried: the server may have no way to it.
    """
    queues = Queue.objects.filter(ce=OuterRef("pk"))
    # Uses index: pilot_not_cleaned_at_queue
    sent = Pilot.objects.filter(queue__ce=OuterRef("pk"), cleaned_at=None, secret__isnull=False)
    served = Exists(queues.filter(max_waiting_pilots__gt=0)) | Exists(sent)
    return ComputingElement.objects.filter(Exists(queues), ~served)


def free_slots(*, now: datetime) -> Mapping[int, int]:
    """Return how many pilots each CE can take now, by its last answer; paused CEs are missing.

    Pilots sent after that answer, or not accepted yet, are subtracted.
    """
    ready = ~Q(send_after__gt=now, send_after__lte=now + LONGEST_PAUSE)
    answered = CEHealth.objects.filter(
        ready, ~Q(failures__gt=0), free_slots__isnull=False, asked_at__gt=now - WORD_HOLDS_FOR
    )
    since = Q(queue__ce__health__asked_at__lt=F("submitted_at")) | Q(batch_id="")
    # Uses index: pilot_alive_at_queue
    coming = Pilot.objects.filter(since, ended_at=None, started_at=None, queue__ce__health__in=answered)
    taken = dict(coming.values_list("queue__ce").annotate(pilots=Count("pk")).order_by("queue__ce"))
    return {ce_id: max(0, free - taken.get(ce_id, 0)) for ce_id, free in answered.values_list("ce", "free_slots")}


def latest_outcomes(ce: ComputingElement, *, judged_from: datetime | None, now: datetime) -> Sequence[PilotOutcome]:
    """Return the known outcomes of the pilots that were sent to *ce* within a day, the latest first.

    Pilots submitted before *judged_from* do not count: the CE was changed then.

    Pilots that people ended do not count either: their place was banned, or they were drained or revoked. Nor do
    stalled pilots: their queue has a pause of its own (``stall_pauses``).
    """
    ended = Q(ended_at__isnull=False, revoked_at=None, drained_at=None) & ~Q(status=PilotStatus.STALLED)
    known = Q(matched_at__isnull=False) | ended
    since = max(filter(None, [now - timedelta(days=1), judged_from]))
    sent = Pilot.objects.filter(known, queue__ce=ce, secret__isnull=False, submitted_at__gte=since)
    rows = sent.order_by("-pk").values_list("submitted_at", "ended_at", "matched_at", "status")[:LATEST]
    in_vain = {PilotStatus.ABORTED, PilotStatus.FAILED}
    return [
        PilotOutcome(submitted_at=submitted, failed_at=ended if matched is None and status in in_vain else None)
        for submitted, ended, matched, status in rows
    ]


def stall_pauses(*, now: datetime) -> Mapping[int, datetime]:
    """Return {batch queue: until when it gets no pilots, because some did not start in time}.

    Only one statement if there are none. The pause ends when a pilot starts there, and when the CE is changed.
    """
    lately = Q(stalled_at__gt=now - STALLS_COUNT_FOR, stalled_at__lte=now)
    # Uses index: pilot_stalled_at
    queues = Pilot.objects.filter(lately, queue__isnull=False).values_list("queue", "queue__ce__health__judged_from")
    first = timedelta(seconds=settings.WMS_STALL_PAUSE_S)
    longest = timedelta(seconds=settings.WMS_STALL_PAUSE_MAX_S)
    pauses = {
        queue_id: stalled_until(_stalls_at(queue_id, judged_from=judged_from), first=first, longest=longest)
        for queue_id, judged_from in queues.distinct().order_by("queue")
    }
    return {queue_id: until for queue_id, until in pauses.items() if until is not None and until > now}


def _stalls_at(queue_id: int, *, judged_from: datetime | None) -> Sequence[StalledPilot]:
    """Return the pilots that stalled at a batch queue since one last started there."""
    # Uses index: pilot_latest_at_queue
    latest = Pilot.objects.filter(queue=queue_id, secret__isnull=False).order_by("queue", "-pk")[:LATEST]
    pilots = list(latest.values_list("submitted_at", "stalled_at", "started_at", "revoked_at", "drained_at"))
    last_start = max((started for _, _, started, *_ in pilots if started is not None), default=None)
    return [
        StalledPilot(submitted_at=submitted, stalled_at=stalled)
        for submitted, stalled, _, revoked, drained in pilots
        if stalled is not None
        and (last_start is None or stalled > last_start)
        and (judged_from is None or submitted >= judged_from)
        and revoked is drained is None
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLog:
    """The stored log of one pilot."""

    pilot_id: int
    received: int = 0
    #: None: nothing was received yet.
    changed_at: datetime | None = None
    text: str = ""
    batch_output: str = ""
    #: The lines with the words of a search, instead of the texts; None: nothing was sought.
    found: FoundLines | None = None


#: Characters of the words that are sought in a log.
MOST_SOUGHT: Final = 200


def found_in(log: KeptLog, words: str) -> KeptLog:
    """Return the log with the lines that contain *words* instead of its texts.

    They are those of the stored log, or of what the batch system kept if there is nothing else.
    """
    return replace(log, text="", batch_output="", found=find(log.text or log.batch_output, words))


def stored_log(pilot: Pilot, *, newest: int | None = None) -> KeptLog:
    """Return the stored log of *pilot*, with lines in brackets where something was left out.

    Args:
        pilot: the pilot.
        newest: characters from the end that are enough; None: all.
    """
    log = PilotLog.objects.filter(pk=pilot.pk).first()
    if log is None:
        return KeptLog(pilot_id=pilot.pk)
    parts = PilotLogPart.objects.filter(log=log)
    if newest is not None:
        parts = parts.filter(offset__gt=log.received - newest - MAX_LOG_CHUNK)
    rows = parts.order_by("offset").values_list("offset", "text")
    text = joined([LogPart(offset=offset, text=text) for offset, text in rows])
    return KeptLog(
        pilot_id=pilot.pk,
        received=log.received,
        changed_at=log.changed_at,
        text=text if newest is None else newest_of(text, most=newest, received=log.received),
        batch_output=log.batch_output,
    )


# ---- Pages and lists -------------------------------------------------------------------------------------------------


def changeable_by(actor: User) -> PilotQuerySet:
    """Return the pilots that the actor may drain and kill: of managed VOs and at administered sites; operators: all."""
    vos = managed_vos_of(actor)
    if vos is None:
        return Pilot.objects.all()
    return Pilot.objects.filter(Q(vo__in=vos) | at_sites(Site.objects.administered_by(actor).values("pk")))


def in_list(pilots: PilotQuerySet) -> PilotQuerySet:
    """Return the pilots with the rows that a list shows of each."""
    return pilots.select_related("vo", "owner", "group", "queue__ce__site", "site", "ce")


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotOfJob:
    """The pilot that runs a job or ran it last."""

    pilot_id: int
    host_name: str
    #: Whether the reader may see the pilot's page.
    is_visible: bool


def pilot_of_job(pilot_id: int | None, *, actor: User) -> PilotOfJob | None:
    """Return the pilot of a job, for somebody who may see the job; None: it has none."""
    pilot = None if pilot_id is None else Pilot.objects.filter(pk=pilot_id).first()
    if pilot is None:
        return None
    is_visible = Pilot.objects.visible_to(actor).filter(pk=pilot.pk).exists()
    return PilotOfJob(pilot_id=pilot.pk, host_name=pilot.host_name, is_visible=is_visible)


def others_alive(*, queue_id: int, but: str, lookups: CachedLookups = UNCACHED) -> bool:
    """Return whether a started pilot lives at the queue on another host than *but*."""
    return any(host != but for host in lookups.get(_some_hosts_alive, queue_id))


def _some_hosts_alive(queue_id: int) -> Sequence[str]:
    """Return hosts where started pilots live at the queue: two, which are enough to find another than one of them."""
    # Uses index: pilot_alive_at_queue
    living = Pilot.objects.filter(queue=queue_id, ended_at=None, revoked_at=None, started_at__isnull=False)
    return list(living.exclude(host_name="").order_by().values_list("host_name", flat=True).distinct()[:2])


def seen_since(moment: datetime, *, queue_id: int, but: int, lookups: CachedLookups = UNCACHED) -> bool:
    """Return whether a living pilot of the queue, other than the pilot *but*, has reported since *moment*."""
    return any(pk != but and seen_at > moment for pk, seen_at in lookups.get(_last_seen_alive, queue_id))


def _last_seen_alive(queue_id: int) -> Sequence[tuple[int, datetime]]:
    """Return the latest signs of life of living pilots of the queue: two, enough for those of others than one pilot."""
    # Uses index: pilot_alive_at_queue
    living = Pilot.objects.filter(queue=queue_id, ended_at=None, last_seen_at__isnull=False)
    return [(pk, at) for pk, at in living.order_by("-last_seen_at").values_list("pk", "last_seen_at")[:2] if at]
