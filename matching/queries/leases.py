"""Leases of one job, of one pilot, and of a period."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet

from matching.models import Match
from pilots.models import Pilot
from wms.accounts.models import VO, User
from wms.jobs.models import Job

#: Attempts of one job that a page shows, more than WMS_MAX_RESCHEDULES allows by far.
MOST_LEASES: Final = 50


def leases_of_job(job: Job) -> Sequence[Match]:
    """Return the newest leases of *job* with their queues and sites, the oldest of them first."""
    # Uses index: the foreign key of the job.
    newest = Match.objects.filter(job=job).select_related("queue__ce__site").order_by("-leased_at", "-pk")
    return list(newest[:MOST_LEASES])[::-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasesOfPilot:
    """The leases of one pilot whose jobs a user may see."""

    #: The newest, with their jobs and owners.
    newest: Sequence[Match]
    count: int


def leases_of(pilot: Pilot, *, actor: User, most: int) -> LeasesOfPilot:
    """Return the newest *most* leases of *pilot* whose jobs *actor* may see, newest first, and the number of all."""
    # Uses index: a_request_of_a_pilot_gets_its_leases_once, by its first column
    seen = Match.objects.filter(pilot=pilot, job__in=Job.objects.visible_to(actor))
    newest = seen.select_related("job__owner").order_by("-leased_at", "-pk")[:most]
    return LeasesOfPilot(newest=list(newest), count=seen.count())


def open_leases_of(pilot_ids: Collection[int]) -> int:
    """Return the number of jobs that these pilots hold now."""
    # Uses index: match_open
    return Match.objects.filter(pilot__in=pilot_ids, ended_at__isnull=True).count()


def leases_seen_by(user: User, *, since: datetime | None, until: datetime | None = None) -> QuerySet[Match]:
    """Return the leases that were open at some time of a period: who ran where, and when.

    An attempt that was rescheduled away from a host is one of them: the job itself knows only its last match.

    Args:
        user: a manager, who sees the jobs of managed VOs, or an operator.
        since: begin of the period; None: the first lease. Without it, name a job or a pilot.
        until: its end; None: now.
    """
    # Uses index: match_open, match_ended
    leases = Match.objects.all()
    if since is not None:
        leases = leases.filter(Q(ended_at__isnull=True) | Q(ended_at__gte=since))
    if until is not None:
        leases = leases.filter(leased_at__lt=until)
    if not user.is_operator:
        leases = leases.filter(job__vo__in=list(VO.objects.managed_by(user)))
    places = leases.select_related("job__owner", "job__group", "job__vo", "pilot", "queue__ce__site")
    # Jobs and pilots have long columns, such as the report on the node.
    return places.only(
        "leased_at", "ended_at", "end_reason", "job__owner__username", "job__group__name", "job__vo__name",
        "pilot__host_name", "queue__name", "queue__ce__name", "queue__ce__site__name",
    )  # fmt: skip


def newest_of(
    leases: QuerySet[Match], *, since: datetime | None, most: int, before: tuple[datetime, UUID] | None = None
) -> Iterator[Match]:
    """Yield the newest *most* of the leases, by the time of the match.

    Those that were matched within the period are read by their index until there are enough. Only then those follow
    that were open at its begin: their index is that of the ends.

    Args:
        leases: of ``leases_seen_by``, filtered.
        since: begin of the period, as there.
        most: of them at most.
        before: time and id of the lease after which to go on.
    """
    if before is not None:
        leased_at, pk = before
        leases = leases.filter(Q(leased_at__lt=leased_at) | Q(pk__lt=pk), leased_at__lte=leased_at)
    # Uses index: match_leased, match_open, match_ended
    within = leases if since is None else leases.filter(leased_at__gte=since)
    for part in (within, leases.none() if since is None else leases.filter(leased_at__lt=since)):
        for lease in part.order_by("-leased_at", "-pk")[:most].iterator(chunk_size=1000):
            yield lease
            most -= 1
        if most == 0:
            return
