"""The simulated next day of a VO, as rows of a table."""

from collections.abc import Sequence
from dataclasses import dataclass

from matching.queries.next_day import HOURS, NextDay
from wms.accounts.models import Group
from wms.kernel.names import counted, in_full, in_percent

#: Groups that have a column: the group itself, and those with the greatest priorities.
MOST_GROUPS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class NextDayView:
    """A table with a row for each hour and a column for each group; a cell is its part, or a change of it."""

    #: Why no job runs in the simulation, instead of the table; empty: some do.
    why_empty: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]
    #: Sentences about what was simulated.
    remarks: Sequence[str]


def next_day_view(day: NextDay, group: Group, *, priority: float) -> NextDayView:
    """Return the view of *day*, which was simulated with another *priority* of *group*."""
    others = group.vo.groups.exclude(pk=group.pk).order_by("-priority", "name")
    groups = [group, *others[: MOST_GROUPS - 1]]
    is_changed = priority != group.priority
    rows = [
        (f"{number} h", [_cell(hour.now[each.pk], hour.then[each.pk], is_changed=is_changed) for each in groups])
        for number, hour in enumerate(day.hours, start=1)
    ]
    simulated = f"{counted(day.pilots, 'pilot')}, {counted(day.task_queues, 'task queue')} with the jobs that wait now"
    remarks = [f"{simulated}, and further jobs as on the last day; large numbers are scaled down."]
    if is_changed:
        remarks.insert(0, f"As it is → with a priority of {in_full(priority)} for {group}.")
    if day.left_out:
        remarks.append(f"{counted(day.left_out, 'task queue')} of lower priority are left out.")
    if len(day.hours) < HOURS:
        remarks.append("There was no time to simulate more hours.")
    return NextDayView(why_empty=_why_empty(day), heads=[str(each) for each in groups], rows=rows, remarks=remarks)


def _why_empty(day: NextDay) -> str:
    if any(any(parts.values()) for hour in day.hours for parts in (hour.now, hour.then)):
        return ""
    if not day.task_queues:
        why = "No job waits whose group has a share"
    elif not day.pilots:
        why = "No pilot of the VO runs"
    else:
        why = "No pilot that runs now fits the jobs that wait"
    return f"{why}: there is nothing to simulate."


def _cell(now: float, then: float, *, is_changed: bool) -> str:
    return f"{in_percent(now)} → {in_percent(then)}" if is_changed else in_percent(now)
