"""The headline of an explanation: which of many causes explains best why a job waits.

A cause is one reason for which one queue does not take the job: a condition of the match, a ban, a throttle, a limit.
The rule has three steps:

1. Causes of the job itself (its owner is not matched, its group has priority 0) hold at every queue: they come alone.
2. If some queue has no cause against the job, the job competes there; when no pilot comes to any such queue, the
   reasons for that are the headline; when the job itself is delayed, the delay is.
3. Otherwise the queues that conditions alone do not exclude are looked at; if there is none, all queues are, and only
   conditions count, because nothing else would help. Causes that hold at every one of these queues are named, all of
   them. If there is none, causes are named greedily: each time the one that holds at most of the queues that are not
   explained yet.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum, auto
from typing import Final


class Ground(IntEnum):
    """The kind of a cause; of causes that explain equally much, the one of the earlier kind is named first."""

    OWNER = auto()
    PRIORITY = auto()
    CONDITION = auto()
    DELAY = auto()
    BAN = auto()
    LIMIT = auto()
    THROTTLE = auto()
    PILOTS = auto()


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason for which a job is not matched; equal ones at several queues are the same cause."""

    ground: Ground
    #: The words of the cause; of a condition, its name.
    words: str


class HeadlineKind(StrEnum):
    """The standing of a waiting job, as its headline tells it."""

    #: The job is never matched, wherever: the causes are the job's own.
    NEVER_DRAWN = auto()
    #: No queue serves the VO.
    NO_QUEUES = auto()
    #: It can be matched at some queue.
    COMPETES = auto()
    #: It can be matched, but not before a time.
    DELAYED = auto()
    #: It fits, but no pilot comes.
    NO_PILOTS = auto()
    #: The queues whose conditions it meets take no jobs at present.
    CLOSED = auto()
    #: No queue meets all conditions.
    MISMATCH = auto()


@dataclass(frozen=True, slots=True)
class CauseCount:
    """One cause of a headline, and at how many of the queues that the headline is about it holds."""

    cause: Cause
    queues: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The verdict, its causes with the best explanation first, and the number of queues that it is about."""

    verdict: HeadlineKind
    parts: tuple[CauseCount, ...] = ()
    queues: int = 0

    @property
    def is_of_all(self) -> bool:
        """Whether each of the causes holds at every queue that the headline is about."""
        return all(part.queues == self.queues for part in self.parts)


#: Causes that exclude a job for as long as neither it nor the configuration changes.
_LASTING: Final = frozenset({Ground.OWNER, Ground.PRIORITY})


def headline(
    *, of_job: Sequence[Cause], queues: Sequence[Collection[Cause]], no_pilots: Sequence[Cause | None] = ()
) -> Headline:
    """Return the headline for one waiting job.

    Args:
        of_job: causes of the job itself.
        queues: for each queue that serves the job's VO the causes against the job there; none: it takes the job.
        no_pilots: for each queue that takes the job why no pilot comes there; None: pilots are there, or may come.
    """
    lasting = [cause for cause in of_job if cause.ground in _LASTING]
    if lasting:
        parts = tuple(CauseCount(cause, len(queues)) for cause in sorted(lasting, key=lambda cause: cause.ground))
        return Headline(verdict=HeadlineKind.NEVER_DRAWN, parts=parts, queues=len(queues))
    if not queues:
        return Headline(verdict=HeadlineKind.NO_QUEUES)
    otherwise_fitting = [causes for causes in queues if not _conditions(causes)]
    if not otherwise_fitting:
        return _about(HeadlineKind.MISMATCH, [_conditions(causes) for causes in queues])
    return _of_fitting(tuple(of_job), otherwise_fitting, no_pilots=no_pilots)


def _of_fitting(
    delays: tuple[Cause, ...], queues: Sequence[Collection[Cause]], *, no_pilots: Sequence[Cause | None]
) -> Headline:
    taking = sum(not causes for causes in queues)
    if not taking:
        return _about(HeadlineKind.CLOSED, [(*delays, *causes) for causes in queues])
    if delays:
        return _about(HeadlineKind.DELAYED, [delays] * taking)
    keeping_pilots_away = [cause for cause in no_pilots if cause is not None]
    if keeping_pilots_away and len(keeping_pilots_away) == len(no_pilots):
        return _about(HeadlineKind.NO_PILOTS, [(cause,) for cause in keeping_pilots_away])
    return Headline(verdict=HeadlineKind.COMPETES, queues=taking)


def _conditions(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    return tuple(cause for cause in causes if cause.ground is Ground.CONDITION)


def _about(verdict: HeadlineKind, queues: Sequence[Collection[Cause]]) -> Headline:
    return Headline(verdict=verdict, parts=best_explanation(queues), queues=len(queues))


def best_explanation(queues: Sequence[Collection[Cause]]) -> tuple[CauseCount, ...]:
    """Return the causes that explain most: those of every queue, else the fewest that together explain all.

    Args:
        queues: the causes at each queue, at least one everywhere.
    """
    distinct = [tuple(dict.fromkeys(causes)) for causes in queues]
    count = Counter(cause for causes in distinct for cause in causes)
    sole = Counter(causes[0] for causes in distinct if len(causes) == 1)
    order = {cause: number for number, cause in enumerate(count)}

    def rank(cause: Cause) -> tuple[int, int, int, int]:
        """Return what sorts the better of two causes that explain equally many queues first."""
        return -count[cause], -sole[cause], cause.ground, order[cause]

    of_all = [cause for cause in count if count[cause] == len(queues)]
    if of_all:
        return tuple(CauseCount(cause, count[cause]) for cause in sorted(of_all, key=rank))
    parts = []
    unexplained = Counter(distinct)
    while unexplained:
        explains: Counter[Cause] = Counter()
        for causes, number in unexplained.items():
            explains.update(dict.fromkeys(causes, number))
        best = min(explains, key=lambda cause: (-explains[cause], *rank(cause)))
        parts.append(CauseCount(best, count[best]))
        unexplained = Counter({causes: number for causes, number in unexplained.items() if best not in causes})
    return tuple(parts)
