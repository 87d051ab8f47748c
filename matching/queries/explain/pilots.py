"""The pilots that a waiting job waits for: those that exist, and the reasons why no others are sent.

Input: the rows of living pilots, the last reports of computing elements, and the newest pilots of a few queues.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db.models import Count, Q

from matching.domain.headline import Cause, Ground
from matching.queries.explain.condition_texts import counted
from pilots.domain.empty_pilot_throttle import empty_match_at, throttle_of
from pilots.domain.pilot import PilotStatus
from pilots.models import BlackHole, CEHealth, Director, DirectorRun, Pilot
from pilots.queries import PRESSURE_FOR, WAITS, WORD_HOLDS_FOR, free_slots, stall_pauses, stand_still
from resources.domain.enums import PilotType
from resources.models import Queue
from resources.queries.known_names import known_middlewares
from taskqueues.domain.conditions import CONDITIONS
from taskqueues.models import TaskQueue
from wms.kernel.names import listed

#: Queues whose newest pilots are examined …
_MOST_QUEUES: Final = 5
#: … and the number of pilots of each: enough to see whether they find jobs.
_NEWEST: Final = 50
_TROUBLE_LENGTH: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotsThere:
    """The pilots at the queues that a task queue fits, and reasons for missing ones.

    Args:
        some_run: whether a pilot that may take its jobs has started; then the rest is left out.
        coming: pilots that wait in their batch systems.
        no_pilots: why none are sent now, for each queue; empty: some exist, or may be sent.
        remarks: further observations.
    """

    some_run: bool = False
    coming: int = 0
    no_pilots: Sequence[Cause] = ()
    remarks: Sequence[str] = ()


def pilots_there(task_queue: TaskQueue, queues: Sequence[Queue], *, now: datetime) -> PilotsThere:
    """Return the pilots for the jobs of *task_queue* at the *queues* that it fits.

    Two statements if some have started; else a few more, for any number of queues.

    Args:
        task_queue: with its owner and group.
        queues: with their CEs and sites loaded.
        now: the time.
    """
    # Uses index: pilot_alive_at_queue, and no other
    living = Pilot.objects.filter(queue__isnull=False, ended_at=None)
    living_at = dict(living.values_list("queue").annotate(pilots=Count("*")).order_by("queue"))
    there = living.filter(queue__in=[queue.pk for queue in queues if queue.pk in living_at])
    able = there.filter(_may_take(task_queue), revoked_at=None, drained_at=None, black_hole=None)
    if able.filter(status=PilotStatus.RUNNING).exists():
        return PilotsThere(some_run=True)
    remarks = list(_black_holes(queues, now=now))
    coming = able.filter(WAITS).count()
    if coming:
        return PilotsThere(coming=coming, remarks=remarks)
    waiting_at = dict(there.filter(WAITS).values_list("queue").annotate(pilots=Count("pk")).order_by("queue"))
    newest = _newest(queues)
    paused = stall_pauses(now=now)

    def why_none_to(queue: Queue) -> str:
        return (
            _full(queue, living=living_at.get(queue.pk, 0), waiting=waiting_at.get(queue.pk, 0))
            or _stalled(queue, until=paused.get(queue.pk))
            or _under_pressure(task_queue, queue, newest.get(queue.pk, ()), now=now)
        )

    standstill = _standstill(now=now)
    return PilotsThere(
        no_pilots=[Cause(Ground.PILOTS, standstill)] * len(queues)
        if standstill
        else _why_none_sent(_of_ces(task_queue, queues, now=now), queues, why_none_to),
        remarks=[*remarks, *_last(task_queue, newest)],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PilotKind:
    """Living pilots of one kind at one queue: whose jobs they run, in which slots."""

    queue_id: int
    vo_id: int
    group_id: int | None
    owner_id: int | None
    slot: Mapping[str, Any]
    running: int
    waiting: int

    def may_take(self, task_queue: TaskQueue) -> bool:
        """Return whether they serve the owner of the jobs and their slots are large enough: as ``_may_take``."""
        if not _serves(self, task_queue):
            return False
        kind = PilotType.GENERIC if self.group_id is None else PilotType.PRIVATE
        if kind not in (task_queue.pilot_types or list(PilotType)):
            return False
        slot = self.slot
        return not slot or (
            slot.get("processors", 0) >= task_queue.processors
            and slot.get("gpus", 0) >= task_queue.gpus
            and (slot.get("memory_mb") == 0 or slot.get("memory_mb", 0) >= task_queue.memory_mb)
        )


@dataclass(frozen=True, slots=True)
class LivingPilots:
    """The living pilots of some VOs, read once for many task queues."""

    kinds: Mapping[int, Sequence[_PilotKind]]

    def there(self, task_queue: TaskQueue, queues: Sequence[Queue]) -> PilotsThere:
        """Return the pilots for the jobs of *task_queue* at these queues, without reasons for missing ones."""
        able = [kind for queue in queues for kind in self.kinds.get(queue.pk, ()) if kind.may_take(task_queue)]
        if any(kind.running for kind in able):
            return PilotsThere(some_run=True)
        return PilotsThere(coming=sum(kind.waiting for kind in able))


def living_pilots(*, vo_ids: Collection[int]) -> LivingPilots:
    """Return the living pilots of these VOs that may take jobs."""
    # Uses index: pilot_alive_at_queue
    living = Pilot.objects.filter(queue__isnull=False, ended_at=None, vo__in=vo_ids)
    able = living.filter(revoked_at=None, drained_at=None, black_hole=None)
    names = ("queue_id", "vo_id", "group_id", "owner_id", "slot")
    counts = able.values(*names).annotate(
        running=Count("pk", filter=Q(status=PilotStatus.RUNNING)), waiting=Count("pk", filter=WAITS)
    )
    kinds: defaultdict[int, list[_PilotKind]] = defaultdict(list)
    for row in counts.order_by(*names):
        kinds[row["queue_id"]].append(_PilotKind(**row))
    return LivingPilots(kinds)


def _may_take(task_queue: TaskQueue) -> Q:
    """Return the condition for pilots that serve the owner of the jobs and whose slots are large enough."""
    group = task_queue.group
    private = Q(group=group.pk) if group.shares_jobs else Q(group=group.pk, owner=task_queue.owner_id)
    taken = task_queue.pilot_types or list(PilotType)
    kinds = Q()
    if PilotType.GENERIC in taken:
        kinds |= Q(group=None, vo=task_queue.vo_id)
    if PilotType.PRIVATE in taken:
        kinds |= private
    roomy = Q(slot__processors__gte=task_queue.processors, slot__gpus__gte=task_queue.gpus)
    roomy &= Q(slot__memory_mb=0) | Q(slot__memory_mb__gte=task_queue.memory_mb)
    return kinds & (Q(slot={}) | roomy)  # a pilot that registered itself has no requested slot


# ---- why no others are sent ------------------------------------------------------------------------------------------


def _why_none_sent(
    of_ce: Mapping[int, str], queues: Sequence[Queue], why_none_to: Callable[[Queue], str]
) -> Sequence[Cause]:
    """Return the reasons why no pilot is sent, for each of the queues; empty if one of them may get some."""
    causes = []
    for queue in queues:
        why = of_ce[queue.ce_id] or why_none_to(queue)
        if not why:
            return ()
        causes.append(Cause(Ground.PILOTS, why))
    return causes


def _standstill(*, now: datetime) -> str:
    run = DirectorRun.objects.filter(pk=1).first()
    if run is None:
        return "the directors, which send pilots, have not run yet"
    if stand_still(run, now=now):
        return f"the directors, which send pilots, have not run since {_at(run.ran_at)}"
    return ""


def _of_ces(task_queue: TaskQueue, queues: Sequence[Queue], *, now: datetime) -> Mapping[int, str]:
    """Return why each CE gets no pilots for the jobs; empty: it may get some."""
    ces = {queue.ce_id: queue.ce for queue in queues}
    health_of = {health.ce_id: health for health in CEHealth.objects.all()}
    slots = free_slots(now=now)
    directed = _directed_sites(task_queue)
    of_no_kind = _of_no_kind(task_queue)
    reasons: dict[int, str] = {}
    failing: dict[int, CEHealth] = {}
    for ce_id, ce in ces.items():
        if ce.type not in settings.WMS_BACKENDS:
            reasons[ce_id] = f"pilots are sent to no computing element of the type {ce.type}, as {ce} is"
        elif not ce.is_one_of(task_queue.grid_middlewares):
            reasons[ce_id] = of_no_kind or (
                f"pilots for these jobs are sent only to computing elements of the grid middleware "
                f"{listed(task_queue.grid_middlewares, last=' or ')}, and {ce} is of {ce.middleware or ce.type}"
            )
        elif directed is not None and ce.site_id not in directed:
            reasons[ce_id] = f"no director sends pilots to {ce.site} for jobs of the type {task_queue.job_type}"
        else:
            health = health_of.get(ce_id)
            reasons[ce_id] = "" if slots.get(ce_id) else _why_ce_gets_none(ce.name, health, now=now)
            if reasons[ce_id] and health is not None and health.failures:
                failing[ce_id] = health
    if len(failing) > 1:
        # A shared cause only once: messages of batch systems are long, and mostly the same.
        names = listed([ces[ce_id].name for ce_id in failing])
        first = next(iter(failing.values()))
        words = f"{len(failing)} computing elements fail ({names}), the first with: {_trouble(first)}"
        reasons |= dict.fromkeys(failing, words)
    return reasons


def _of_no_kind(task_queue: TaskQueue) -> str:
    """Return that no computing element has a grid middleware that the jobs require; empty: one has."""
    middlewares = task_queue.grid_middlewares
    if not middlewares or {name.casefold() for name in middlewares} & known_middlewares(task_queue.vo):
        return ""
    return (
        "pilots for these jobs are sent only to computing elements of the grid middleware "
        f"{listed(middlewares, last=' or ')}, and no site that serves {task_queue.vo} has one"
    )


def none_of_the_middleware(task_queue: TaskQueue, fitting: Sequence[Queue]) -> str:
    """Return that none of the queues that the jobs fit has a grid middleware that they require; empty: one has.

    Empty also if no computing element at all has one: the description's own warning covers that.
    """
    middlewares = task_queue.grid_middlewares
    if not fitting or any(queue.ce.is_one_of(middlewares) for queue in fitting) or _of_no_kind(task_queue):
        return ""
    queues = "the only queue that it fits is" if len(fitting) == 1 else f"the {len(fitting)} queues that it fits are"
    return (
        f"Pilots for it are sent only to computing elements of the grid middleware {listed(middlewares, last=' or ')}; "
        f"{queues} at none of these."
    )


def _directed_sites(task_queue: TaskQueue) -> Collection[int] | None:
    """Return the sites that directors serve for the jobs; None: all."""
    directors = list(Director.objects.prefetch_related("sites"))
    served: set[int] = set()
    for director in directors:
        if not director.job_types or task_queue.job_type in director.job_types:
            sites = {site.pk for site in director.sites.all()}
            if not sites:
                return None
            served |= sites
    return served if directors else None


def _why_ce_gets_none(ce: str, health: CEHealth | None, *, now: datetime) -> str:
    if health is None or (health.asked_at is None and not health.failures):
        return f"computing element {ce} has not reported yet how many pilots it can take"
    if health.failures:
        return f"computing element {ce} fails: {_trouble(health)}"
    if health.send_after is not None and health.send_after > now:
        return f"the last pilots at computing element {ce} all failed; others are sent from {_at(health.send_after)} on"
    if health.asked_at is None or health.asked_at <= now - WORD_HOLDS_FOR:
        return f"computing element {ce} has not been queried since {_at(health.asked_at)}"
    if not health.free_slots:
        return f"computing element {ce} had no free slot when it was last queried, at {_at(health.asked_at)}"
    return f"the free slots of computing element {ce} are taken by other pilots that are on their way"


def _trouble(health: CEHealth) -> str:
    again = f"; it is queried again at {_at(health.ask_after)}" if health.ask_after else ""
    return f"{_short(health.trouble)}{again}"


def _full(queue: Queue, *, living: int, waiting: int) -> str:
    if living >= queue.max_pilots:
        return f"queue {queue} of {queue.ce} has all the pilots that it may have ({queue.max_pilots})"
    if waiting >= queue.max_waiting_pilots:
        return f"in queue {queue} of {queue.ce} as many pilots wait as may ({queue.max_waiting_pilots})"
    return ""


def _stalled(queue: Queue, *, until: datetime | None) -> str:
    """Return that the last pilots of a queue did not start in time, so that the next one waits; empty: they did."""
    if until is None:
        return ""
    return f"the last pilots in queue {queue} of {queue.ce} did not start in time; the next is sent at {_at(until)}"


def _under_pressure(task_queue: TaskQueue, queue: Queue, newest: Sequence[Pilot], *, now: datetime) -> str:
    """Return that the last pilots of a queue found no jobs, which stops submission for the jobs waiting then."""
    since = now - PRESSURE_FOR
    recent = [
        empty_match_at(matched_at=pilot.matched_at, nothing_at=pilot.nothing_at)
        for pilot in newest
        if (pilot.matched_at or pilot.nothing_at or since) > since
    ]
    pressure = throttle_of(recent)
    if pressure.sent_fraction or task_queue.created_at.timestamp() >= pressure.seen_at:
        return ""
    return f"nearly all of the last pilots in queue {queue} of {queue.ce} found no job that they could run"


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


def _last(task_queue: TaskQueue, newest: Mapping[int, Sequence[Pilot]]) -> Iterator[str]:
    """Yield how the last pilot that may have been for the jobs ended, if it ended without one."""
    mine = [pilot for pilots in newest.values() for pilot in pilots if _serves(pilot, task_queue)]
    last = max(mine, key=lambda pilot: pilot.pk, default=None)
    if last is None or last.ended_at is None or last.matched_at is not None:
        return
    if last.status == PilotStatus.DONE and last.nothing_at is not None:
        left = last.nothing_left or {}
        lacking = next((name for name in CONDITIONS if left.get(name) == 0), None)
        why = f": none was left after the condition {lacking.replace('_', ' ')}" if lacking else ""
        yield f"the last pilot there, until {_at(last.ended_at)}, was given no job{why}"
    else:
        why = f": {_short(last.status_reason)}" if last.status_reason else ""
        yield f"the last pilot there has {_HOW[PilotStatus(last.status)]} at {_at(last.ended_at)}{why}"


_HOW: Final = {
    PilotStatus.DONE: "left",
    PilotStatus.FAILED: "failed",
    PilotStatus.ABORTED: "failed before it started",
    PilotStatus.LOST: "fallen silent",
    PilotStatus.STALLED: "been killed because it waited too long",
}


def _serves(pilot: Pilot | _PilotKind, task_queue: TaskQueue) -> bool:
    """Return whether a pilot was sent for the owner of the jobs; the fate of others' private pilots is not shown."""
    if pilot.group_id is None:
        return pilot.vo_id == task_queue.vo_id
    is_theirs = task_queue.group.shares_jobs or pilot.owner_id == task_queue.owner_id
    return pilot.group_id == task_queue.group_id and is_theirs


def _black_holes(queues: Sequence[Queue], *, now: datetime) -> Iterator[str]:
    sites = {queue.ce.site_id for queue in queues}
    # Uses index: a_host_is_one_black_hole_at_a_time, which contains no others
    rows = BlackHole.objects.in_force(now=now).order_by("until", "pk").values_list("site", "host_name", "until")
    black_holes = [(host_name, until) for site_id, host_name, until in rows if site_id in sites]
    if black_holes:
        verb = "gets" if len(black_holes) == 1 else "get"
        yield (
            f"{counted(len(black_holes), 'node')} there, {listed(name for name, _ in black_holes)}, {verb} no jobs "
            f"until {_at(black_holes[0][1])} because jobs fail there at once"
        )


def _at(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M %Z}" if moment else "its first round"


def _short(text: str) -> str:
    """Return a sentence of another program in a form that fits into a sentence."""
    words = " ".join(text.split()).rstrip(".")
    return words if len(words) <= _TROUBLE_LENGTH else f"{words[:_TROUBLE_LENGTH]}…"
