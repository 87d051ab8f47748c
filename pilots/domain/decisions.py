"""Decisions of a director cycle by batch queue: pilots wanted and sent there, and why none was sent; pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pilots.domain.allocation import Cap, Numbers, OpenQueues
from taskqueues.domain.columns import Mask


class NoPilots(StrEnum):
    """Why a cycle sent no pilot to a batch queue, in the order in which the reasons are looked for."""

    NO_JOBS = "no_jobs"
    #: Pilots are on their way for all jobs that fit.
    COVERED = "covered"
    NO_DIRECTOR = "no_director"
    #: The CE has not answered lately, or is left alone for a while.
    CE_AWAY = "ce_away"
    #: Pilots did not start there in time.
    STALLED = "stalled"
    #: The batch queue has as many pilots, or as many that wait, as it may have.
    FULL = "full"
    #: The CE says that it takes no more.
    CE_FULL = "ce_full"
    #: The throttle of the site or a limit leaves no match for any of the jobs.
    THROTTLED = "throttled"
    #: The last pilots there found no job.
    EMPTY = "empty"
    #: Other batch queues had more room, or the directors had sent as many as they may in a cycle.
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDecision:
    """The decision of a cycle about one batch queue."""

    #: Position of the batch queue.
    place: int
    #: Jobs that fit there and for which no pilot was on its way.
    wanted: int
    sent: int
    #: None: pilots were sent.
    why_none: NoPilots | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleFacts:
    """What a cycle found before it sent pilots.

    Args:
        places: the batch queues.
        lacking: by task queue, jobs for which no pilot is on its way.
        waiting_since: by task queue, as of ``allocate``.
        caps: what throttles and limits leave.
        is_directed: by batch queue, whether a director sends pilots to its site.
        ce_answers: by batch queue, whether its CE takes pilots at all now.
        is_stalled: by batch queue, whether it is paused, because pilots did not start there.
    """

    places: OpenQueues
    lacking: Numbers
    waiting_since: np.ndarray[tuple[int], np.dtype[np.float64]]
    caps: Sequence[Cap]
    is_directed: Mask
    ce_answers: Mask
    is_stalled: Mask


def decisions_of(facts: CycleFacts, *, sent: Sequence[int]) -> Iterator[QueueDecision]:
    """Yield the decision about each batch queue; *sent* is the number of pilots by batch queue."""
    lack = np.flatnonzero(facts.lacking > 0)
    lacking = facts.lacking[lack]
    for place, number in enumerate(sent):
        serves = facts.places.serves[place]
        fitting = lack[serves[lack]]
        why_none = None if number else _why_none(facts, place, fitting=fitting)
        yield QueueDecision(place=place, wanted=int(lacking[serves[lack]].sum()), sent=number, why_none=why_none)


def _why_none(facts: CycleFacts, place: int, *, fitting: np.ndarray[tuple[int], np.dtype[np.intp]]) -> NoPilots:
    places = facts.places
    if not len(fitting):
        return NoPilots.COVERED if places.serves[place].any() else NoPilots.NO_JOBS
    throttle = places.throttle[place]
    checks = (
        (NoPilots.NO_DIRECTOR, not facts.is_directed[place]),
        (NoPilots.CE_AWAY, not facts.ce_answers[place]),
        (NoPilots.STALLED, facts.is_stalled[place]),
        (NoPilots.FULL, places.room[place] <= 0),
        (NoPilots.CE_FULL, places.slots[places.ce[place]] <= 0),
        (NoPilots.THROTTLED, _is_capped(facts.caps, place, fitting=fitting)),
        (NoPilots.EMPTY, throttle.sent_fraction < 1 and (facts.waiting_since[fitting] < throttle.seen_at).all()),
    )
    return next((reason for reason, is_so in checks if is_so), NoPilots.ELSEWHERE)


def _is_capped(caps: Sequence[Cap], place: int, *, fitting: np.ndarray[tuple[int], np.dtype[np.intp]]) -> bool:
    """Return whether for each of the task queues some cap leaves nothing at the batch queue."""
    capped = np.zeros(len(fitting), dtype=np.bool_)
    for cap in caps:
        if cap.room <= 0 and cap.places[place]:
            capped |= cap.task_queues[fitting]
    return bool(capped.all())
