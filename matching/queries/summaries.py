"""Why a job waits, or what it does instead, in one sentence that a physicist understands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from matching.queries.pilots_there import PilotsThere
from matching.queries.wording import Asked, counted
from wms.accounts.models import VO
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a task queue stands among those of its VO in which jobs wait."""

    #: 1: none has a higher priority.
    rank: int
    priority: float
    #: Its part of the priorities of its CPU segment, 0 to 1.
    share: float
    #: How many that can be drawn have a higher CPU segment.
    longer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was found out about a task queue and the queues that serve its VO."""

    queues: int
    #: Of these: they would be given its jobs.
    fitting: int
    #: Why each of those is closed that would fit were it open.
    closed: Sequence[str]
    #: {condition that no queue meets: what it compares}, in their order.
    never_met: Mapping[str, str]
    standing: Standing
    #: At the queues that fit, if there are any.
    pilots: PilotsThere


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


def waiting(asked: Asked, found: Findings) -> str:
    """Return why a job waits: the first of the reasons that would do by itself."""
    owner, group = asked.task_queue.owner, asked.task_queue.group
    if not owner.is_active:
        return f"It waits because its owner {owner} is suspended: no pilot gets the jobs of a suspended user."
    if found.standing.priority <= 0:
        return f"It is never drawn, because its group {group} has priority 0; a manager of {group.vo} can change that."
    if found.fitting and found.pilots.kept_back:
        return _without_pilots(found)
    if found.fitting:
        return _competing(found, vo=group.vo)
    if found.closed:
        return _closed(found.closed)
    return _nothing_fits(asked, found, vo=group.vo)


def _competing(found: Findings, *, vo: VO) -> str:
    standing = found.standing
    higher = counted(standing.rank - 1, "task queue") if standing.rank > 1 else "no task queue"
    first = "mostly served first" if vo.any_segment_fraction else "served first"
    longer = counted(standing.longer, "task queue")
    more = [f"{longer} of longer jobs {'is' if standing.longer == 1 else 'are'} {first}"] if standing.longer else []
    first_of_all = (
        f"It fits {found.fitting} of {counted(found.queues, 'queue')} and waits for a pilot there: {higher} of {vo} "
        f"{'have' if standing.rank > 2 else 'has'} a higher priority, and of what jobs of its CPU segment get, its "
        f"task queue is expected to get {100 * standing.share:.3g} %"
    )
    return f"{'; '.join([first_of_all, *more, *_pilots(found.pilots)])}."


def _pilots(there: PilotsThere) -> Sequence[str]:
    """Return what is told of the pilots that it waits for; nothing as long as some are running."""
    if there.some_run:
        return []
    if there.coming:
        return [f"{counted(there.coming, 'pilot')} {'is' if there.coming == 1 else 'are'} on the way", *there.told]
    return ["no pilot is there now", *there.told]


def _without_pilots(found: Findings) -> str:
    fitting = f"It fits {found.fitting} of {counted(found.queues, 'queue')}"
    why = "; ".join([found.pilots.kept_back, *found.pilots.told])
    return f"{fitting}, but no pilot is there and none is sent at present: {why}."


def _closed(why: Sequence[str]) -> str:
    if len(why) == 1:
        return f"It waits because the only queue that it fits takes no jobs at present: {why[0]}."
    return f"It waits because the {len(why)} queues that it fits take no jobs at present; of the first, {why[0]}."


def _nothing_fits(asked: Asked, found: Findings, *, vo: VO) -> str:
    if not found.queues:
        return f"It waits because no queue is configured at any site that serves {vo}."
    if "submit_pool" in found.never_met and asked.requirements is not None:
        required = asked.requirements.in_words()
        return f"It waits because no queue that serves {vo} provides what it requires: {required}."
    if found.never_met:
        return f"It waits because no queue that serves {vo} fits it: it {', and it '.join(found.never_met.values())}."
    return f"It waits because none of the {found.queues} queues that serve {vo} meets all that it asks for together."
