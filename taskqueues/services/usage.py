"""Stored usage of groups: by intervals for reports, and decayed for shares corrected by history (ADR 13)."""

from collections import defaultdict
from datetime import datetime

from taskqueues import sql
from taskqueues.domain.history import decayed
from taskqueues.domain.usage import KEPT, Amounts, interval_of
from taskqueues.models import GroupUsage, UsageCounter, UsageInterval
from taskqueues.services import priorities
from wms.kernel.db import transaction_required

#: Smaller values move no share, and repeated halving would at last be too small for the database.
_LEAST_USED_S = 1e-3


@transaction_required
def lock_count() -> datetime | None:
    """Return the time up to which usage is counted, after waiting for a concurrent count; None: never counted."""
    return UsageCounter.objects.select_for_update().values_list("counted_until", flat=True).filter(pk=1).first()


@transaction_required
def begin_count(*, at: datetime) -> None:
    """Begin the first count at that time, unless another has begun in the meantime."""
    UsageCounter.objects.bulk_create([UsageCounter(counted_until=at)], ignore_conflicts=True)


@transaction_required
def record(amounts: Amounts, *, since: datetime, until: datetime) -> None:
    """Add the usage from *since*, as returned by ``lock_count``, to *until*, both in one interval.

    The time up to which usage is counted is stored with it: nothing counts twice or never, even after a crash. Shares
    corrected by history are recalculated within a second.
    """
    sql.add_deliveries(amounts, began_at=interval_of(since))
    used_s: defaultdict[int, float] = defaultdict(float)
    for (group_id, _), amount in amounts.items():
        used_s[group_id] += amount.processor_s
    _add_to_usage(used_s, since=since, until=until)
    UsageCounter.objects.filter(pk=1).update(counted_until=until)
    UsageInterval.objects.filter(began_at__lt=until - KEPT).delete()
    priorities.mark_corrected_with(group_ids=used_s.keys(), now=until)


def _add_to_usage(used_s: dict[int, float], *, since: datetime, until: datetime) -> None:
    stored = GroupUsage.objects.in_bulk()
    # What was used within these few minutes counts as used at their end: against three days that is nothing.
    new = {group_id: decayed(row.used_s, after=until - since) for group_id, row in stored.items()}
    for group_id, added_s in used_s.items():
        new[group_id] = new.get(group_id, 0.0) + added_s
    GroupUsage.objects.bulk_create(
        [GroupUsage(group_id=group_id, used_s=s if s >= _LEAST_USED_S else 0.0) for group_id, s in new.items()],
        update_conflicts=True,
        unique_fields=["group"],
        update_fields=["used_s"],
    )
