"""Presentation of the first page after the log-in."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse

from matching.queries.shares import GroupPortion
from matching.queries.unmatched_counts import WaitReason
from matching.queries.vo_standing import Hold, HoldKind, VOStanding
from wms.accounts.models import Group
from wms.jobs.domain.lifecycle import JobStatus
from wms.portal.presentation.pauses import PauseChoice, pause_choice
from wms.portal.presentation.statuses import Segment, badge_of, icon_of
from wms.portal.presentation.submission import StatusChip, segments_of
from wms.portal.search import query_of

#: Reasons of held jobs that are listed.
_MOST_REASONS: Final = 5
#: Sentences on what holds a VO back that are shown at once.
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
class HoldRow:
    """One thing that stops jobs, with the page where it can be looked at; empty: none."""

    text: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VOView:
    """A VO that the reader manages: what holds it back, and what its jobs wait for."""

    name: str
    holds: Sequence[HoldRow]
    #: Those that are shown on demand.
    more_holds: Sequence[HoldRow]
    waiting: Sequence[WaitingRow]
    #: The page that explains why they wait.
    why_url: str
    pause: PauseChoice


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


def vo_view(standing: VOStanding, *, may_administer: bool, now: datetime) -> VOView:
    """Return a VO as it is shown; the administration has the pages of limits."""
    vo, name = standing.vo, standing.vo.name
    urls = [_url_of(hold, vo=name, may_administer=may_administer) for hold in standing.holds]
    holds = [HoldRow(text=hold.text, url=url) for hold, url in zip(standing.holds, urls, strict=True)]
    return VOView(
        name=name,
        holds=holds[:_MOST_HOLDS],
        more_holds=holds[_MOST_HOLDS:],
        waiting=[WaitingRow(jobs=jobs, words=_WAITING_FOR[reason]) for reason, jobs in standing.waiting.items()],
        why_url=f"{reverse('portal:why')}?{urlencode({'q': f'vo:{name} owner:* status:waiting'})}",
        pause=pause_choice(
            name,
            is_paused=vo.paused_until is not None and vo.paused_until > now,
            url=reverse("portal:vo-pause", args=[name]),
        ),
    )


def _url_of(hold: Hold, *, vo: str, may_administer: bool) -> str:
    if hold.kind is HoldKind.LIMIT and may_administer:
        return reverse("admin:taskqueues_limit_change", args=[hold.what])
    if hold.kind is HoldKind.NO_PILOTS:
        return reverse("portal:pilots")
    if hold.kind is HoldKind.SITE:
        return reverse("portal:site", args=[hold.what])
    if hold.kind is HoldKind.OWNER:
        return f"{reverse('portal:jobs')}?{urlencode({'q': f'vo:{vo} owner:{hold.what} status:waiting'})}"
    return ""


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
