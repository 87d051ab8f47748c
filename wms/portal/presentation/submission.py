"""Presentation of submissions: rows of lists, and the page of one."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from django.urls import reverse

from wms.jobs.domain.lifecycle import FINAL, Action, JobStatus, sources_of
from wms.jobs.domain.time_left import PayloadProgress, time_left
from wms.jobs.models import NameRest, SubmissionCanary, SubmissionContent
from wms.jobs.queries.failures import Failures
from wms.jobs.queries.submissions import RECENTLY, CountedSubmission, JobsOfSubmission, PlaceCount
from wms.kernel.names import counted
from wms.kernel.time_texts import between
from wms.portal.presentation.failures import FailuresView, failures_view
from wms.portal.presentation.job_list import FINAL_ACTIONS
from wms.portal.presentation.statuses import Fact, Segment, badge_of, icon_of
from wms.portal.search import EVERYBODY, query_of, text_of

#: {style of a badge: its label in bars}, in their order there.
_SEGMENT_LABELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "done": "done",
        "failed": "failed",
        "running": "running",
        "held": "held or stalled",
        "waiting": "waiting",
        "killed": "killed",
    }
)
#: Statuses of jobs that go on by themselves.
_GOING_ON: Final = frozenset(JobStatus) - FINAL - {JobStatus.HELD}
_LEAST_WINDOW_S: Final = 60.0
#: Sites that are shown at once; the others are folded.
MOST_PLACES: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionRow:
    """One submission in a list."""

    id: str
    url: str
    #: Its label, else the name of its jobs, else their ids.
    title: str
    group: str
    submitted_at: datetime
    #: Jobs that are not deleted.
    jobs: int
    segments: Sequence[Segment]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusChip:
    """The number of jobs in one status, with a link to them."""

    status: str
    badge: str
    icon: str
    jobs: int
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRate:
    """The number of jobs that have ended of late, and the time left."""

    ended: int
    #: Time in which these ended, such as "hour" or "12 minutes".
    window: str
    #: Jobs that are yet to end; held ones do not count.
    remaining: int
    held: int
    #: In words, such as "20 min to 45 min"; empty: it cannot be said.
    left: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRuns:
    """The jobs of a submission whose last match was at one site."""

    site: str
    url: str
    running: int
    done: int
    failed: int
    others: int
    segments: Sequence[Segment]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionAction:
    """An action on those jobs of a submission whose status it concerns."""

    action: Action
    label: str
    icon: str
    statuses: frozenset[JobStatus]


ACTIONS: Final[Sequence[SubmissionAction]] = (
    SubmissionAction(
        action=Action.RESCHEDULE,
        label="Retry the failed",
        icon="rotate-ccw",
        statuses=frozenset({JobStatus.FAILED}),
    ),
    SubmissionAction(
        action=Action.HOLD, label="Hold the waiting", icon="pause", statuses=frozenset({JobStatus.WAITING})
    ),
    SubmissionAction(
        action=Action.RELEASE, label="Release the held", icon="play", statuses=frozenset({JobStatus.HELD})
    ),
    SubmissionAction(
        action=Action.KILL, label="Kill the rest", icon="octagon-x", statuses=sources_of(JobStatus.KILLED)
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionButton:
    """A button that asks for an action on all jobs that a query matches; it exists while there are such jobs."""

    action: str
    label: str
    icon: str
    jobs: int
    is_final: bool
    #: Query of the list of jobs, and its query string.
    text: str
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionPage:
    """One submission on its own page."""

    row: SubmissionRow
    facts: Sequence[Fact]
    chips: Sequence[StatusChip]
    rate: EndRate
    #: Sites with most of its jobs, and the others.
    places: Sequence[SiteRuns]
    further_places: Sequence[SiteRuns]
    #: None: no job has failed.
    failures: FailuresView | None
    buttons: Sequence[ActionButton]
    warnings: Sequence[str]
    #: None: no job is held for its canaries.
    canary: SubmissionCanary | None
    #: Jobs whose output can be downloaded.
    outputs: int
    jobs_url: str
    csv_url: str
    json_url: str
    clone_url: str


def row_of(submission: CountedSubmission) -> SubmissionRow:
    """Return the row of a submission in a list."""
    content = submission.content
    return SubmissionRow(
        id=str(content.pk),
        url=reverse("portal:submission", args=[content.pk]),
        title=title_of(content),
        group=content.group.name,
        submitted_at=content.submission.submitted_at,
        jobs=sum(jobs for status, jobs in submission.jobs.items() if status != JobStatus.DELETED),
        segments=segments_of(submission.jobs),
    )


def submission_view(
    submission: CountedSubmission,
    *,
    jobs: JobsOfSubmission,
    failures: Failures | None,
    warnings: Sequence[str],
    canary: SubmissionCanary | None,
    removed_after_days: Mapping[JobStatus, int],
    now: datetime,
) -> SubmissionPage:
    """Return the page of a submission.

    Args:
        submission: the submission.
        jobs: what its jobs tell; ends are counted since ``now - RECENTLY``.
        failures: its failed jobs; None: there are none.
        warnings: with which it was answered.
        canary: its canaries; None: no job is held for them.
        removed_after_days: {final status: age at which jobs of its VO are removed}.
        now: the time of the page.
    """
    content = submission.content
    places = _places(content, jobs.places)
    return SubmissionPage(
        row=row_of(submission),
        facts=[*_facts(content), *_keeping(removed_after_days)],
        chips=[_chip(content, status, submission.jobs[status]) for status in JobStatus if status in submission.jobs],
        rate=rate_of(
            submission.jobs,
            ended=jobs.recently_ended,
            age=now - content.submission.submitted_at,
            progress=jobs.progress,
        ),
        places=places[:MOST_PLACES],
        further_places=places[MOST_PLACES:],
        failures=None if failures is None else failures_view(failures, words=_words(content)),
        buttons=[
            _button(content, each, number) for each in ACTIONS if (number := number_in(submission.jobs, each.statuses))
        ],
        warnings=warnings,
        canary=canary,
        outputs=jobs.outputs,
        jobs_url=_jobs_url(content),
        csv_url=f"{reverse('portal:jobs-csv')}?{query_of(_words(content))}",
        json_url=f"{reverse('portal:jobs-json')}?{query_of(_words(content))}",
        clone_url=f"{reverse('portal:submit')}?clone={content.first_job_id}",
    )


def title_of(content: SubmissionContent) -> str:
    """Return the label of the jobs, else their name, else their ids."""
    if content.job_group:
        return content.job_group
    if name := name_of(content):
        return name
    if content.first_job_id == content.last_job_id:
        return f"Job {content.first_job_id}"
    return f"Jobs {content.first_job_id} to {content.last_job_id}"


def name_of(content: SubmissionContent) -> str:
    """Return the name of the jobs, with ``*`` for what differs; empty: they have none in common."""
    if not content.name_prefix:
        return ""
    return content.name_prefix if content.name_rest == NameRest.NOTHING else f"{content.name_prefix}*"


def segments_of(jobs: Mapping[str, int]) -> list[Segment]:
    """Return the parts of a bar, without empty ones; deleted jobs are left out."""
    by_kind: Counter[str] = Counter()
    for status, number in jobs.items():
        if status != JobStatus.DELETED:
            by_kind[badge_of(status)] += number
    return [
        Segment(kind=kind, label=label, count=by_kind[kind]) for kind, label in _SEGMENT_LABELS.items() if by_kind[kind]
    ]


def rate_of(jobs: Mapping[str, int], *, ended: int, age: timedelta, progress: PayloadProgress) -> EndRate:
    """Return how many jobs of a submission have ended of late, and the time left.

    Args:
        jobs: numbers by status.
        ended: payloads that have ended within RECENTLY.
        age: of the submission; younger than RECENTLY, it is the time in which they ended.
        progress: of its payloads.
    """
    window_s = max(_LEAST_WINDOW_S, min(age, RECENTLY).total_seconds())
    remaining, left = number_in(jobs, _GOING_ON), time_left(progress)
    return EndRate(
        ended=ended,
        window="hour" if window_s == RECENTLY.total_seconds() else counted(round(window_s / 60), "minute"),
        remaining=remaining,
        held=jobs.get(JobStatus.HELD, 0),
        left=between(*left) if left and remaining else "",
    )


def number_in(jobs: Mapping[str, int], statuses: Iterable[JobStatus]) -> int:
    """Return the number of jobs in any of these statuses."""
    return sum(jobs.get(status, 0) for status in statuses)


def _facts(content: SubmissionContent) -> list[Fact]:
    number = content.last_job_id - content.first_job_id + 1
    ids = str(content.first_job_id) if number == 1 else f"{content.first_job_id} to {content.last_job_id}"
    return [
        Fact(label="Owner", value=content.owner.username),
        Fact(label="Group", value=f"{content.group.name} ({content.vo.name})"),
        Fact(label="Label", value=content.job_group or ""),
        Fact(label="Name of its jobs", value=name_of(content)),
        Fact(label="Ids of its jobs", value=ids),
        Fact(label="Type", value=content.job_type or ""),
        Fact(label="Id", value=str(content.pk)),
    ]


def _keeping(removed_after_days: Mapping[JobStatus, int]) -> list[Fact]:
    """Return for how long its jobs are kept after their ends; nothing if they are kept for ever."""
    if not removed_after_days:
        return []
    ages = ", ".join(f"{status} {counted(days, 'day')}" for status, days in sorted(removed_after_days.items()))
    return [Fact(label="Kept after the end", value=ages)]


def _words(content: SubmissionContent) -> dict[str, str]:
    """Return the filters of the list of all jobs of the submission, whose reader need not be its owner."""
    return {"job_group_id": str(content.pk), "owner": EVERYBODY}


def _jobs_url(content: SubmissionContent, **filters: object) -> str:
    return f"{reverse('portal:jobs')}?{query_of(_words(content), **filters)}"


def _button(content: SubmissionContent, each: SubmissionAction, jobs: int) -> ActionButton:
    return ActionButton(
        action=each.action,
        label=each.label,
        icon=each.icon,
        jobs=jobs,
        is_final=each.action in FINAL_ACTIONS,
        text=text_of({**_words(content), "status": each.statuses}),
        query=query_of(_words(content)),
    )


def _chip(content: SubmissionContent, status: JobStatus, jobs: int) -> StatusChip:
    return StatusChip(
        status=status,
        badge=badge_of(status),
        icon=icon_of(status),
        jobs=jobs,
        url=_jobs_url(content, status=status),
    )


def _places(content: SubmissionContent, counts: Iterable[PlaceCount]) -> list[SiteRuns]:
    """Return the sites, those with most jobs first; jobs that have not been matched yet are at none."""
    by_site: dict[str, Counter[str]] = {}
    for count in counts:
        if count.site:
            by_site.setdefault(count.site, Counter())[count.status] += count.jobs
    largest = sorted(by_site, key=lambda site: (-by_site[site].total(), site))
    return [_place(content, site, by_site[site]) for site in largest]


def _place(content: SubmissionContent, site: str, jobs: Mapping[str, int]) -> SiteRuns:
    kinds = {segment.kind: segment.count for segment in segments_of(jobs)}
    running, done, failed = (kinds.pop(kind, 0) for kind in ("running", "done", "failed"))
    return SiteRuns(
        site=site,
        url=_jobs_url(content, site=site),
        running=running,
        done=done,
        failed=failed,
        others=sum(kinds.values()),
        segments=segments_of(jobs),
    )
