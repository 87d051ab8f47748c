"""Shares of groups for pages: configured beside delivered, and the parts of their members."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Exists, OuterRef, Q, QuerySet, Sum

from matching.queries.shares import WINDOWS
from taskqueues.domain.history import CorrectedShare
from taskqueues.domain.usage import interval_of
from taskqueues.models import UsageCounter, UsageInterval
from taskqueues.queries import corrected_shares, shares_in_effect
from wms.accounts.models import VO, Group, Membership, User
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.models import CurrentJobCount
from wms.jobs.models.jobs import LEASED_STATUSES

#: Groups of a reader that are shown one by one.
MOST_GROUPS: Final = 100
#: Groups of a VO that are shown side by side.
MOST_GROUPS_OF_VO: Final = 1000
#: Members with most jobs that are listed of a group.
MOST_MEMBERS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberJobs:
    """Present jobs of a member of a group, or of several in sum."""

    waiting: int = 0
    #: Held by pilots.
    leased: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStanding:
    """The share of a group, what it got, and whose jobs are there now."""

    group: Group
    corrected: CorrectedShare
    in_effect: float
    #: {period of WINDOWS: fraction of the VO's lease time × processors, 0 to 1; None: the VO used nothing}.
    delivered: Mapping[str, float | None]
    own: MemberJobs
    others: MemberJobs
    #: Members other than the reader with present jobs.
    other_members: int
    #: {user name: present jobs}, most first; empty unless the reader may see the others' jobs.
    members: Mapping[str, MemberJobs]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStandings:
    """Groups of a reader, and the time until which usage was counted; None: never."""

    groups: Sequence[GroupStanding]
    counted_until: datetime | None


def groups_with_shares(user: User) -> QuerySet[Group]:
    """Return the groups of *user*, then those of the VOs that it manages, with their VOs."""
    own = Exists(Membership.objects.filter(user=user, group=OuterRef("pk")))
    managed = Q(vo__in=VO.objects.managed_by(user))
    groups = Group.objects.annotate(is_own=own).filter(Q(is_own=True) | managed)
    return groups.select_related("vo").order_by("-is_own", "name")


def group_standings(groups: Sequence[Group], *, by: User, now: datetime) -> GroupStandings:
    """Return the shares of these groups, with the same number of statements for any number of them.

    Args:
        groups: of the reader, or of VOs that the reader manages; with their VOs loaded.
        by: the reader.
        now: by the database's clock.
    """
    vo_ids = {group.vo_id for group in groups}
    corrected, in_effect = corrected_shares(vo_ids=vo_ids), shares_in_effect(groups)
    delivered = _delivered(vo_ids, now=now)
    managed = set(VO.objects.managed_by(by).values_list("pk", flat=True))
    jobs = _jobs_of_members([group.pk for group in groups])
    return GroupStandings(
        groups=[
            _standing(
                group,
                corrected=corrected[group.pk],
                in_effect=in_effect[group.pk],
                delivered={window: _fraction(group, amounts) for window, amounts in delivered.items()},
                jobs=jobs.get(group.pk, {}),
                names_members=group.shares_jobs or group.vo_id in managed,
                by=by,
            )
            for group in groups
        ],
        counted_until=UsageCounter.objects.values_list("counted_until", flat=True).first(),
    )


def _standing(
    group: Group,
    *,
    corrected: CorrectedShare,
    in_effect: float,
    delivered: Mapping[str, float | None],
    jobs: Mapping[str, MemberJobs],
    names_members: bool,
    by: User,
) -> GroupStanding:
    others = {name: member for name, member in jobs.items() if name != by.username}
    most_first = sorted(jobs.items(), key=lambda item: (-item[1].leased - item[1].waiting, item[0]))
    return GroupStanding(
        group=group,
        corrected=corrected,
        in_effect=in_effect,
        delivered=delivered,
        own=jobs.get(by.username, MemberJobs()),
        others=MemberJobs(
            waiting=sum(member.waiting for member in others.values()),
            leased=sum(member.leased for member in others.values()),
        ),
        other_members=len(others),
        members=dict(most_first[:MOST_MEMBERS]) if names_members else {},
    )


def _fraction(group: Group, amounts: Mapping[tuple[int, int], float]) -> float | None:
    of_vo = sum(amount for (vo_id, _), amount in amounts.items() if vo_id == group.vo_id)
    return amounts.get((group.vo_id, group.pk), 0.0) / of_vo if of_vo else None


def _delivered(vo_ids: Collection[int], *, now: datetime) -> Mapping[str, Mapping[tuple[int, int], float]]:
    """Return {period: {(VO, group): lease time × processors}}, as far as it is counted (a few minutes ago)."""
    since = {window: interval_of(now - length) for window, length in WINDOWS.items()}
    # Uses index: a_group_has_one_delivery_of_a_segment_in_an_interval
    rows = UsageInterval.objects.filter(group__vo__in=vo_ids, began_at__gte=min(since.values()))
    sums = rows.values_list("group__vo", "group").annotate(
        **{window: Sum("processor_s", filter=Q(began_at__gte=begin), default=0.0) for window, begin in since.items()}
    )
    delivered: dict[str, dict[tuple[int, int], float]] = {window: {} for window in since}
    for vo_id, group_id, *amounts in sums.order_by("group"):
        for window, amount in zip(since, amounts, strict=True):
            delivered[window][vo_id, group_id] = amount
    return delivered


def _jobs_of_members(group_ids: Collection[int]) -> Mapping[int, Mapping[str, MemberJobs]]:
    """Return {group: {user name: present jobs}} of those with waiting or leased jobs."""
    present = CurrentJobCount.objects.filter(group__in=group_ids, status__in=[JobStatus.WAITING, *LEASED_STATUSES])
    rows = present.values_list("group", "owner__username", "status").annotate(sum=Sum("jobs"))
    counts: defaultdict[int, defaultdict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for group_id, name, status, number in rows.filter(sum__gt=0).order_by("group", "owner__username", "status"):
        counts[group_id][name][status] = number
    return {
        group_id: {
            name: MemberJobs(waiting=of[JobStatus.WAITING], leased=sum(of[status] for status in LEASED))
            for name, of in members.items()
        }
        for group_id, members in counts.items()
    }
