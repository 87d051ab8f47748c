"""The configured and the delivered shares of a group."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, F, FloatField, Q, Sum, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Extract, Greatest, Least

from matching.models import Match
from taskqueues.domain.history import CorrectedShare
from taskqueues.domain.usage import Amounts, UsageAmount, added, interval_of, total
from taskqueues.models import UsageCounter
from taskqueues.queries import corrected_shares, delivered, delivered_by_group, shares_in_effect
from wms.accounts.models import Group

#: Periods of the delivered shares, by their names in the REST interface.
WINDOWS: Mapping[str, timedelta] = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentShare:
    """Usage of one CPU segment by a group, and by its whole VO."""

    cpu_segment_s: int
    group: UsageAmount
    vo: UsageAmount


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredShare:
    """Usage of a group, and of its whole VO, in one period."""

    since: datetime
    until: datetime
    group: UsageAmount
    vo: UsageAmount
    #: Segments that the VO used, shortest first.
    segments: tuple[SegmentShare, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The share of a group: configured, corrected, in effect, and delivered in each period."""

    group: Group
    corrected: CorrectedShare
    in_effect: float
    delivered: Mapping[str, DeliveredShare]


def shares_of(group: Group, *, now: datetime) -> Shares:
    """Return the shares of *group*, whose VO is loaded.

    Args:
        now: the database's clock, by which leases are made.
    """
    counted_until = UsageCounter.objects.values_list("counted_until", flat=True).first()
    recent: dict[datetime, Amounts] = {}
    windows = {}
    for name, window in WINDOWS.items():
        since = interval_of(now - window)
        uncounted_since = max(since, counted_until or since)
        # Usage not counted yet is read from the leases: the last two minutes, once for all periods.
        if uncounted_since not in recent:
            recent[uncounted_since] = delivered_by_leases(since=uncounted_since, until=now, vo_id=group.vo_id)
        amounts = added(delivered(vo_id=group.vo_id, since=since), recent[uncounted_since])
        windows[name] = _delivered_share(group.pk, amounts, since=since, until=now)
    return Shares(
        group=group,
        corrected=corrected_shares(vo_ids=[group.vo_id])[group.pk],
        in_effect=shares_in_effect([group])[group.pk],
        delivered=windows,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPortion:
    """The part of a group in its VO: configured, and delivered in the last day."""

    #: Of the configured shares, 0 to 1.
    configured: float
    #: Of the time under lease, 0 to 1; None: the VO used nothing.
    delivered: float | None


def portions_of(vo_ids: Collection[int], *, now: datetime) -> Mapping[int, GroupPortion]:
    """Return {group id: its portion} of all groups of these VOs; usage of the last two minutes is not counted yet."""
    used_s = delivered_by_group(vo_ids=vo_ids, since=interval_of(now - WINDOWS["day"]))
    vo_of = dict(Group.objects.filter(vo__in=vo_ids).values_list("pk", "vo_id"))
    used_of_vo: defaultdict[int, float] = defaultdict(float)
    for group_id, seconds in used_s.items():
        used_of_vo[vo_of[group_id]] += seconds
    return {
        group_id: GroupPortion(
            configured=share.expected,
            delivered=used_s.get(group_id, 0.0) / used if (used := used_of_vo[vo_of[group_id]]) else None,
        )
        for group_id, share in corrected_shares(vo_ids=vo_ids).items()
    }


def _delivered_share(group_id: int, amounts: Amounts, *, since: datetime, until: datetime) -> DeliveredShare:
    segments = sorted({segment for _, segment in amounts})
    return DeliveredShare(
        since=since,
        until=until,
        group=total(amount for (of, _), amount in amounts.items() if of == group_id),
        vo=total(amounts.values()),
        segments=tuple(
            SegmentShare(
                cpu_segment_s=segment,
                group=amounts.get((group_id, segment), UsageAmount()),
                vo=total(amount for (_, of), amount in amounts.items() if of == segment),
            )
            for segment in segments
        ),
    )


def delivered_by_leases(
    *, since: datetime, until: datetime, vo_id: int | None = None
) -> dict[tuple[int, int], UsageAmount]:
    """Return the usage of each CPU segment by each group, in one VO or all.

    Args:
        since: leases made from then on count as matches, and time under lease counts from then on.
        until: end of the period; open leases are counted up to it.
        vo_id: of the jobs.

    Returns:
        {(group id, CPU segment of the task queue): usage}. Time counts once for each required processor, used or not
        (ADR 13).
    """
    # Uses indexes: match_open, match_ended (every lease that began in this time is open, or ended in it).
    leases = Match.objects.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=since), leased_at__lt=until)
    if vo_id is not None:
        leases = leases.filter(job__vo=vo_id)
    # NB: LEAST ignores nulls (leases that have not ended).
    held = Least(F("ended_at"), Value(until)) - Greatest(F("leased_at"), Value(since))
    processors = Cast(KeyTextTransform("processors", "job__stored_description__description"), FloatField())
    rows = (
        leases.values_list("job__group_id", "cpu_segment_s")
        .annotate(
            matches=Count("pk", filter=Q(leased_at__gte=since)),
            processor_s=Sum(Extract(held, "epoch") * processors, output_field=FloatField()),
        )
        .order_by("job__group_id", "cpu_segment_s")
    )
    return {
        (group_id, segment_s): UsageAmount(matches, processor_s) for group_id, segment_s, matches, processor_s in rows
    }
