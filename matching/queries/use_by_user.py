"""What the users of groups have used lately: core hours of their jobs that ended, from the hours of the accounting."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, Sum

from matching.queries.shares import WINDOWS
from wms.accounts.models import User
from wms.jobs.domain.accounting import Width
from wms.jobs.models import JobBucket


@dataclass(frozen=True, slots=True, kw_only=True)
class UserUse:
    """The use of one user in one group."""

    group_id: int
    user: str
    #: {period of WINDOWS: wall-clock time × processors of the jobs that ended in it, in hours}.
    core_hours: Mapping[str, float]


def use_by_user(group_ids: Collection[int], *, by: User, now: datetime) -> Sequence[UserUse]:
    """Return who used these groups' shares, those who used most in the longest period first.

    Args:
        group_ids: of the groups.
        by: the reader, who is told of jobs that this user may see.
        now: by the database's clock; periods begin at full hours.
    """
    since = {window: Width.HOUR.begin_of(now - length) for window, length in WINDOWS.items()}
    # Uses index: job_bucket_is_one_row
    hours = JobBucket.objects.visible_to(by).filter(
        width_s=Width.HOUR, begun_at__gte=min(since.values()), wall_s__gt=0, group__in=group_ids
    )
    sums = {
        f"in_{window}": Sum("wall_s", filter=Q(begun_at__gte=begin), default=0.0) for window, begin in since.items()
    }
    rows = list(hours.order_by().values_list("group_id", "owner_id").annotate(**sums))
    names = dict(User.objects.filter(pk__in={owner_id for _, owner_id, *_ in rows}).values_list("pk", "username"))
    used = [
        UserUse(
            group_id=group_id,
            # The name of what was removed is not known any more.
            user=names.get(owner_id, f"user {owner_id}"),
            core_hours={window: wall_s / Width.HOUR for window, wall_s in zip(since, amounts, strict=True)},
        )
        for group_id, owner_id, *amounts in rows
    ]
    longest_first = list(WINDOWS)[::-1]
    return sorted(used, key=lambda each: (*(-each.core_hours[window] for window in longest_first), each.user))
