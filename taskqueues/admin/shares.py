"""The shares of the groups of a VO beside the field of a priority: as they are, and as they would be."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from taskqueues.queries import parts_in_effect, parts_of_groups
from wms.accounts.domain import MOST_PRIORITY
from wms.accounts.models import VO, Group
from wms.kernel.clock import current_time
from wms.kernel.names import in_full, in_percent

#: Groups that are shown: those with the greatest priority.
MOST_GROUPS: Final = 100
NOT_A_PRIORITY: Final = "Give a number from 0 to 1e12."


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
    parts = parts_of_groups(vo, now=current_time())
    other = None if any(each.group == group and each.group.priority == priority for each in parts) else priority
    would_be = {} if other is None else parts_in_effect(vo, instead={group.pk: other})
    return SharesBeside(
        vo=vo,
        rows=[
            GroupPart(
                name=each.group.name,
                is_own=each.group == group,
                priority=in_full(each.group.priority),
                configured=in_percent(each.configured),
                in_effect=in_percent(each.in_effect),
                delivered="–" if each.delivered is None else in_percent(each.delivered),
                would_be=in_percent(would_be[each.group.pk]) if would_be else "",
            )
            for each in parts[:MOST_GROUPS]
        ],
        left_out=max(0, len(parts) - MOST_GROUPS),
        typed="" if other is None else in_full(other),
        error="" if priority is not None or not typed else NOT_A_PRIORITY,
    )


def _read(typed: str) -> float | None:
    try:
        priority = float(typed)
    except ValueError:
        return None
    return priority if 0 <= priority <= MOST_PRIORITY else None
