"""The headline of an explanation: those of many causes that best explain why a job waits.

A cause is one reason for which one queue does not take the job: a condition of the match, a ban, a throttle, a limit.
The rule has four steps:

1. Causes of the job itself (its owner is not matched, its group has priority 0) apply everywhere: only they are named.
2. If some queue has no cause against the job, the job competes there; if no pilot comes to any such queue, the
   reasons for that are the headline; if the job itself is delayed, the delay is.
3. If limits of zero on a whole VO, group or place close every queue, and conditions exclude each, too, these limits
   are the headline: no other change would help.
4. Otherwise the queues that meet all conditions are considered; if there are none, all queues are, and only
   conditions count, because nothing else would help. Causes that apply at every one of these queues are named, all of
   them. If there are none, causes are named greedily: each time the one that applies at most of the queues not
   explained yet.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum, auto
from typing import Final


class Ground(IntEnum):
    """The kind of a cause; of causes that explain equally much, the earlier kind is named first."""

    OWNER = auto()
    PRIORITY = auto()
    #: A limit of zero on a whole VO, group or place.
    CLOSING_LIMIT = auto()
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
    #: Of a condition its name; else a fact, or a text that has come from elsewhere.
    what: Hashable


class HeadlineKind(StrEnum):
    """The state of a waiting job."""

    #: The job is never matched anywhere: the causes are the job's own.
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
    #: It fits, but pilots are sent only to another grid middleware, which the job names.
    OTHER_MIDDLEWARE = auto()


@dataclass(frozen=True, slots=True)
class CauseCount:
    """One cause of a headline, and the number of queues at which it applies."""

    cause: Cause
    queues: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The kind of headline, its causes with the best explanation first, and the number of queues considered."""

    verdict: HeadlineKind
    parts: tuple[CauseCount, ...] = ()
    queues: int = 0

    @property
    def is_of_all(self) -> bool:
        """Return whether each cause applies at every queue considered."""
        return all(part.queues == self.queues for part in self.parts)


#: Causes that exclude a job for as long as neither it nor the configuration changes.
_LASTING: Final = frozenset({Ground.OWNER, Ground.PRIORITY})


def headline(
    *, of_job: Sequence[Cause], queues: Sequence[Collection[Cause]], no_pilots: Sequence[Cause | None] = ()
) -> Headline:
    """Return the headline for one waiting job.

    Args:
        of_job: causes of the job itself.
        queues: for each queue that serves the job's VO the causes against the job there; empty: it takes the job.
        no_pilots: for each queue that takes the job why no pilot comes; None: pilots are there, or may come.
    """
    lasting = [cause for cause in of_job if cause.ground in _LASTING]
    if lasting:
        parts = tuple(CauseCount(cause, len(queues)) for cause in sorted(lasting, key=lambda cause: cause.ground))
        return Headline(verdict=HeadlineKind.NEVER_DRAWN, parts=parts, queues=len(queues))
    if not queues:
        return Headline(verdict=HeadlineKind.NO_QUEUES)
    otherwise_fitting = [causes for causes in queues if not _conditions(causes)]
    if not otherwise_fitting and (closing := _closing_all(queues)):
        return _about(HeadlineKind.CLOSED, [closing] * len(queues))
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


def _closing_all(queues: Sequence[Collection[Cause]]) -> tuple[Cause, ...]:
    """Return the limits of zero on a whole that close every queue."""
    return tuple(
        cause
        for cause in queues[0]
        if cause.ground is Ground.CLOSING_LIMIT and all(cause in causes for causes in queues)
    )


def _about(verdict: HeadlineKind, queues: Sequence[Collection[Cause]]) -> Headline:
    return Headline(verdict=verdict, parts=best_explanation(queues), queues=len(queues))


def best_explanation(queues: Sequence[Collection[Cause]]) -> tuple[CauseCount, ...]:
    """Return the causes that explain most: those of every queue, else the fewest that explain all queues together.

    Args:
        queues: the causes at each queue, at least one everywhere.
    """
    distinct = [tuple(dict.fromkeys(causes)) for causes in queues]
    count = Counter(cause for causes in distinct for cause in causes)
    sole = Counter(causes[0] for causes in distinct if len(causes) == 1)
    order = {cause: number for number, cause in enumerate(count)}

    def rank(cause: Cause) -> tuple[int, ...]:
        """Return the sort key of causes that explain equally many queues, best first."""
        return -count[cause], cause.ground is not Ground.CLOSING_LIMIT, -sole[cause], cause.ground, order[cause]

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
