"""Presentation of the first page after the log-in."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse

from matching.queries.shares import GroupPortion
from matching.queries.unmatched_counts import WaitReason
from matching.queries.vo_standing import VOStanding
from wms.accounts.models import Group
from wms.jobs.domain.lifecycle import JobStatus
from wms.portal.presentation.statuses import Segment, badge_of, icon_of
from wms.portal.presentation.submission import StatusChip, segments_of
from wms.portal.search import query_of

#: Reasons of held jobs that are listed.
_MOST_REASONS: Final = 5
#: Sentences on what holds a VO back.
_MOST_HOLDS: Final = 10
_WAITING_FOR: Final[Mapping[WaitReason, str]] = MappingProxyType(
    {
        WaitReason.PILOT: "wait for a pilot",
        WaitReason.LIMIT: "are held back by a limit",
        WaitReason.CLOSED: "fit only where nothing starts now: a ban, a drain or a throttle",
        WaitReason.NO_QUEUE: "fit no queue",
        WaitReason.OWNER: "are of people who are suspended or have left their group",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRow:
    """Held jobs with the same reason."""

    jobs: int
    reason: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """Waiting jobs of a VO with the same kind of reason."""

    jobs: int
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VOView:
    """A VO that the reader manages: what holds it back, and what its jobs wait for."""

    name: str
    holds: Sequence[str]
    holds_beyond: int
    waiting: Sequence[WaitingRow]
    #: The page that explains why they wait.
    why_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRow:
    """The share of a group, configured beside delivered; widths of bars are percentages."""

    group: str
    vo: str
    configured: str
    configured_width: str
    delivered: str
    delivered_width: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """The user's jobs by status."""

    jobs: int
    segments: Sequence[Segment]
    chips: Sequence[StatusChip]

    def number_of(self, status: JobStatus) -> int:
        """Return the number of jobs in a status."""
        return next((chip.jobs for chip in self.chips if chip.status == status), 0)


def strip_of(jobs: Mapping[str, int]) -> Strip:
    """Return the strip of the user's jobs; deleted ones are left out."""
    return Strip(
        jobs=sum(jobs.values()),
        segments=segments_of(jobs),
        chips=[
            StatusChip(
                status=status,
                badge=badge_of(status),
                icon=icon_of(status),
                jobs=jobs[status],
                url=_jobs_url(status=status),
            )
            for status in JobStatus
            if status in jobs
        ],
    )


def vo_view(standing: VOStanding) -> VOView:
    """Return a VO as it is shown."""
    name = standing.vo.name
    return VOView(
        name=name,
        holds=standing.holds[:_MOST_HOLDS],
        holds_beyond=max(0, len(standing.holds) - _MOST_HOLDS),
        waiting=[WaitingRow(jobs=jobs, words=_WAITING_FOR[reason]) for reason, jobs in standing.waiting.items()],
        why_url=f"{reverse('portal:why')}?{urlencode({'q': f'vo:{name} owner:* status:waiting'})}",
    )


def held_rows(reasons: Iterable[str]) -> list[HeldRow]:
    """Return the rows of held jobs, the most frequent reason first.

    Args:
        reasons: minor status of each held job.
    """
    return [
        HeldRow(jobs=jobs, reason=reason or "no reason given", url=_jobs_url(status=JobStatus.HELD, reason=reason))
        for reason, jobs in Counter(reasons).most_common(_MOST_REASONS)
    ]


def share_rows(groups: Iterable[Group], portions: Mapping[int, GroupPortion]) -> list[ShareRow]:
    """Return the rows of the user's groups."""
    return [_share(group, portions[group.pk]) for group in groups if group.pk in portions]


def portion_texts(portion: GroupPortion) -> tuple[str, str]:
    """Return the configured and the delivered portion as shown."""
    return f"{portion.configured:.1%}", "" if portion.delivered is None else f"{portion.delivered:.1%}"


def _share(group: Group, portion: GroupPortion) -> ShareRow:
    configured, delivered = portion_texts(portion)
    return ShareRow(
        group=group.name,
        vo=group.vo.name,
        configured=configured,
        configured_width=configured.removesuffix("%"),
        delivered=delivered or "nothing was used",
        delivered_width=delivered.removesuffix("%") or "0",
    )


def _jobs_url(**filters: object) -> str:
    return f"{reverse('portal:jobs')}?{query_of(filters)}"
