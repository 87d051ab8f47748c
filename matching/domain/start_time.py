"""The time until a waiting job starts, as a range: which jobs are before it, and how often slots become free for them.

No source: the rules of the match are followed on average, with fractions of jobs (a fluid approximation), and compared
with simulated and real loads (``test_start_time.py``).
"""

from dataclasses import dataclass, replace
from math import exp, inf, log, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from matching.domain.turnover import LEAST_ENDED, ObservedRuns, RunTimes, Turnover, mixed
from taskqueues.domain.columns import Mask
from taskqueues.domain.shares import WEIGHT_OF_PRIORITY
from wms.jobs.domain.time_left import TimeRange

#: A range whose upper end is at most this is said whatever its lower end is …
SOON_S: Final = 600.0
#: … and one that is longer if its upper end is at most so many times the lower one.
MOST_RATIO: Final = 3.0
#: A range is not said if so much of it would have to be left out for that, as a ratio of its ends.
_UNKNOWN_RATIO: Final = 6.0
#: Standard deviations of a normal distribution between which eight of ten are, and below which eight of ten are.
_EIGHT_OF_TEN: Final = 1.28
_BELOW_EIGHT_OF_TEN: Final = 0.84
#: Relative deviation of what is not known: jobs and pilots that come, priorities that are changed.
_UNFORESEEN: Final = 0.15
#: The claim takes one of so many oldest jobs of a level.
_OLDEST: Final = 10
#: Parts of the window in which arrivals are counted.
_PARTS: Final = 3
#: Part of the slots that is left by jobs that arrive, at least.
_LEAST_LEFT: Final = 0.05
#: Task queues that are told apart.
_MOST_QUEUES: Final = 200
#: Fraction of a job that counts as none.
_NEARLY_NONE: Final = 1e-6
#: Task queues that become empty one after another, up to which it is followed.
_MOST_STAGES: Final = 60

_WEIGHTS: Final = np.array([WEIGHT_OF_PRIORITY[each] for each in range(len(WEIGHT_OF_PRIORITY))])

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Competition:
    """The task queues of one VO in which jobs wait, and the slots of its pilots, which take them by the rules.

    Arrays are by task queue, unless said otherwise.
    """

    #: Waiting jobs by user priority, shape (queues, 11).
    jobs: NDArray[np.int64]
    #: 0: it is not drawn.
    priority: Floats
    #: CPU segment: of those that fit a slot the highest comes first.
    cpu_time_s: NDArray[np.int64]
    #: Number of the group, from 0.
    group: NDArray[np.int64]
    #: Number, from 0, of those among whom the share of a group is divided equally: an owner, or a group that shares its
    #: jobs.
    entity: NDArray[np.int64]
    #: Slots of each place, and whether they take the jobs, shape (places, queues).
    slots: NDArray[np.int64]
    fits: Mask
    #: Part of the matches that ignore the CPU segments.
    any_segment_fraction: float

    def slots_for(self, row: int) -> int:
        """Return the number of slots that take the jobs of a task queue."""
        return int(self.slots[self.fits[:, row]].sum())

    def turns_until(self, row: int, level: int, starts: float) -> float:
        """Return how often each slot must become free until some jobs start; infinite: never, as others come first.

        Args:
            row: their task queue.
            level: their user priority.
            starts: number of the jobs, > 0.
        """
        levels = _Levels(self)
        own = levels.number(row, level)
        if own is None:
            return inf
        left, turns = levels.jobs.copy(), 0.0
        for _ in range(_MOST_STAGES):
            left[own] = max(left[own], starts)
            rates = levels.rates(left)
            if not rates.any():
                return inf
            taken = rates > 0
            until_empty = float((left[taken] / rates[taken]).min())
            if rates[own] > 0 and starts <= rates[own] * until_empty * (1 + _NEARLY_NONE):
                break
            turns += until_empty
            starts = max(_NEARLY_NONE, starts - float(rates[own]) * until_empty)
            left -= rates * until_empty
            left[left < _NEARLY_NONE] = 0.0
        return turns + starts / float(rates[own]) if rates[own] > 0 else inf


def condensed(competition: Competition, row: int) -> tuple[Competition, int]:
    """Return the competition for the jobs of a task queue with few others, and its row.

    If there are many, those of other owners that the same slots take in the same order are taken for one.
    """
    if len(competition.priority) <= _MOST_QUEUES:
        return competition, row
    # Of its owner, or the very one, or of others.
    kind = np.where(competition.entity == competition.entity[row], 1, 0)
    kind[row] = 2
    key = np.column_stack([kind, competition.cpu_time_s, np.packbits(competition.fits, axis=0).T.astype(np.int64)])
    _, first, merged = np.unique(key, axis=0, return_index=True, return_inverse=True)
    merged = merged.reshape(-1)
    jobs = np.zeros((len(first), competition.jobs.shape[1]), np.int64)
    np.add.at(jobs, merged, competition.jobs)
    numbers = np.arange(len(first))
    # Others share what they have now, whoever of them becomes the first without jobs.
    own = np.where(kind[first] > 0, len(first), numbers)
    return replace(
        competition,
        jobs=jobs,
        priority=np.bincount(merged, weights=competition.priority).astype(np.float64),
        cpu_time_s=competition.cpu_time_s[first],
        group=own,
        entity=own,
        fits=competition.fits[:, first],
    ), int(merged[row])


