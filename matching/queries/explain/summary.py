"""Why a job waits, or what it does instead, in one sentence that a physicist understands."""

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
    """Where a task queue stands among those of its VO in which jobs wait."""

    #: 1: none has a higher priority; None: it is not drawn, for no queue would take its jobs.
    rank: int | None
    #: Its part of the priorities of its CPU segment, 0 to 1; 0 where the rank is None.
    share: float
    #: How many that can be drawn have a higher CPU segment.
    longer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was found out about a task queue and the queues that serve its VO."""

    queues: int
    #: What explains best why it waits.
    headline: Headline
    #: {condition: what it compares}.
    details: Mapping[str, str]
    standing: QueueRank
    #: At the queues that fit, if there are any.
    pilots: PilotsThere
    #: Which places come last, until when; empty: none.
    goes_elsewhere: str = ""


#: A sentence names so many causes at most.
_MOST_PARTS: Final = 3

#: {at} is where it was matched, {why} what its minor status says; either may be empty.
_TOLD: Final[Mapping[JobStatus, str]] = MappingProxyType(
    {
        JobStatus.RECEIVED: "It has been received and is in no task queue yet.",
        JobStatus.WAITING: "It has left its task queue at this moment; ask again.",
        JobStatus.HELD: "It is Held{why} and in no task queue until it is released.",
        JobStatus.MATCHED: "It is Matched{at}: a pilot has taken it and is about to start it.",
        JobStatus.RUNNING: "It is Running{at}.",
        JobStatus.STALLED: "It is Stalled{at}: its pilot has fallen silent, and when the lease ends it waits again.",
        JobStatus.COMPLETING: "It is Completing{at}: its payload has ended and its output is on the way.",
        JobStatus.RESCHEDULED: "It is Rescheduled{why} and waits again when its last pilot has let go of it.",
        JobStatus.FAILED: "It has Failed{at}{why}; reschedule it to let it wait again.",
        JobStatus.DONE: "It is Done{at}.",
        JobStatus.KILLED: "It was Killed{why}.",
        JobStatus.DELETED: "It was Deleted{why}.",
    }
)


def not_waiting(job: Job) -> str:
    """Return what a job does that stands in no task queue; ``checking`` has the words for one that is Checking."""
    at = f" at {job.site}" if job.site else ""
    why = f" ({job.minor_status})" if job.minor_status else ""
    return _TOLD[JobStatus(job.status)].format(at=at, why=why)


def waiting(asked: WaitingRequirements, found: Findings) -> str:
    """Return why a job waits: the headline in words, and which places come last."""
    headline_in_words = _SENTENCES[found.headline.verdict](asked, found)
    if not found.goes_elsewhere or found.headline.verdict is HeadlineKind.NEVER_DRAWN:
        return headline_in_words
    return f"{headline_in_words.removesuffix('.')}; {found.goes_elsewhere}."


def _never_drawn(_asked: WaitingRequirements, found: Findings) -> str:
    causes = [part.cause for part in found.headline.parts]
    start = "It is never drawn, because" if causes[0].ground is Ground.PRIORITY else "It waits because"
    return f"{start} {_all_of(found.headline)}."


def _no_queues(asked: WaitingRequirements, _found: Findings) -> str:
    return f"It waits because no queue is configured at any site that serves {asked.task_queue.group.vo}."


def _delayed(_asked: WaitingRequirements, found: Findings) -> str:
    return f"It fits {_fitting(found)} and waits because {_all_of(found.headline)}."


def _all_of(headline: Headline) -> str:
    return "; and because ".join(part.cause.words for part in headline.parts)


def _fitting(found: Findings) -> str:
    return f"{found.headline.queues} of {counted(found.queues, 'queue')}"


def _competing(asked: WaitingRequirements, found: Findings) -> str:
    standing, vo = found.standing, asked.task_queue.group.vo
    rank = standing.rank or 1
    higher = counted(rank - 1, "task queue") if rank > 1 else "no task queue"
    # Which of the others fit the same queues is not known here: nothing is promised of what it will get.
    come = f"{'mostly ' if vo.any_segment_fraction else ''}{'comes' if standing.longer == 1 else 'come'}"
    where = f"first where {'it fits' if standing.longer == 1 else 'they fit'} too"
    more = [f"{counted(standing.longer, 'task queue')} of longer jobs {come} {where}"] if standing.longer else []
    first_of_all = (
        f"It fits {_fitting(found)} and waits for a pilot there: {higher} of {vo} "
        f"{'have' if rank > 2 else 'has'} a higher priority, and its own has "
        f"{100 * standing.share:.3g} % of the priorities of its CPU segment"
    )
    return f"{'; '.join([first_of_all, *more, *_pilots(found.pilots)])}."


def _pilots(there: PilotsThere) -> Sequence[str]:
    """Return what is told of the pilots that it waits for; nothing as long as some are running."""
    if there.some_run:
        return []
    if there.coming:
        return [f"{counted(there.coming, 'pilot')} {'is' if there.coming == 1 else 'are'} on the way", *there.told]
    return ["no pilot is there now", *there.told]


def _without_pilots(_asked: WaitingRequirements, found: Findings) -> str:
    why = "; ".join([*_parts(found.headline), *found.pilots.told])
    return f"It fits {_fitting(found)}, but no pilot is there and none is sent at present: {why}."


def _closed(_asked: WaitingRequirements, found: Findings) -> str:
    headline = found.headline
    which = "only queue that it fits takes" if headline.queues == 1 else f"{headline.queues} queues that it fits take"
    return f"It waits because the {which} no jobs at present: {'; '.join(_parts(headline))}."


def _parts(headline: Headline) -> list[str]:
    """Return the causes; those that hold at some of the queues only with how many these are."""
    if headline.is_of_all:
        return [part.cause.words for part in headline.parts]
    told = [f"at {part.queues} of them, {part.cause.words}" for part in headline.parts[:_MOST_PARTS]]
    return told if len(headline.parts) <= _MOST_PARTS else [*told, "and others"]


def _nothing_fits(asked: WaitingRequirements, found: Findings) -> str:
    headline, vo = found.headline, asked.task_queue.group.vo
    names = [part.cause.words for part in headline.parts]
    if headline.is_of_all:
        if "submit_pool" in names and asked.requirements is not None:
            required = asked.requirements.in_words()
            return f"It waits because no queue that serves {vo} provides what it requires: {required}."
        details = ", and it ".join(found.details[name] for name in CONDITIONS if name in names)
        return f"It waits because no queue that serves {vo} fits it: it {details}."
    lacking = [
        f"{part.queues} {'does' if part.queues == 1 else 'do'} not fit because it "
        f"{_unmet(part.cause.words, asked, found)}"
        for part in headline.parts[:_MOST_PARTS]
    ]
    return (
        f"It waits because none of the {headline.queues} queues that serve {vo} meets all that it asks for together: "
        f"{', '.join(lacking)}."
    )


def _unmet(name: str, asked: WaitingRequirements, found: Findings) -> str:
    """Return what the job asks; where it is the queues that ask something of jobs, that too."""
    return found.details[name] if name in {"required_tags", "job_type"} else WORDS[name].asks(asked)


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
