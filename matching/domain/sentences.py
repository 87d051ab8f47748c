"""The sentences of explanations: why a job waits, what would help, and which queues a described job fits.

They are the only words for that: REST, the portal and warnings of submissions take them from here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from matching.domain.condition_words import WORDS, detail, reason, resources_in_words
from matching.domain.facts import in_words
from matching.domain.findings import (
    Advice,
    CheckedData,
    ConditionCount,
    Effect,
    ExplainedQueue,
    Explanation,
    Findings,
    Fit,
    FitOutcome,
    PilotsThere,
    WaitingRequirements,
)
from matching.domain.headline import Ground, Headline, HeadlineKind
from wms.jobs.domain.data import WAITS_FOR_ROOM
from wms.jobs.domain.lifecycle import JobStatus
from wms.kernel.names import counted, in_percent, listed
from wms.kernel.time_texts import between, duration

_NO_ESTIMATE: Final = "No estimate yet."
#: Causes in a sentence at most.
_MOST_PARTS: Final = 3
#: Names of sites in one sentence of advice.
_MOST_SITES: Final = 3
# ---- the whole -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionText:
    """One condition of the match, by itself."""

    name: str
    passed_queues: int
    failed_queues: int
    #: The requirement of the job, and the offers of the queues.
    detail: str

    @property
    def label(self) -> str:
        """Return the name in words."""
        return self.name.replace("_", " ")

    @property
    def queues(self) -> int:
        """Return the number of all queues."""
        return self.passed_queues + self.failed_queues


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueText:
    """One queue, and all reasons why it does not fit."""

    site: str
    ce: str
    queue: str
    fits: bool
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationText:
    """An explanation in words."""

    summary: str
    conditions: Sequence[ConditionText]
    #: About the condition that excludes most queues; empty: none excludes any.
    most_excluding: str
    queues: Sequence[QueueText]
    limits: Sequence[str]
    advice: Sequence[str]
    warnings: Sequence[str]


def worded(explained: Explanation, *, reader: str = "") -> ExplanationText:
    """Return an explanation in words, for its *reader*, a user name; empty: for anybody."""
    if explained.findings is not None and explained.findings.needs.owner == reader:
        needs = replace(explained.findings.needs, is_readers=True)
        explained = replace(explained, findings=replace(explained.findings, needs=needs))
    found, conditions, queues = explained.findings, [], []
    if found is not None:
        conditions = [
            ConditionText(
                name=count.name,
                passed_queues=count.passed_queues,
                failed_queues=count.failed_queues,
                detail=_detail(count, found.needs),
            )
            for count in found.conditions
        ]
        queues = [_queue(queue, found.needs) for queue in explained.queues]
    most = max(conditions, key=lambda each: each.failed_queues, default=None)
    unmatched = "" if explained.unmatched is None else waiting(explained.unmatched)
    return ExplanationText(
        summary=summary(explained),
        conditions=conditions,
        most_excluding=_most_excluding(most) if most is not None and most.failed_queues else "",
        queues=queues,
        limits=_limits(explained),
        advice=advice(explained.advice),
        warnings=list(filter(None, [*explained.description_warnings, unmatched])),
    )


def _queue(queue: ExplainedQueue, needs: WaitingRequirements) -> QueueText:
    reasons = [
        _refusal(str(cause.what), queue, needs) if cause.ground is Ground.CONDITION else in_words(cause.what)
        for cause in queue.causes
    ]
    return QueueText(site=queue.site, ce=queue.ce, queue=queue.queue, fits=not reasons, reasons=reasons)


def _limits(explained: Explanation) -> list[str]:
    """Return the quota, or the limits and throttles, that hold the job back."""
    if explained.quota and explained.minor_status == WAITS_FOR_ROOM:
        return [explained.quota]
    return [in_words(cause.what) for cause in explained.closings]


# ---- the state of a job ----------------------------------------------------------------------------------------------

#: {at}: the place of its match, {why}: its minor status; either may be empty.
_NOT_WAITING: Final[Mapping[JobStatus, str]] = MappingProxyType(
    {
        JobStatus.RECEIVED: "It has been received and is in no task queue yet.",
        JobStatus.WAITING: "It has just left its task queue; repeat the request.",
        JobStatus.HELD: "It is Held{why} and in no task queue until it is released.",
        JobStatus.MATCHED: "It is Matched{at}: a pilot has taken it and is about to start it.",
        JobStatus.RUNNING: "It is Running{at}.",
        JobStatus.STALLED: "It is Stalled{at}: its pilot has fallen silent, and when the lease ends it waits again.",
        JobStatus.COMPLETING: "It is Completing{at}: its payload has ended and its output is on the way.",
        JobStatus.RESCHEDULED: "It is Rescheduled{why} and waits again when the lease of its last pilot has ended.",
        JobStatus.FAILED: "It has Failed{at}{why}; reschedule it to let it wait again.",
        JobStatus.DONE: "It is Done{at}.",
        JobStatus.KILLED: "It was Killed{why}.",
        JobStatus.DELETED: "It was Deleted{why}.",
    }
)
_ENTERS: Final = "it goes into one when a site where it may run holds all of its input data"


def summary(explained: Explanation) -> str:
    """Return the explanation in one sentence, for the owner of the job."""
    if explained.findings is not None:
        return waiting(explained.findings)
    why = f" ({explained.minor_status})" if explained.minor_status else ""
    if explained.checked is not None:
        reason = _why_checking(explained.checked, full_quota=explained.quota)
        return f"It is being checked{why} and is in no task queue yet: {reason}."
    at = f" at {explained.site}" if explained.site else ""
    return _NOT_WAITING[JobStatus(explained.status)].format(at=at, why=why)


def _why_checking(checked: CheckedData, *, full_quota: str) -> str:
    if checked.missing:
        return f"{_ENTERS}, and no replica is registered of {listed(checked.missing)}"
    if not checked.sites:
        return f"{_ENTERS}, and at present none does, though each file has a replica" if checked.files else _ENTERS
    if not checked.may_run:
        return f"{_ENTERS}; they are at {listed(checked.sites)}, where its sites and banned_sites do not let it run"
    # Changes take effect within seconds.
    return (
        f"its input data are there, but {full_quota}; it waits for room"
        if full_quota
        else "it goes into one in seconds"
    )


def waiting(findings: Findings) -> str:
    """Return why a job waits: the headline in words, and the places that come last."""
    sentence = _HEADLINES[findings.headline.verdict](findings)
    if findings.goes_elsewhere is None or findings.headline.verdict is HeadlineKind.NEVER_DRAWN:
        return sentence
    return f"{sentence.removesuffix('.')}; {in_words(findings.goes_elsewhere)}."


def _never_drawn(findings: Findings) -> str:
    is_priority = findings.headline.parts[0].cause.ground is Ground.PRIORITY
    start = "It is never drawn, because" if is_priority else "It waits because"
    return f"{start} {_all_of(findings.headline)}."


def _no_queues(findings: Findings) -> str:
    return f"It waits because no queue is configured at any site that serves {findings.needs.vo}."


def _delayed(findings: Findings) -> str:
    return f"It fits {_fitting(findings)} and waits because {_all_of(findings.headline)}."


def _all_of(headline: Headline) -> str:
    return "; and because ".join(in_words(part.cause.what) for part in headline.parts)


def _fitting(findings: Findings) -> str:
    return f"{findings.headline.queues:,} of {counted(findings.queues, 'queue')}"


def _competing(findings: Findings) -> str:
    standing, vo = findings.standing, findings.needs.vo
    longer = longer_jobs_first(counted(standing.longer, "task queue"), standing.longer, mostly=standing.any_segment)
    after = [longer] * bool(standing.longer)
    rank, part = standing.rank or 1, f"{in_percent(standing.share)} of the priorities of its CPU segment"
    if findings.pilots.running:
        at = counted(findings.headline.queues, "queue")
        behind = f"behind {counted(rank - 1, 'task queue')} of {vo}" if rank > 1 else f"first of {vo}"
        place = f"Next in line at {at}" if standing.is_next else f"In line at {at}, {behind}, with {part}"
        return f"{'; '.join([place, *after, *_busy(findings)])}.{_starts(findings)}"
    higher = counted(rank - 1, "task queue") if rank > 1 else "no task queue"
    place = (
        f"It fits {_fitting(findings)} and waits for a pilot there: {higher} of {vo} "
        f"{'have' if rank > 2 else 'has'} a higher priority, and its own has {part}"
    )
    return f"{'; '.join([place, *after, *_pilots(findings.pilots)])}."


def _busy(findings: Findings) -> Sequence[str]:
    """Return how many pilots run there, whose jobs they have, and how many jobs wait for them."""
    pilots = findings.pilots
    number, run = (
        f"{pilots.running:,} {'pilot' if pilots.running == 1 else 'pilots'}",
        "runs" if pilots.running == 1 else "run",
    )
    yours = "your jobs" if findings.needs.is_readers else f"jobs of {findings.needs.owner}"
    have = f"{number} {run} there"
    if pilots.idle:
        has, asks = ("has", "asks") if pilots.idle == 1 else ("have", "ask")
        return [f"{pilots.idle:,} of {number} there {has} no job and {asks} for one soon"]
    if pilots.own_jobs >= pilots.running:
        have = f"{have}, {'busy' if pilots.running == 1 else 'all busy'} with {yours}"
    elif pilots.own_jobs:
        have = f"{have}, all busy, {pilots.own_jobs:,} with {yours}"
    else:
        have = f"{have}, {'busy' if pilots.running == 1 else 'all busy'} with other jobs"
    waiting = f"{findings.waiting:,} of yours" if findings.needs.is_readers else f"{findings.waiting:,} {yours}"
    sharing = f"{waiting} wait for {'it' if pilots.running == 1 else 'them'}"
    return [have, sharing] if findings.waiting > 1 else [have]


def _starts(findings: Findings) -> str:
    """Return a sentence about the time until a job starts, or until the first and the last of several do."""
    starts = findings.starts
    if not starts or (findings.pilots.idle and not any(starts)):
        return ""
    first, last = starts[0], starts[-1]
    if len(starts) == 1:
        return f" It should start in {between(*first)}." if first else f" {_NO_ESTIMATE}"
    if first is None or last is None:
        known, name = (first, "first") if first else (last, "last")
        return f" The {name} of them should start in {between(*known)}." if known else f" {_NO_ESTIMATE}"
    return f" The first of them should start in {between(*first)}, the last in {between(*last)}."


def longer_jobs_first(task_queues: str, number: int, *, mostly: bool) -> str:
    """Return that some task queues of longer jobs come first.

    Which of them fit the same queues is unknown: the text makes no promise.

    Args:
        task_queues: in words.
        number: of them.
        mostly: whether some pilots draw from all CPU segments.
    """
    come = f"{'mostly ' if mostly else ''}{'comes' if number == 1 else 'come'}"
    return f"{task_queues} of longer jobs {come} first where {'it fits' if number == 1 else 'they fit'} too"


def _pilots(there: PilotsThere) -> Sequence[str]:
    """Return the texts about the pilots that it waits for while none runs."""
    verb = "is" if there.coming == 1 else "are"
    first = f"{counted(there.coming, 'pilot')} {verb} on the way" if there.coming else "no pilot is there now"
    return [first, *map(in_words, there.remarks)]


def _without_pilots(findings: Findings) -> str:
    why = "; ".join([*_parts(findings.headline), *map(in_words, findings.pilots.remarks)])
    return f"It fits {_fitting(findings)}, but no pilot is there and none is sent at present: {why}."


def _closed(findings: Findings) -> str:
    headline = findings.headline
    if headline.is_of_all and headline.parts[0].cause.ground is Ground.CLOSING_LIMIT:
        return f"It waits because a limit closes its VO, group or site: {'; '.join(_parts(headline))}."
    which = (
        "only queue that it fits accepts" if headline.queues == 1 else f"{headline.queues:,} queues that it fits accept"
    )
    return f"It waits because the {which} no jobs at present: {'; '.join(_parts(headline))}."


def _parts(headline: Headline) -> list[str]:
    """Return the causes; those that apply to some of the queues only, with the number of these."""
    if headline.is_of_all:
        return [in_words(part.cause.what) for part in headline.parts]
    parts = [f"at {part.queues:,} of them, {in_words(part.cause.what)}" for part in headline.parts[:_MOST_PARTS]]
    return parts if len(headline.parts) <= _MOST_PARTS else [*parts, "and others"]


def _of_other_middleware(findings: Findings) -> str:
    fitting, named = findings.headline.queues, listed(findings.needs.definition.grid_middlewares, last=" or ")
    queues = "the only queue that it fits is" if fitting == 1 else f"the {fitting:,} queues that it fits are"
    return (
        f"Pilots for it are sent only to computing elements of the grid middleware {named}; {queues} at none of these."
    )


def _nothing_fits(findings: Findings) -> str:
    headline, needs = findings.headline, findings.needs
    names = [str(part.cause.what) for part in headline.parts]
    if headline.is_of_all:
        if "submit_pool" in names and needs.resources is not None:
            required = resources_in_words(needs.resources)
            return f"It waits because no queue that serves {needs.vo} provides what it requires: {required}."
        details = ", and it ".join(_detail(each, needs) for each in findings.conditions if each.name in names)
        return f"It waits because no queue that serves {needs.vo} fits it: it {details}."
    lacking = [
        f"{part.queues:,} {'does' if part.queues == 1 else 'do'} not fit because it {_unmet(name, findings)}"
        for name, part in zip(names[:_MOST_PARTS], headline.parts, strict=False)
    ]
    return (
        f"It waits because none of the {headline.queues:,} queues that serve {needs.vo} meets all its requirements "
        f"together: {', '.join(lacking)}."
    )


def _unmet(name: str, findings: Findings) -> str:
    """Return the requirement of the job; if the queue requires something of jobs, that too."""
    if name not in {"required_tags", "job_type"}:
        return WORDS[name].requirement(findings.needs)
    return next(_detail(each, findings.needs) for each in findings.conditions if each.name == name)


_HEADLINES: Final[Mapping[HeadlineKind, Callable[[Findings], str]]] = MappingProxyType(
    {
        HeadlineKind.NEVER_DRAWN: _never_drawn,
        HeadlineKind.NO_QUEUES: _no_queues,
        HeadlineKind.COMPETES: _competing,
        HeadlineKind.DELAYED: _delayed,
        HeadlineKind.NO_PILOTS: _without_pilots,
        HeadlineKind.CLOSED: _closed,
        HeadlineKind.MISMATCH: _nothing_fits,
        HeadlineKind.OTHER_MIDDLEWARE: _of_other_middleware,
    }
)


# ---- conditions and queues -------------------------------------------------------------------------------------------


def _detail(count: ConditionCount, needs: WaitingRequirements) -> str:
    """Return the requirement of a condition and the offers of all queues."""
    queues = f"{count.closed_queues:,} of {count.passed_queues + count.failed_queues:,} queues"
    closed = f"; {queues} accept no jobs at present" if count.closed_queues else ""
    return detail(count.name, needs, count.offers) + closed


def _most_excluding(condition: ConditionText) -> str:
    queues = f"{condition.failed_queues:,} of {counted(condition.queues, 'queue')}"
    return f"The condition {condition.label} excludes most: {queues}. The job {condition.detail}."


def _refusal(name: str, queue: ExplainedQueue, needs: WaitingRequirements) -> str:
    words = reason(name, needs, queue.offer, queue_id=queue.queue_id)
    if name != "platform" or not queue.nodes:
        return words
    configured = f" (configured: {listed(queue.platforms)})" if queue.platforms else ""
    return f"{words}; nodes of this queue{configured} report {listed(queue.nodes)}"


# ---- described jobs, before they are submitted -----------------------------------------------------------------------

_OUTCOMES: Final[Mapping[FitOutcome, str]] = MappingProxyType(
    {
        FitOutcome.NONE: "fit{s} no queue",
        FitOutcome.CLOSED: "fit{s} only queues that accept no jobs at present",
        FitOutcome.CHECKING: "would be Checking, because no site where {they} may run holds {their} input data",
        FitOutcome.FITS: "fit{s} a queue",
    }
)


def outcome_in_words(outcome: FitOutcome, *, jobs: int) -> str:
    """Return whether so many jobs fit some queue, as the end of a sentence such as "fit no queue"."""
    s, they, their = ("s", "it", "its") if jobs == 1 else ("", "they", "their")
    return _OUTCOMES[outcome].format(s=s, they=they, their=their)


def fit_in_words(fit: Fit | None, *, jobs: int) -> str:
    """Return which queues jobs fit, as the end of a sentence such as "fit 2 of 3 queues, at LCG.CERN.ch"."""
    if fit is None:
        return outcome_in_words(FitOutcome.CHECKING, jobs=jobs)
    verb, queues = "fits" if jobs == 1 else "fit", counted(fit.queues, "queue")
    if fit.fitting:
        return f"{verb} {fit.fitting} of {queues}, at {listed(fit.sites)}"
    if fit.closed:
        return f"{verb} {fit.closed} of {queues}, but none of these accepts jobs at present"
    return f"{verb} none of {queues}"


# ---- advice ----------------------------------------------------------------------------------------------------------


def advice(given: Advice) -> list[str]:
    """Return sentences about changes that would let the job fit more queues, the most helpful first."""
    if given.nearest:
        changes = ", and ".join(map(in_words, given.together))
        return [f"No single change is enough; {given.nearest} would fit {changes}."]
    return [_about(effect, fits_some=given.fits_some) for effect in given.effects]


def _about(effect: Effect, *, fits_some: bool) -> str:
    queues = f"{counted(effect.gained, 'queue')}{' more' if fits_some else ''}"
    hidden = len(effect.sites) - _MOST_SITES
    sites = ", ".join(effect.sites[:_MOST_SITES]) + (f" and {hidden} more sites" if hidden > 0 else "")
    change = in_words(effect.change)
    parts = [f"{change[:1].upper()}{change[1:]} it would fit {queues}: {sites}"]
    if effect.closed:
        accept = "accepts" if effect.closed == 1 else "accept"
        parts.append(f"{effect.closed:,} of them {accept} no jobs at present")
    if effect.lost:
        parts.append(f"{effect.lost} of those that it fits now would no longer fit")
    return f"{'; '.join(parts)}."


def shorter(value_s: int, *, own_s: int) -> tuple[str, str]:
    """Return two different durations in words, in seconds if they would read the same otherwise."""
    words, own_words = duration(value_s), duration(own_s)
    return (words, own_words) if words != own_words else (f"{value_s:,} s", f"{own_s:,} s")
