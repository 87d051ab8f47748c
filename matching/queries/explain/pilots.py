"""The pilots that a waiting job waits for: those that exist, and the reasons why no others are sent.

Input: the rows of living pilots, the last reports of computing elements, and the newest pilots of a few queues.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db.models import Count, Exists, OuterRef, Q

from matching.domain.facts import WaitFact, WaitReason, fact, in_words
from matching.domain.findings import PilotsThere
from matching.domain.headline import Cause, Ground
from matching.models import Match
from pilots.domain.director_query import query_of
from pilots.domain.empty_pilot_throttle import empty_match_at, throttle_of
from pilots.domain.pilot import PilotStatus
from pilots.models import BlackHole, CEHealth, Director, DirectorRun, Pilot
from pilots.queries import (
    PRESSURE_FOR,
    WAITS,
    WORD_HOLDS_FOR,
    PilotCounts,
    free_slots,
    pilot_counts,
    stall_pauses,
    stand_still,
)
from resources.domain.enums import PilotType
from resources.models import ComputingElement, Queue
from resources.queries.known_names import known_middlewares
from taskqueues.domain.conditions import CONDITIONS
from taskqueues.models import TaskQueue
from taskqueues.services.classads import as_classad
from wms.accounts.models import VO
from wms.kernel.names import listed

#: Queues whose newest pilots are examined …
_MOST_QUEUES: Final = 5
#: … and the number of pilots of each: enough to see whether they find jobs.
_NEWEST: Final = 50
_TROUBLE_LENGTH: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotKind:
    """Living pilots of one kind at one queue that get jobs: whose jobs they run, and in which slots."""

    queue_id: int
    vo_id: int
    group_id: int | None
    owner_id: int | None
    #: Chosen for the pilots themselves; empty: that of their queue, else that of their VO.
    setup: str
    slot: Mapping[str, Any]
    #: Have started; of these, have no job; have not started yet.
    running: int
    idle: int
    coming: int

    def may_take(self, task_queue: TaskQueue, queue: Queue) -> bool:
        """Return whether they serve the owner and the setup of the jobs, and their slots are large enough.

        Args:
            task_queue: of the jobs, with group and VO loaded.
            queue: that of the pilots, with its CE.
        """
        kind = PilotType.GENERIC if self.group_id is None else PilotType.PRIVATE
        if not _serves(self, task_queue) or kind not in (task_queue.pilot_types or list(PilotType)):
            return False
        vo = task_queue.vo
        if (self.setup or queue.setup_for(vo) or vo.setup) != task_queue.setup:
            return False
        slot = self.slot
        return not slot or (  # a pilot that registered itself has no requested slot
            slot.get("processors", 0) >= task_queue.processors
            and slot.get("gpus", 0) >= task_queue.gpus
            and (slot.get("memory_mb") == 0 or slot.get("memory_mb", 0) >= task_queue.memory_mb)
        )


LivingPilots = Mapping[int, Sequence[PilotKind]]


def living_pilots(*, vo_ids: Collection[int]) -> LivingPilots:
    """Return the living pilots of these VOs that get jobs, by queue, for many task queues."""
    # Uses index: pilot_alive_at_queue
    living = Pilot.objects.filter(queue__isnull=False, ended_at=None, vo__in=vo_ids)
    able = living.filter(revoked_at=None, drained_at=None, black_hole=None)
    names = ("queue_id", "vo_id", "group_id", "owner_id", "setup", "slot")
    # Uses index: match_open
    has_job = Exists(Match.objects.filter(pilot=OuterRef("pk"), ended_at=None))
    runs = Q(status=PilotStatus.RUNNING)
    counts = able.values(*names).annotate(
        running=Count("pk", filter=runs), idle=Count("pk", filter=Q(runs, ~has_job)), coming=Count("pk", filter=WAITS)
    )
    kinds: defaultdict[int, list[PilotKind]] = defaultdict(list)
    for row in counts:
        kinds[row["queue_id"]].append(PilotKind(**row))
    return kinds


def living_there(task_queue: TaskQueue, queues: Sequence[Queue], *, living: LivingPilots) -> PilotsThere:
    """Return the pilots for the jobs of *task_queue* at the *queues* that it fits; not why none are sent."""
    able = [kind for queue in queues for kind in living.get(queue.pk, ()) if kind.may_take(task_queue, queue)]
    if running := sum(kind.running for kind in able):
        return PilotsThere(running=running, idle=sum(kind.idle for kind in able))
    return PilotsThere(coming=sum(kind.coming for kind in able))


def pilots_there(task_queue: TaskQueue, queues: Sequence[Queue], *, living: LivingPilots, now: datetime) -> PilotsThere:
    """Return the pilots for the jobs of *task_queue* at the *queues* that it fits.

    Nothing is read if some have started; else a few statements, for any number of queues.

    Args:
        task_queue: with its owner and group.
        queues: with their CEs and sites loaded.
        living: those of its VO.
        now: the time.
    """
    there = living_there(task_queue, queues, living=living)
    if there.running:
        return there
    remarks = list(_black_holes(queues, now=now))
    if there.coming:
        return replace(there, remarks=remarks)
    newest, paused, counts = _newest(queues), stall_pauses(now=now), pilot_counts(queues)
    standstill = _standstill(now=now)
    kind = _kind_of_ces(task_queue, queues)
    undirected = _undirected(task_queue, now=now)
    never = {
        queue.pk: _started_by_site(queue) or standstill or kind[queue.ce_id] or undirected(queue) for queue in queues
    }
    of_ce = _of_ces({queue.ce_id: queue.ce for queue in queues if never[queue.pk] is None}, now=now)

    def why_none_to(queue: Queue) -> WaitFact | None:
        return (
            never[queue.pk]
            or of_ce[queue.ce_id]
            or _full(queue, counts[queue.pk])
            or _stalled(queue, until=paused.get(queue.pk))
            or _under_pressure(task_queue, queue, newest.get(queue.pk, ()), now=now)
        )

    return PilotsThere(
        no_pilots=_why_none_sent(queues, why_none_to),
        remarks=[*remarks, *_last(task_queue, newest)],
    )


# ---- why no others are sent ------------------------------------------------------------------------------------------


def _why_none_sent(queues: Sequence[Queue], why_none_to: Callable[[Queue], WaitFact | None]) -> Sequence[Cause]:
    """Return the reasons why no pilot is sent, for each of the queues; empty if one of them may get some."""
    causes = []
    for queue in queues:
        why = why_none_to(queue)
        if why is None:
            return ()
        causes.append(Cause(Ground.PILOTS, why))
    return causes


def _started_by_site(queue: Queue) -> WaitFact | None:
    """Return that directors send no pilots to the queue, whatever its CE and they do; None: they do (ADR 37)."""
    return fact(WaitReason.STARTED_BY_SITE, queue=queue.name, ce=queue.ce.name) if queue.is_left_to_site else None


def _standstill(*, now: datetime) -> WaitFact | None:
    run = DirectorRun.objects.filter(pk=1).first()
    if run is None:
        return fact(WaitReason.DIRECTORS_NEVER_RAN)
    return fact(WaitReason.DIRECTORS_STAND_STILL, since=run.ran_at) if stand_still(run, now=now) else None


def _kind_of_ces(task_queue: TaskQueue, queues: Sequence[Queue]) -> Mapping[int, WaitFact | None]:
    """Return why each CE is of a kind to which no pilots are sent for the jobs; None: it is not."""
    middlewares = task_queue.grid_middlewares
    named = listed(middlewares, last=" or ")
    is_known = is_known_middleware(middlewares, vo=task_queue.vo)
    reasons: dict[int, WaitFact | None] = {}
    for ce_id, ce in {queue.ce_id: queue.ce for queue in queues}.items():
        if ce.type not in settings.WMS_BACKENDS:
            reasons[ce_id] = fact(WaitReason.NO_BACKEND, type=ce.type, ce=ce.name)
        elif not is_known:
            reasons[ce_id] = fact(WaitReason.UNKNOWN_MIDDLEWARE, named=named, vo=task_queue.vo.name)
        elif not ce.is_one_of(middlewares):
            reasons[ce_id] = fact(
                WaitReason.OTHER_MIDDLEWARE, named=named, ce=ce.name, middleware=ce.middleware or ce.type
            )
        else:
            reasons[ce_id] = None
    return reasons


def _of_ces(ces: Mapping[int, ComputingElement], *, now: datetime) -> Mapping[int, WaitFact | None]:
    """Return why each CE, to which pilots would be sent, gets none; None: it may get some."""
    if not ces:
        return {}
    health_of = {health.ce_id: health for health in CEHealth.objects.all()}
    slots = free_slots(now=now)
    reasons: dict[int, WaitFact | None] = {}
    failing: dict[int, CEHealth] = {}
    for ce_id, ce in ces.items():
        health = health_of.get(ce_id)
        reasons[ce_id] = None if slots.get(ce_id) else _why_ce_gets_none(ce.name, health, now=now)
        if reasons[ce_id] is not None and health is not None and health.failures:
            failing[ce_id] = health
    if len(failing) > 1:
        # A shared cause only once: messages of batch systems are long, and mostly the same.
        names = tuple(ces[ce_id].name for ce_id in failing)
        trouble = _trouble(next(iter(failing.values())))
        several = fact(WaitReason.SEVERAL_FAIL, number=len(failing), ces=names, **trouble)
        reasons |= dict.fromkeys(failing, several)
    return reasons


def is_known_middleware(middlewares: Collection[str], *, vo: VO) -> bool:
    """Return whether some computing element has one of the grid middlewares that jobs name, or they name none."""
    return not middlewares or not known_middlewares(vo).isdisjoint(name.casefold() for name in middlewares)


def _undirected(task_queue: TaskQueue, *, now: datetime) -> Callable[[Queue], WaitFact | None]:
    """Return what returns that no director sends pilots to a batch queue for the jobs, and why; None: one does.

    The same rule for all task queues at once is in ``pilots.services.director_scopes``.
    """
    vo = task_queue.vo
    directors = [
        (
            {site.pk for site in director.sites.all()},
            _only_others(director, task_queue, now=now),
            _only_setup(director, task_queue),
        )
        for director in Director.objects.prefetch_related("sites").order_by("name")
    ]

    def why_none_to(queue: Queue) -> WaitFact | None:
        others = [
            only_others or (only_setup if queue.setup_for(vo) is None else None)
            for sites, only_others, only_setup in directors
            if not sites or queue.ce.site_id in sites
        ]
        if not directors or not all(others):
            return None
        words = ", ".join(map(in_words, others))
        but = fact(WaitReason.BUT_FOR_OTHERS, directors=words) if words else ""
        return fact(WaitReason.NO_DIRECTOR, site=queue.ce.site.name, but=but)

    return why_none_to


def _only_others(director: Director, task_queue: TaskQueue, *, now: datetime) -> WaitFact | None:
    """Return for which other jobs only the director sends pilots, wherever it does; None: for these too."""
    if director.job_types and task_queue.job_type not in director.job_types:
        return fact(WaitReason.ONLY_JOB_TYPES, director=director.name, job_types=tuple(director.job_types))
    if not director.requirements:
        return None
    query = query_of(director.requirements)
    if query.accepts(as_classad(task_queue), now=int(now.timestamp())):
        return None
    names = fact(WaitReason.ON_NAMES, names=listed(query.names, last=" and ")) if query.names else ""
    return fact(WaitReason.ONLY_REQUIRED, director=director.name, names=names)


def _only_setup(director: Director, task_queue: TaskQueue) -> WaitFact | None:
    """Return that the director sends pilots of another setup, where the place chooses none; None: it does not."""
    if director.setup == task_queue.setup or director.setup not in task_queue.vo.setups:
        return None
    return fact(WaitReason.ONLY_SETUP, director=director.name, setup=director.setup)


def _why_ce_gets_none(ce: str, health: CEHealth | None, *, now: datetime) -> WaitFact:
    if health is not None and health.failures:
        return fact(WaitReason.FAILS, ce=ce, **_trouble(health))
    if health is None or health.asked_at is None:
        return fact(WaitReason.NOT_REPORTED, ce=ce)
    if health.send_after is not None and health.send_after > now:
        return fact(WaitReason.PILOTS_FAILED, ce=ce, after=health.send_after)
    if health.asked_at <= now - WORD_HOLDS_FOR:
        return fact(WaitReason.NOT_QUERIED, ce=ce, since=health.asked_at)
    if not health.free_slots:
        return fact(WaitReason.NO_FREE_SLOT, ce=ce, at=health.asked_at)
    return fact(WaitReason.SLOTS_TAKEN, ce=ce)


def _trouble(health: CEHealth) -> Mapping[str, object]:
    again = fact(WaitReason.ASKED_AGAIN, at=health.ask_after) if health.ask_after else ""
    return {"trouble": _short(health.trouble), "again": again}


def _full(queue: Queue, pilots: PilotCounts) -> WaitFact | None:
    if pilots.living >= queue.max_pilots:
        return fact(WaitReason.ALL_PILOTS, queue=queue.name, ce=queue.ce.name, most=queue.max_pilots)
    if pilots.waiting >= queue.max_waiting_pilots:
        return fact(WaitReason.ALL_WAITING_PILOTS, queue=queue.name, ce=queue.ce.name, most=queue.max_waiting_pilots)
    return None


def _stalled(queue: Queue, *, until: datetime | None) -> WaitFact | None:
    """Return that the last pilots of a queue did not start in time, so that the next one waits; None: they did."""
    if until is None:
        return None
    return fact(WaitReason.PILOTS_STALLED, queue=queue.name, ce=queue.ce.name, at=until)


def _under_pressure(task_queue: TaskQueue, queue: Queue, newest: Sequence[Pilot], *, now: datetime) -> WaitFact | None:
    """Return that the last pilots of a queue found no jobs, which stops submission for the jobs waiting then."""
    since = now - PRESSURE_FOR
    recent = [
        empty_match_at(matched_at=pilot.matched_at, nothing_at=pilot.nothing_at)
        for pilot in newest
        if (pilot.matched_at or pilot.nothing_at or since) > since
    ]
    pressure = throttle_of(recent)
    if pressure.sent_fraction or task_queue.created_at.timestamp() >= pressure.seen_at:
        return None
    return fact(WaitReason.PILOTS_FOUND_NO_JOB, queue=queue.name, ce=queue.ce.name)


# ---- what else is known ----------------------------------------------------------------------------------------------


def _newest(queues: Sequence[Queue]) -> Mapping[int, Sequence[Pilot]]:
    """Return the pilots that directors sent last to the first few of the queues, newest first."""
    # Uses index: pilot_latest_at_queue
    of_each = [
        Pilot.objects.filter(queue=queue.pk, secret__isnull=False).order_by("queue", "-pk")[:_NEWEST]
        for queue in queues[:_MOST_QUEUES]
    ]
    by_queue: dict[int, list[Pilot]] = {}
    for pilot in of_each[0].union(*of_each[1:], all=True) if of_each else ():
        if pilot.queue_id is not None:
            by_queue.setdefault(pilot.queue_id, []).append(pilot)
    return {queue_id: sorted(pilots, key=lambda pilot: -pilot.pk) for queue_id, pilots in by_queue.items()}


def _last(task_queue: TaskQueue, newest: Mapping[int, Sequence[Pilot]]) -> Iterator[WaitFact]:
    """Yield how the last pilot that may have been for the jobs ended, if it ended without one."""
    mine = [
        pilot
        for pilots in newest.values()
        for pilot in pilots
        # Directors of earlier versions chose none.
        if pilot.setup in {"", task_queue.setup} and _serves(pilot, task_queue)
    ]
    last = max(mine, key=lambda pilot: pilot.pk, default=None)
    if last is None or last.ended_at is None or last.matched_at is not None:
        return
    if last.status == PilotStatus.DONE and last.nothing_at is not None:
        left = last.nothing_left or {}
        lacking = next((name for name in CONDITIONS if left.get(name) == 0), None)
        why = fact(WaitReason.NONE_LEFT, condition=lacking.replace("_", " ")) if lacking else ""
        yield fact(WaitReason.LAST_GOT_NO_JOB, at=last.ended_at, why=why)
    else:
        why = fact(WaitReason.BECAUSE, reason=_short(last.status_reason)) if last.status_reason else ""
        yield fact(WaitReason.LAST_ENDED, how=_HOW[PilotStatus(last.status)], at=last.ended_at, why=why)


_HOW: Final = {
    PilotStatus.DONE: "left",
    PilotStatus.FAILED: "failed",
    PilotStatus.ABORTED: "failed before it started",
    PilotStatus.LOST: "fallen silent",
    PilotStatus.STALLED: "been killed because it waited too long",
}


def _serves(pilot: Pilot | PilotKind, task_queue: TaskQueue) -> bool:
    """Return whether a pilot was sent for the owner of the jobs; the end of others' private pilots is not shown."""
    if pilot.group_id is None:
        return pilot.vo_id == task_queue.vo_id
    is_theirs = task_queue.group.shares_jobs or pilot.owner_id == task_queue.owner_id
    return pilot.group_id == task_queue.group_id and is_theirs


def _black_holes(queues: Sequence[Queue], *, now: datetime) -> Iterator[WaitFact]:
    sites = {queue.ce.site_id for queue in queues}
    # Uses index: a_host_is_one_black_hole_at_a_time, which contains no others
    rows = BlackHole.objects.in_force(now=now).order_by("until", "pk").values_list("site", "host_name", "until")
    black_holes = [(host_name, until) for site_id, host_name, until in rows if site_id in sites]
    if black_holes:
        kind = WaitReason.BLACK_HOLE if len(black_holes) == 1 else WaitReason.BLACK_HOLES
        hosts = tuple(host_name for host_name, _ in black_holes)
        yield fact(kind, number=len(black_holes), hosts=hosts, until=black_holes[0][1])


def _short(text: str) -> str:
    """Return a sentence of another program in a form that fits into a sentence."""
    words = " ".join(text.split()).rstrip(".")
    return words if len(words) <= _TROUBLE_LENGTH else f"{words[:_TROUBLE_LENGTH]}…"
