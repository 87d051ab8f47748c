"""The summary of an explanation: one sentence for the owner of the job."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from matching.domain.headline import Ground, Headline, HeadlineKind
from matching.queries.explain.condition_texts import WORDS, WaitingRequirements, counted
from matching.queries.explain.pilots import PilotsThere
from taskqueues.domain.conditions import CONDITIONS
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRank:
    """The rank of a task queue among those of its VO in which jobs wait."""

    #: 1: none has a higher priority; None: it is not drawn, because no queue would take its jobs.
    rank: int | None
    #: Its fraction of the priorities of its CPU segment, 0 to 1; 0 if the rank is None.
    share: float
    #: Number of drawable task queues with a higher CPU segment.
    longer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The findings about a task queue and the queues that serve its VO."""

    queues: int
    #: The best explanation why it waits.
    headline: Headline
    #: {condition: its requirement and offers}.
    details: Mapping[str, str]
    standing: QueueRank
    #: At the queues that fit, if any.
    pilots: PilotsThere
    #: Places that come last, and the time until then; empty: none.
    goes_elsewhere: str = ""


#: Causes in a sentence at most.
_MOST_PARTS: Final = 3

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


def not_waiting(job: Job) -> str:
    """Return the state of a job that is in no task queue; for a Checking one see ``checking``."""
    at = f" at {job.site}" if job.site else ""
    why = f" ({job.minor_status})" if job.minor_status else ""
    return _NOT_WAITING[JobStatus(job.status)].format(at=at, why=why)


def waiting(needs: WaitingRequirements, findings: Findings) -> str:
    """Return why a job waits: the headline in words, and the places that come last."""
    headline_in_words = _SENTENCES[findings.headline.verdict](needs, findings)
    if not findings.goes_elsewhere or findings.headline.verdict is HeadlineKind.NEVER_DRAWN:
        return headline_in_words
    return f"{headline_in_words.removesuffix('.')}; {findings.goes_elsewhere}."


def _never_drawn(_needs: WaitingRequirements, findings: Findings) -> str:
    causes = [part.cause for part in findings.headline.parts]
    start = "It is never drawn, because" if causes[0].ground is Ground.PRIORITY else "It waits because"
    return f"{start} {_all_of(findings.headline)}."


def _no_queues(needs: WaitingRequirements, _findings: Findings) -> str:
    return f"It waits because no queue is configured at any site that serves {needs.task_queue.group.vo}."


def _delayed(_needs: WaitingRequirements, findings: Findings) -> str:
    return f"It fits {_fitting(findings)} and waits because {_all_of(findings.headline)}."


def _all_of(headline: Headline) -> str:
    return "; and because ".join(part.cause.words for part in headline.parts)


def _fitting(findings: Findings) -> str:
    return f"{findings.headline.queues} of {counted(findings.queues, 'queue')}"


def _competing(needs: WaitingRequirements, findings: Findings) -> str:
    standing, vo = findings.standing, needs.task_queue.group.vo
    rank = standing.rank or 1
    higher = counted(rank - 1, "task queue") if rank > 1 else "no task queue"
    # Which of the others fit the same queues is unknown here: the text makes no promise.
    come = f"{'mostly ' if vo.any_segment_fraction else ''}{'comes' if standing.longer == 1 else 'come'}"
    where = f"first where {'it fits' if standing.longer == 1 else 'they fit'} too"
    more = [f"{counted(standing.longer, 'task queue')} of longer jobs {come} {where}"] if standing.longer else []
    first_of_all = (
        f"It fits {_fitting(findings)} and waits for a pilot there: {higher} of {vo} "
        f"{'have' if rank > 2 else 'has'} a higher priority, and its own has "
        f"{100 * standing.share:.3g} % of the priorities of its CPU segment"
    )
    return f"{'; '.join([first_of_all, *more, *_pilots(findings.pilots)])}."


def _pilots(there: PilotsThere) -> Sequence[str]:
    """Return the texts about the pilots that it waits for; empty while some are running."""
    if there.some_run:
        return []
    if there.coming:
        return [f"{counted(there.coming, 'pilot')} {'is' if there.coming == 1 else 'are'} on the way", *there.remarks]
    return ["no pilot is there now", *there.remarks]


def _without_pilots(_needs: WaitingRequirements, findings: Findings) -> str:
    why = "; ".join([*_parts(findings.headline), *findings.pilots.remarks])
    return f"It fits {_fitting(findings)}, but no pilot is there and none is sent at present: {why}."


def _closed(_needs: WaitingRequirements, findings: Findings) -> str:
    headline = findings.headline
    which = (
        "only queue that it fits accepts" if headline.queues == 1 else f"{headline.queues} queues that it fits accept"
    )
    return f"It waits because the {which} no jobs at present: {'; '.join(_parts(headline))}."


def _parts(headline: Headline) -> list[str]:
    """Return the causes; those that apply to some of the queues only, with the number of these."""
    if headline.is_of_all:
        return [part.cause.words for part in headline.parts]
    parts = [f"at {part.queues} of them, {part.cause.words}" for part in headline.parts[:_MOST_PARTS]]
    return parts if len(headline.parts) <= _MOST_PARTS else [*parts, "and others"]


def _nothing_fits(needs: WaitingRequirements, findings: Findings) -> str:
    headline, vo = findings.headline, needs.task_queue.group.vo
    names = [part.cause.words for part in headline.parts]
    if headline.is_of_all:
        if "submit_pool" in names and needs.requirements is not None:
            required = needs.requirements.in_words()
            return f"It waits because no queue that serves {vo} provides what it requires: {required}."
        details = ", and it ".join(findings.details[name] for name in CONDITIONS if name in names)
        return f"It waits because no queue that serves {vo} fits it: it {details}."
    lacking = [
        f"{part.queues} {'does' if part.queues == 1 else 'do'} not fit because it "
        f"{_unmet_requirement(part.cause.words, needs, findings)}"
        for part in headline.parts[:_MOST_PARTS]
    ]
    return (
        f"It waits because none of the {headline.queues} queues that serve {vo} meets all its requirements together: "
        f"{', '.join(lacking)}."
    )


def _unmet_requirement(name: str, needs: WaitingRequirements, findings: Findings) -> str:
    """Return the requirement of the job; if the queue requires something of jobs, that too."""
    return findings.details[name] if name in {"required_tags", "job_type"} else WORDS[name].requirement(needs)


_SENTENCES: Final[Mapping[HeadlineKind, Callable[[WaitingRequirements, Findings], str]]] = MappingProxyType(
    {
        HeadlineKind.NEVER_DRAWN: _never_drawn,
        HeadlineKind.NO_QUEUES: _no_queues,
        HeadlineKind.COMPETES: _competing,
        HeadlineKind.DELAYED: _delayed,
        HeadlineKind.NO_PILOTS: _without_pilots,
        HeadlineKind.CLOSED: _closed,
        HeadlineKind.MISMATCH: _nothing_fits,
    }
)