class _Levels:
    """The user priorities of task queues in which jobs wait; arrays are by level."""

    def __init__(self, competition: Competition) -> None:
        self._competition = competition
        self._row, self._level = np.nonzero(np.where(competition.priority[:, None] > 0, competition.jobs, 0))
        self.jobs = competition.jobs[self._row, self._level].astype(np.float64)
        self._weight = _WEIGHTS[self._level]
        self._entity = competition.entity[self._row]
        self._group = competition.group[self._row]
        self._share = np.bincount(competition.group, weights=competition.priority)
        self._group_of_entity = np.zeros(int(competition.entity.max()) + 1, np.int64)
        self._group_of_entity[competition.entity] = competition.group
        self._fits = competition.fits[:, self._row]
        self._cpu_time_s = np.broadcast_to(competition.cpu_time_s[self._row], self._fits.shape)

    def number(self, row: int, level: int) -> int | None:
        """Return the number of a level; None: no job waits in it, or it is not drawn."""
        numbers = np.flatnonzero((self._row == row) & (self._level == level))
        return int(numbers[0]) if len(numbers) else None

    def rates(self, left: Floats) -> Floats:
        """Return the jobs that start while each slot becomes free once, if so many are *left*."""
        drawn = np.where(self._fits, self._drawn(left), 0.0)
        highest = np.where(drawn > 0, self._cpu_time_s, -1).max(axis=1, keepdims=True)
        of_highest = np.where(self._cpu_time_s == highest, drawn, 0.0)
        of_any = self._competition.any_segment_fraction
        started: Floats = self._competition.slots @ ((1 - of_any) * _parts(of_highest) + of_any * _parts(drawn))
        return started

    def _drawn(self, left: Floats) -> Floats:
        """Return the priorities: the shares of the groups, divided over what is left of their jobs (PIL §2.2)."""
        weights = left * self._weight
        of_entity = np.bincount(self._entity, weights=weights, minlength=len(self._group_of_entity))
        entities = np.bincount(self._group_of_entity[of_entity > 0], minlength=len(self._share))
        part = np.divide(weights, of_entity[self._entity], out=np.zeros(len(left)), where=weights > 0)
        drawn: Floats = part * self._share[self._group] / np.maximum(1, entities[self._group])
        return drawn


def _parts(values: Floats) -> Floats:
    """Return the parts of each row's sum; 0 where that is 0."""
    sums = values.sum(axis=1, keepdims=True)
    parts: Floats = np.divide(values, sums, out=np.zeros(values.shape), where=sums > 0)
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """The facts from which the start of a job is estimated."""

    #: Times that each slot must become free, from ``turns_until``.
    turns: float
    slots: int
    turnover: Turnover
    run_times: RunTimes
    #: Payloads that have ended, from which the run times are known.
    ended: int
    #: Jobs of its task queue and user priority that start until it has, on average, and the standard deviation.
    own: float
    own_deviation: float
    #: Relative variance by the jobs that come and are taken before.
    arriving_variance: float = 0.0


