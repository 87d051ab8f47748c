"""The shares of the groups of a VO beside the field of a priority: as they are, and as they would be."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from taskqueues.domain.usage import interval_of
from taskqueues.queries import corrected_shares, delivered_by_group, parts_in_effect, parts_of
from wms.accounts.models import VO, Group
from wms.kernel.clock import current_time
from wms.kernel.names import in_full, in_percent

#: Groups that are shown: those with the greatest priority.
MOST_GROUPS: Final = 100
#: As of the constraint of the column.
_MOST: Final = 1e12
NOT_A_PRIORITY: Final = "Give a number from 0 to 1e12."
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPart:
    """The parts of a group in its VO, in words."""

    name: str
    is_own: bool
    priority: str
    configured: str
    in_effect: str
    #: Of the processor time of the last day.
    delivered: str
    #: As ``in_effect``, with the priority that was typed; empty: none was.
    would_be: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesBeside:
    """The shares of the groups of a VO."""

    vo: VO
    rows: Sequence[GroupPart]
    left_out: int
    #: The other priority; empty: none was typed.
    typed: str
    #: Why what was typed is none.
    error: str


def shares_beside(group: Group, *, typed: str = "") -> SharesBeside:
    """Return the shares of the VO of *group*, and those that would be with another priority of it.

    Args:
        group: with its VO loaded; its priority may be that of a form that was refused.
        typed: the other priority, as a manager has typed it.
    """
    vo, priority = group.vo, _read(typed)
    groups = list(vo.groups.order_by("-priority", "name"))
    other = None if any(each == group and each.priority == priority for each in groups) else priority
    configured, in_effect = corrected_shares(vo_ids=[vo.pk]), parts_in_effect(vo)
    would_be = {} if other is None else parts_in_effect(vo, instead={group.pk: other})
    delivered = parts_of(delivered_by_group(vo_ids=[vo.pk], since=interval_of(current_time() - _DAY)))
    return SharesBeside(
        vo=vo,
        rows=[
            GroupPart(
                name=each.name,
                is_own=each == group,
                priority=in_full(each.priority),
                configured=in_percent(configured[each.pk].expected),
                in_effect=in_percent(in_effect[each.pk]),
                delivered=in_percent(delivered.get(each.pk, 0.0)) if any(delivered.values()) else "–",
                would_be=in_percent(would_be[each.pk]) if would_be else "",
            )
            for each in groups[:MOST_GROUPS]
        ],
        left_out=max(0, len(groups) - MOST_GROUPS),
        typed="" if other is None else in_full(other),
        error="" if priority is not None or not typed else NOT_A_PRIORITY,
    )


def effect_of(group: Group, *, before: float) -> str:
    """Return what the change of a priority that was just saved does, as "1000 → 6000, its share 17 % → 55 %".

    Args:
        group: with its VO loaded.
        before: its priority before.
    """
    was, is_now = (parts_in_effect(group.vo, instead={group.pk: each})[group.pk] for each in (before, group.priority))
    return f"{in_full(before)} → {in_full(group.priority)}, its share {in_percent(was)} → {in_percent(is_now)}"


def _read(typed: str) -> float | None:
    try:
        priority = float(typed)
    except ValueError:
        return None
    return priority if 0 <= priority <= _MOST else None
