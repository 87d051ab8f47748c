"""Computing elements and queues for pages: their pilots, their last runs, and what the directors decided there."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Aggregate, Count, F, FloatField, OuterRef, Q, Subquery, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce

from matching.models import Match
from matching.queries.site_status import ENDED_BY_ITSELF, RECENT
from pilots.domain.decisions import NoPilots
from pilots.models import CEHealth, DirectorDecision, DirectorRun, Pilot
from resources.models import ComputingElement, Queue
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.queries.accounting import ReportSums


@dataclass(frozen=True, slots=True, kw_only=True)
class LivingPilots:
    """The pilots at one queue."""

    #: Of the reader's VOs.
    number: int = 0
    #: {status: number} of those that the reader may see.
    visible: Mapping[str, int] = field(default_factory=dict)


def living_pilots(queues: Iterable[Queue], *, by: User, vo_ids: Collection[int] | None) -> Mapping[int, LivingPilots]:
    """Return the living pilots at each of the queues, by primary key; queues without pilots are missing.

    Args:
        queues: the queues.
        by: the reader.
        vo_ids: the reader's VOs; None: all.
    """
    # Uses index: pilot_alive_at_queue
    living = Pilot.objects.filter(queue__in=[queue.pk for queue in queues], ended_at=None)
    of_vos = living if vo_ids is None else living.filter(vo__in=vo_ids)
    numbers = dict(of_vos.order_by().values_list("queue").annotate(Count("pk")))
    visible: defaultdict[int, dict[str, int]] = defaultdict(dict)
    seen = living.visible_to(by).values_list("queue", "status").annotate(Count("pk"))
    for queue_id, status, number in seen.order_by("queue", "status"):
        visible[queue_id][status] = number
    return {pk: LivingPilots(number=numbers.get(pk, 0), visible=visible.get(pk, {})) for pk in {*numbers, *visible}}


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRuns:
    """Jobs that ended at a place within RECENT."""

    own: ReportSums
    all: ReportSums


def last_runs(place: ComputingElement | Queue, *, by: User, vo_ids: Collection[int] | None, now: datetime) -> LastRuns:
    """Return the last runs at a place: those of *by*, and of all users of some VOs; None: of all VOs."""
    queues = [place.pk] if isinstance(place, Queue) else list(place.queues.values_list("pk", flat=True))
    # Uses index: match_ended. A lease may have no queue although its job has one.
    runs = Match.objects.filter(Q(queue__in=queues) | Q(queue=None), ended_at__gt=now - RECENT).values("job_id")
    at_place = {"queue" if isinstance(place, Queue) else "ce": place}
    ended = Job.objects.filter(pk__in=runs, status__in=ENDED_BY_ITSELF, **at_place)
    processors = KeyTextTransform("processors", F("stored_description__description"))
    cores = Coalesce(Cast(processors, FloatField()), 1.0)
    of_whom = {"own": Q(owner=by), "all": Q() if vo_ids is None else Q(vo__in=vo_ids)}
    sums: dict[str, Aggregate] = {}
    for whose, condition in of_whom.items():
        sums[f"{whose}_done"] = Count("pk", filter=condition & Q(status=JobStatus.DONE))
        sums[f"{whose}_failed"] = Count("pk", filter=condition & Q(status=JobStatus.FAILED))
        sums[f"{whose}_cpu_s"] = Sum("cpu_s", filter=condition, default=0.0)
        sums[f"{whose}_wall_s"] = Sum(F("wall_s") * cores, filter=condition, default=0.0, output_field=FloatField())
    found = ended.aggregate(**sums)
    own, of_all = (
        ReportSums(**{name: found[f"{whose}_{name}"] for name in ("done", "failed", "cpu_s", "wall_s")})
        for whose in of_whom
    )
    return LastRuns(own=own, all=of_all)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedQueue:
    """The last decision of the directors about one queue."""

    #: Jobs that fit there and for which no pilot was on its way.
    wanted: int
    sent: int
    #: None: pilots were sent.
    why_none: NoPilots | None
    #: First cycle since which nothing has changed about the computing element.
    decided_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Directing:
    """Health and last decisions of the directors, for some computing elements."""

    #: Time of the last cycle; None: there was none.
    ran_at: datetime | None
    #: By the primary key of the queue; queues that took no pilots are missing.
    decisions: Mapping[int, DecidedQueue]
    #: By the primary key of the computing element.
    health: Mapping[int, CEHealth]
    #: Time of the last pilot that was sent, by the primary key of the queue.
    last_sent: Mapping[int, datetime]


def directing(queues: Sequence[Queue]) -> Directing:
    """Return what the directors have decided about these queues, with the same number of statements for any number."""
    ce_ids = {queue.ce_id for queue in queues}
    decisions = {
        int(queue_id): DecidedQueue(
            wanted=wanted,
            sent=sent,
            why_none=None if why_none is None else NoPilots(why_none),
            decided_at=row.decided_at,
        )
        for row in DirectorDecision.objects.filter(ce__in=ce_ids)
        for queue_id, (wanted, sent, why_none) in row.queues.items()
    }
    return Directing(
        ran_at=DirectorRun.objects.values_list("ran_at", flat=True).first(),
        decisions=decisions,
        health=CEHealth.objects.in_bulk(ce_ids),
        last_sent=_last_sent(queues),
    )


def _last_sent(queues: Sequence[Queue]) -> Mapping[int, datetime]:
    # Uses index: pilot_latest_at_queue
    newest = Pilot.objects.filter(queue=OuterRef("pk"), secret__isnull=False).order_by("-pk").values("submitted_at")
    rows = Queue.objects.filter(pk__in=[queue.pk for queue in queues]).annotate(at=Subquery(newest[:1]))
    return {pk: at for pk, at in rows.values_list("pk", "at") if at is not None}
