"""Presentation of pilots: texts and badges are chosen here, not in templates."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse

from matching.models import Match
from matching.queries.leases import LeasesOfPilot
from pilots.domain import node_report
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.queries import KeptLog, PilotOfJob
from pilots.services.bulk import PilotAction
from taskqueues.domain.conditions import CONDITIONS
from wms.kernel.names import counted
from wms.portal.presentation.statuses import Fact, Moment, badge_of

#: {status: style of its badge}; the badge also shows the status as text.
PILOT_BADGES: Final = MappingProxyType(
    {
        PilotStatus.SUBMITTED: "waiting",
        PilotStatus.WAITING: "waiting",
        PilotStatus.RUNNING: "running",
        PilotStatus.STALLED: "held",
        PilotStatus.LOST: "failed",
        PilotStatus.DONE: "done",
        PilotStatus.FAILED: "failed",
        PilotStatus.ABORTED: "failed",
    }
)
#: Seconds between two reloads of a living pilot's log on an open page, as of live pages.
_REFRESH_S: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotRow:
    """One pilot in a list."""

    id: int
    status: str
    badge: str
    reason: str
    vo: str
    #: "generic", or the group and owner of a private pilot.
    kind: str
    site: str
    #: CE and queue.
    place: str
    host: str
    submitted_at: datetime
    last_seen_at: datetime | None
    #: Actions that are possible, with blanks between.
    allows: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotQuestion:
    """The question before pilots are drained or killed."""

    action: str
    #: Such as "Kill 12 pilots?".
    question: str
    button: str
    effect: str
    is_final: bool
    pilots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """One check that the pilot made on its node."""

    name: str
    word: str
    badge: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """One job that the pilot runs or ran."""

    job_id: int
    status: str
    badge: str
    job_name: str
    owner: str
    leased_at: datetime
    ended_at: datetime | None
    #: End of the lease, which may differ from that of the job.
    end: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotView:
    """One pilot on its own page."""

    row: PilotRow
    facts: Sequence[Fact]
    moments: Sequence[Moment]
    checks: Sequence[CheckRow]
    #: Software and files that jobs missed on the node.
    missed: Sequence[node_report.MissingItem]
    node: Sequence[Fact]
    #: The requests to the batch system for this pilot.
    slot: Sequence[Fact]
    #: Task queues left after each condition of the last empty match that left fewer; empty: there was none.
    left: Sequence[Fact]
    leases: Sequence[LeaseRow]
    #: Such as "the newest 50 of 72".
    how_many: str
    #: Query string of the leases on its host, from the day of its submission on; empty: the host is unknown.
    host_query: str
    log: KeptLog
    #: Seconds between two reloads of the log; None: it is complete.
    refresh_s: int | None


def row_of(pilot: Pilot) -> PilotRow:
    """Return the row of *pilot* in a list; it is read with its VO, owner, group and place."""
    queue = pilot.queue
    # For a pilot made by hand, the place that it was made for.
    site, ce = (queue.ce.site, queue.ce) if queue else (pilot.site, pilot.ce)
    return PilotRow(
        id=pilot.pk,
        status=pilot.status,
        badge=PILOT_BADGES[PilotStatus(pilot.status)],
        reason="; ".join(filter(None, [pilot.status_reason, _why_no_new_jobs(pilot)])),
        vo=pilot.vo.name,
        kind=_kind(pilot),
        site=site.name if site else "",
        place=" / ".join(level.name for level in (ce, queue) if level),
        host=pilot.host_name,
        submitted_at=pilot.submitted_at,
        last_seen_at=pilot.last_seen_at,
        allows="" if pilot.ended_at is not None else " ".join(PilotAction),
    )


def question_of(action: PilotAction, *, pilots: int, jobs: int) -> PilotQuestion:
    """Return the question before an action on living pilots that hold some jobs."""
    phrase = f"{action.capitalize()} {counted(pilots, 'pilot')}"
    if action is PilotAction.DRAIN:
        effect = f"They get no further jobs, and end after the {counted(jobs, 'job')} that they have now."
    else:
        effect = f"They are ended in the batch system; the {counted(jobs, 'job')} that they have now wait again."
    return PilotQuestion(
        action=action,
        question=f"{phrase}?",
        button=phrase,
        effect=effect,
        is_final=action is PilotAction.KILL,
        pilots=pilots,
    )


def result_of(action: PilotAction, *, pilots: int, changed: int) -> str:
    """Return what was done to how many pilots."""
    done = {PilotAction.DRAIN: "drained", PilotAction.KILL: "killed"}[action]
    before = f"; {pilots - changed:,} were {done} before" if changed < pilots else ""
    return f"{counted(changed, 'pilot')} {done}{before}."


def pilot_view(pilot: Pilot, *, leases: LeasesOfPilot, log: KeptLog) -> PilotView:
    """Return the page of *pilot*.

    Args:
        pilot: with its VO, owner, group, place and black hole.
        leases: its jobs.
        log: its newest lines.
    """
    row = row_of(pilot)
    shown, count = len(leases.newest), leases.count
    return PilotView(
        row=row,
        facts=_facts(pilot, row),
        moments=_moments(pilot),
        checks=_checks(pilot),
        missed=node_report.missed(pilot.node),
        node=[Fact(label=label, value=value) for label, value in node_report.properties(pilot.node)],
        slot=[Fact(label=label, value=value) for label, value in node_report.asked(pilot.slot)],
        left=_left(pilot),
        leases=[_lease(match) for match in leases.newest],
        how_many=f"the newest {shown} of {count:,}" if shown < count else f"{count}",
        host_query=urlencode({"host": row.host, "since": f"{row.submitted_at:%Y-%m-%d}"}) if row.host else "",
        log=log,
        refresh_s=_REFRESH_S if pilot.ended_at is None else None,
    )


def pilot_fact(pilot: PilotOfJob | None) -> Fact:
    """Return the pilot for the page of a job, with a link for users who may see it."""
    if pilot is None:
        return Fact(label="Pilot", value="")
    value = f"{pilot.pilot_id} on {pilot.host_name}" if pilot.host_name else str(pilot.pilot_id)
    url = reverse("portal:pilot", args=[pilot.pilot_id]) if pilot.is_visible else ""
    return Fact(label="Pilot", value=value, url=url)


def _kind(pilot: Pilot) -> str:
    if pilot.group is None:
        return "generic"
    if pilot.is_of_others:
        return "private"
    return f"private: {pilot.owner.username if pilot.owner else 'all'} of {pilot.group.name}"


def _why_no_new_jobs(pilot: Pilot) -> str:
    """Return why a living pilot gets no new jobs, in a few words; empty: it may get some."""
    if pilot.ended_at is not None:
        return ""
    if pilot.black_hole_id is not None:
        return "gets no jobs: its host is a black hole"
    return "drained: gets no new jobs" if pilot.drained_at is not None else ""


def _facts(pilot: Pilot, row: PilotRow) -> list[Fact]:
    return [
        Fact(label="VO", value=row.vo),
        Fact(label="Runs jobs of", value="the whole VO" if pilot.group is None else row.kind),
        *([Fact(label="Setup", value=pilot.setup)] if pilot.setup else []),
        Fact(label="Site", value=row.site),
        Fact(label="CE and queue", value=row.place),
        Fact(label="Host", value=row.host),
        Fact(label="Batch id", value=pilot.batch_id or str(pilot.node.get("batch_id", ""))),
        Fact(label="Stamp", value=pilot.stamp),
        *([Fact(label="Usage cut", value=pilot.cut_usage)] if pilot.cut_usage else []),
        *_held_back(pilot),
    ]


def _held_back(pilot: Pilot) -> list[Fact]:
    """Return the reasons why a pilot gets no new jobs."""
    reasons = []
    if pilot.black_hole is not None:
        value = f"{pilot.black_hole.reason}; until {pilot.black_hole.until:%Y-%m-%d %H:%M %Z}"
        reasons.append(Fact(label="Its host is a black hole", value=value))
    if pilot.drained_at is not None:
        reasons.append(Fact(label="Gets no new jobs", value=pilot.drain_reason or "drained"))
    return reasons


def _moments(pilot: Pilot) -> list[Moment]:
    moments = (
        ("Submitted", pilot.submitted_at),
        ("Stalled", pilot.stalled_at),
        ("Started", pilot.started_at),
        ("First job", pilot.matched_at),
        ("Last empty match", pilot.nothing_at),
        ("Last request", pilot.last_seen_at),
        ("Drained", pilot.drained_at),
        ("Ended", pilot.ended_at),
        ("Revoked", pilot.revoked_at),
    )
    return [Moment(label=label, at=at) for label, at in moments if at is not None]


def _checks(pilot: Pilot) -> list[CheckRow]:
    return [
        CheckRow(
            name=name,
            word="fit" if fit else "not fit",
            badge="done" if fit else "failed",
            detail=detail,
        )
        for name, fit, detail in node_report.checks(pilot.node)
    ]


def _left(pilot: Pilot) -> list[Fact]:
    """Return the task queues left after the first condition, and after each that left fewer than the one before it."""
    counts = pilot.nothing_left or {}
    left = [(name, counts[name]) for name in CONDITIONS if name in counts]
    fewer = [pair for before, pair in zip([("", None), *left], left, strict=False) if pair[1] != before[1]]
    return [Fact(label=f"after {name.replace('_', ' ')}", value=f"{count:,}") for name, count in fewer]


def _lease(match: Match) -> LeaseRow:
    job = match.job
    return LeaseRow(
        job_id=job.pk,
        status=job.status,
        badge=badge_of(job.status),
        job_name=job.job_name,
        owner=job.owner.username,
        leased_at=match.leased_at,
        ended_at=match.ended_at,
        end=match.end_reason.replace("_", " "),
    )
