"""Presentation of the shares of groups: configured beside delivered, and the parts of members."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from matching.queries.member_shares import GroupStanding, GroupStandings, MemberJobs
from wms.kernel.names import counted, in_percent
from wms.portal.presentation.task_queues import number_in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredPart:
    """The part of a group in what its VO used in a period."""

    period: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """Present jobs of a member, or of several in sum."""

    name: str
    waiting: int
    running: int
    #: Of the running jobs of the group.
    part: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """The share of one group."""

    name: str
    vo: str
    share: str
    #: Fraction of the configured shares of the VO.
    expected: str
    delivered: Sequence[DeliveredPart]
    #: The factor and what it means.
    correction: str
    in_effect: str
    members: Sequence[MemberRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesView:
    """The shares of the groups of a reader."""

    groups: Sequence[GroupView]
    counted_until: datetime | None


def shares_view(standings: GroupStandings) -> SharesView:
    """Return the page of shares."""
    return SharesView(groups=[_group(each) for each in standings.groups], counted_until=standings.counted_until)


def _group(standing: GroupStanding) -> GroupView:
    corrected, vo = standing.corrected, standing.group.vo
    factor = number_in_words(corrected.factor * corrected.normalization)
    return GroupView(
        name=standing.group.name,
        vo=vo.name,
        share=number_in_words(corrected.configured),
        expected=_percent(corrected.expected),
        delivered=[DeliveredPart(period=period, text=_percent(part)) for period, part in standing.delivered.items()],
        correction=f"× {factor}" if vo.history_fair_share else f"not applied in {vo} (it would be × {factor})",
        in_effect=number_in_words(standing.in_effect),
        members=_members(standing),
    )


def _members(standing: GroupStanding) -> list[MemberRow]:
    running = standing.own.leased + standing.others.leased
    if standing.members:
        return [_member(name, jobs, running=running) for name, jobs in standing.members.items()]
    rows = [_member("you", standing.own, running=running)]
    if standing.other_members:
        others = f"{counted(standing.other_members, 'other member')} with jobs"
        rows.append(_member(others, standing.others, running=running))
    return rows


def _member(name: str, jobs: MemberJobs, *, running: int) -> MemberRow:
    part = _percent(jobs.leased / running if running else None)
    return MemberRow(name=name, waiting=jobs.waiting, running=jobs.leased, part=part)


def _percent(part: float | None) -> str:
    return "–" if part is None else in_percent(part)