def _range(facts: _Facts) -> TimeRange | None:
    """Return the time until a job starts; None: the range is too wide to be of use."""
    matches, own = facts.turns * facts.slots, facts.own
    variance = (
        _UNFORESEEN**2
        # Of the number of its own among the matches, and of its place among the oldest.
        + max(0.0, 1 - own / matches) / own
        + (facts.own_deviation / own) ** 2
        # Of the ends of so many payloads: those of many slots come at random at first.
        + max(facts.run_times.variation**2, 1 / (1 + facts.turns)) / matches
        + facts.arriving_variance
    )
    deviation = sqrt(log(1 + variance))
    # The mean run time is known from so many.
    of_mean = facts.run_times.variation / sqrt(facts.ended)

    def after_s(deviations: float) -> float:
        times = facts.turns * exp(deviations * deviation)
        return facts.turnover.reached_after_s(times) * exp(deviations * of_mean)

    soon_s = after_s(_BELOW_EIGHT_OF_TEN)
    if soon_s <= SOON_S:
        return TimeRange(0.0, soon_s)
    least_s, most_s = after_s(-_EIGHT_OF_TEN), after_s(_EIGHT_OF_TEN)
    if most_s <= MOST_RATIO * least_s:
        return TimeRange(least_s, most_s)
    if most_s > _UNKNOWN_RATIO * max(least_s, 1.0):
        return None
    middle_s = sqrt(least_s * most_s)
    return TimeRange(middle_s / sqrt(MOST_RATIO), middle_s * sqrt(MOST_RATIO))


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPayloads:
    """The payloads of the slots that take the job: those that run, and those that ended within a window.

    A kind of jobs are those of one owner, group and CPU segment; arrays are by payload.
    """

    runs: ObservedRuns
    #: Number of its kind, from 0; that of the job is 0.
    kind: NDArray[np.int64]
    #: Time since it was submitted, in seconds.
    submitted_s: Floats
    #: Length of the window, > 0.
    window_s: float
    #: Slots that take the job and have none now.
    idle: int
    #: CPU segment, and jobs that wait, by kind.
    cpu_time_s: NDArray[np.int64]
    waiting: NDArray[np.int64]

    def arriving(self, *, any_segment_fraction: float) -> float:
        """Return the jobs for each second that come and are taken at once before those of the job's kind.

        They are those of the kinds whose jobs have come all the time, as submissions of many jobs at once have not: in
        two of the three parts of the window there were at least half as many as on average. If many of a kind wait,
        they only get their share, and are left out.
        """
        came, part_s = self.submitted_s < self.window_s, self.window_s / _PARTS
        counts = np.zeros((_PARTS, len(self.waiting)))
        parts = np.clip(self.submitted_s[came] // part_s, 0, _PARTS - 1).astype(np.int64)
        np.add.at(counts, (parts, self.kind[came]), 1.0)
        mean = counts.mean(axis=0)
        come = (2 * np.median(counts, axis=0) >= mean) & (self.waiting <= mean)
        before = np.where(self.cpu_time_s >= self.cpu_time_s[0], 1.0, any_segment_fraction)
        before[0] = 0.0
        return float((mean * before)[come].sum()) / part_s


def expected_start(
    competition: Competition, seen: SeenPayloads, *, row: int, level: int, ahead: int, of: int
) -> TimeRange | None:
    """Return the time until a job starts; None: it cannot be said.

    Args:
        competition: the jobs that wait, and the slots.
        seen: what the slots that take the job run and have run.
        row: its task queue.
        level: its user priority.
        ahead: jobs of both that are older …
        of: … of so many.
    """
    slots = competition.slots_for(row)
    if not slots or seen.runs.ended < LEAST_ENDED:
        return None
    own, own_deviation = _starts_until(ahead, of=of)
    turns = competition.turns_until(row, level, own)
    if not np.isfinite(turns):
        return None
    running, is_own = ~seen.runs.has_ended, seen.kind == 0
    if turns > 1 and 2 * own > turns * slots and seen.runs.of(is_own).ended < LEAST_ENDED:
        return None  # it waits for its own kind, and how long these run is not known
    times = [_run_times(seen.runs, rows) for rows in (is_own, ~is_own)]
    mean_s = mixed(*times, part=min(1.0, own / (turns * slots))).mean_s
    # While so many start, others come and are taken before them.
    arriving = seen.arriving(any_segment_fraction=competition.any_segment_fraction)
    load = min(1 - _LEAST_LEFT, arriving * times[1].mean_s / slots)
    uncertain = (load / (1 - load)) ** 2
    # As the load is known from so many, the mean of 1 / (1 - load) is larger than that of the mean load.
    known = 1 + uncertain / max(1.0, arriving * seen.window_s)
    turns *= 1 + arriving * mean_s / slots / (1 - load) / known
    coming = mixed(*times, part=min(1.0, own / (turns * slots)))
    turnover = Turnover(
        [(seen.runs.until_s[running & rows], of_rows) for rows, of_rows in zip((is_own, ~is_own), times, strict=True)],
        idle=seen.idle,
        next_runs=coming,
    )
    return _range(
        _Facts(
            turns=turns,
            slots=slots,
            turnover=turnover,
            run_times=coming,
            ended=seen.runs.ended,
            own=own,
            own_deviation=own_deviation,
            # As many as came within the window, and as will come until then.
            arriving_variance=uncertain
            * sum(1 / max(1.0, arriving * time_s) for time_s in (seen.window_s, turnover.reached_after_s(turns))),
        )
    )


def _starts_until(ahead: int, *, of: int) -> tuple[float, float]:
    """Return how many jobs of a level start until one has, itself included, and the standard deviation.

    One of the oldest is taken at random: of a few any may be the next, and one of more waits for ten on average when it
    has become one of the oldest.
    """
    if of <= _OLDEST:
        return (of + 1) / 2, sqrt((of**2 - 1) / 12)
    return max(ahead + 1.0, float(_OLDEST)), sqrt(_OLDEST * (_OLDEST - 1))


def _run_times(runs: ObservedRuns, rows: NDArray[np.bool_]) -> RunTimes:
    """Return the distribution of the run times of some payloads; if too few of them have ended, that of all."""
    some = runs.of(rows)
    return RunTimes.estimated(some if some.ended >= LEAST_ENDED else runs)
