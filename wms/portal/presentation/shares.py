"""Presentation of the shares of groups: configured beside delivered, and the parts of members."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from io import StringIO
from typing import Final

from matching.queries.member_shares import GroupStanding, GroupStandings, MemberJobs
from matching.queries.shares import WINDOWS
from matching.queries.use_by_user import UserUse
from taskqueues.domain.history import HALF_LIFE, MAX_CORRECTION, MIN_CORRECTION, CorrectedShare
from wms.accounts.models import VO
from wms.kernel.names import counted, in_percent
from wms.kernel.spreadsheets import cell
from wms.kernel.time_texts import duration
from wms.portal.presentation.task_queues import number_in_words

#: Users whose use is listed of a VO.
MOST_USERS: Final = 200
_CSV_HEAD: Final = (
    *("group", "vo", "configured", "expected", "used", "ratio", "factor", "normalization"),
    *("corrected", "corrected_part", "in_effect"),
)


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
    #: Number of groups that are left out.
    beyond: int
    counted_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VOShareRow:
    """One group beside the others of its VO, with the terms of its correction."""

    name: str
    share: str
    expected: str
    corrected: str
    corrected_part: str
    delivered: Sequence[str]
    waiting: int
    running: int
    used: str
    ratio: str
    factor: str
    #: Such as "upper bound"; empty: the factor is the ratio.
    bound: str
    normalization: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserUseRow:
    """One user's use of the share of a group; core hours as text."""

    group: str
    user: str
    core_hours: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class VOSharesView:
    """All groups of a VO side by side, and who used their shares."""

    vo: str
    is_corrected: bool
    periods: Sequence[str]
    rows: Sequence[VOShareRow]
    #: Number of groups that are left out.
    beyond: int
    users: Sequence[UserUseRow]
    users_beyond: int
    half_life: str
    least_factor: str
    most_factor: str


def shares_view(standings: GroupStandings, *, beyond: int = 0) -> SharesView:
    """Return the shares of the reader's groups, and the number of those that are left out."""
    groups = [_group(each) for each in standings.groups]
    return SharesView(groups=groups, beyond=beyond, counted_until=standings.counted_until)


def vo_shares_view(vo: VO, groups: Sequence[GroupStanding], used: Sequence[UserUse], *, beyond: int) -> VOSharesView:
    """Return the shares of the groups of a VO side by side.

    Args:
        vo: the VO.
        groups: of the VO.
        used: those who used their shares, by what they used.
        beyond: number of groups that are left out.
    """
    names = {each.group.pk: each.group.name for each in groups}
    return VOSharesView(
        vo=vo.name,
        is_corrected=vo.history_fair_share,
        periods=list(WINDOWS),
        rows=[_row(each) for each in groups],
        beyond=beyond,
        users=[
            UserUseRow(
                group=names[use.group_id],
                user=use.user,
                core_hours=[f"{use.core_hours[each]:,.1f}" for each in WINDOWS],
            )
            for use in used[:MOST_USERS]
        ],
        users_beyond=max(0, len(used) - MOST_USERS),
        half_life=duration(HALF_LIFE.total_seconds()),
        least_factor=number_in_words(MIN_CORRECTION),
        most_factor=number_in_words(MAX_CORRECTION),
    )


def vo_shares_as_csv(groups: Sequence[GroupStanding]) -> str:
    """Return the shares of groups with the terms of their correction as CSV; what is not known is empty."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow([*_CSV_HEAD, *(f"delivered_{window}" for window in WINDOWS), "waiting", "at_pilots"])
    for each in groups:
        terms = each.corrected
        numbers = (
            *(terms.configured, terms.expected, terms.used, terms.ratio, terms.factor, terms.normalization),
            *(terms.corrected, terms.fraction, each.in_effect, *(each.delivered[window] for window in WINDOWS)),
        )
        jobs = (each.own.waiting + each.others.waiting, each.own.leased + each.others.leased)
        rounded = ("" if number is None else round(number, 6) for number in numbers)
        writer.writerow([cell(each.group.name), each.group.vo.name, *rounded, *jobs])
    return text.getvalue()


def _row(standing: GroupStanding) -> VOShareRow:
    terms = standing.corrected
    return VOShareRow(
        name=standing.group.name,
        share=number_in_words(terms.configured),
        expected=_percent(terms.expected),
        corrected=number_in_words(terms.corrected),
        corrected_part=_percent(terms.fraction),
        delivered=[_percent(standing.delivered[window]) for window in WINDOWS],
        waiting=standing.own.waiting + standing.others.waiting,
        running=standing.own.leased + standing.others.leased,
        used=_percent(terms.used),
        ratio="–" if terms.ratio is None else number_in_words(terms.ratio),
        factor=number_in_words(terms.factor),
        bound=_bound(terms),
        normalization=number_in_words(terms.normalization),
    )


def _bound(terms: CorrectedShare) -> str:
    if terms.used is None or terms.factor == terms.ratio:
        return ""
    return "upper bound" if terms.factor == MAX_CORRECTION else "lower bound"


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
