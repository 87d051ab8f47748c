"""The turnover of slots: how often, on average, the slots of pilots become free until a time from now.

A slot becomes free when its present job ends, is taken by the next one at once, and so on: a renewal process. The
distribution of the run times is that of the jobs that ended within a window and of those that run now, by the
product-limit estimate (Kaplan and Meier 1958): a running job counts as one that runs longer than it has run, and a job
that was running when the window began counts only from then on. So the short jobs of a young workload, which end first,
do not make all of them short.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

#: Jobs that must have ended before anything is said.
LEAST_ENDED: Final = 3
#: Steps of the grid of times, in each mean run time, and of the whole grid, after which slots become free evenly.
_STEPS_OF_MEAN: Final = 32
_STEPS: Final = 8 * _STEPS_OF_MEAN
#: Quantiles by which the run times beyond the longest that ended are represented.
_TAIL: Final = -np.log(1 - (np.arange(8) + 0.5) / 8)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRuns:
    """Observed payloads, all in seconds: arrays of the same length."""

    #: Run time at which each was observed first: 0, or what it had run when the window began.
    from_s: Floats
    #: Run time at its end, or until now.
    until_s: Floats
    has_ended: NDArray[np.bool_]

    @property
    def ended(self) -> int:
        """Return how many have ended."""
        return int(self.has_ended.sum())

    def of(self, rows: NDArray[np.bool_]) -> "ObservedRuns":
        """Return some of them."""
        return ObservedRuns(from_s=self.from_s[rows], until_s=self.until_s[rows], has_ended=self.has_ended[rows])


@dataclass(frozen=True)
class RunTimes:
    """A distribution of run times."""

    #: Ascending, seconds, > 0.
    values_s: Floats
    #: Their probabilities; the sum is 1.
    parts: Floats

    @classmethod
    def estimated(cls, runs: ObservedRuns) -> "RunTimes":
        """Return the product-limit estimate from *runs*, of which some have ended."""
        ended_s, ends = np.unique(np.maximum(runs.until_s[runs.has_ended], 1.0), return_counts=True)
        begun = np.searchsorted(np.sort(runs.from_s), ended_s, side="left")
        gone = np.searchsorted(np.sort(np.maximum(runs.until_s, 1.0)), ended_s, side="left")
        at_risk = np.maximum(begun - gone, ends)
        survival = np.cumprod(1 - ends / at_risk)
        parts = -np.diff(survival, prepend=1.0)
        left = float(survival[-1])
        if left < 1e-9:
            return cls(ended_s, parts / parts.sum())
        longest_s = float(runs.until_s.max())
        excess_s = min(longest_s, float((runs.until_s - runs.from_s).sum()) / runs.ended)
        tail_s = longest_s + excess_s * _TAIL
        return cls(np.append(ended_s, tail_s), np.append(parts, np.full(len(_TAIL), left / len(_TAIL))))

    @cached_property
    def mean_s(self) -> float:
        """Return the mean."""
        return float(self.values_s @ self.parts)

    @cached_property
    def variation(self) -> float:
        """Return the coefficient of variation: the standard deviation in units of the mean."""
        variance = float((self.values_s - self.mean_s) ** 2 @ self.parts)
        return float(np.sqrt(max(0.0, variance))) / self.mean_s


def mixed(first: RunTimes, second: RunTimes, *, part: float) -> RunTimes:
    """Return the distribution of run times that are, with the probability *part*, of the first one."""
    values_s = np.append(first.values_s, second.values_s)
    order = np.argsort(values_s, kind="stable")
    return RunTimes(values_s[order], np.append(part * first.parts, (1 - part) * second.parts)[order])


class Turnover:
    """The expected number of times that one slot becomes free, by the time from now."""

    def __init__(self, slots: Sequence[tuple[Floats, RunTimes]], *, idle: int, next_runs: RunTimes) -> None:
        """Compute it.

        Args:
            slots: the times that running jobs have run, with the distribution of their run times.
            idle: slots without a job: they are free now.
            next_runs: the run times of the jobs that come.
        """
        self._step_s = next_runs.mean_s / _STEPS_OF_MEAN
        first, number = np.zeros(_STEPS), idle + sum(len(elapsed_s) for elapsed_s, _ in slots)
        first[0] = idle
        for elapsed_s, run_times in slots:
            first += self._ends(elapsed_s, run_times)
        again = self._renewals(self._binned(next_runs.values_s, next_runs.parts))
        first /= max(1, number)
        #: At the end of each step.
        self._times = np.cumsum(first + np.convolve(first, again)[:_STEPS])
        self._mean_s = next_runs.mean_s

    def reached_after_s(self, times: float) -> float:
        """Return the time in seconds until each slot has become free so many times on average."""
        if times >= self._times[-1]:
            return _STEPS * self._step_s + (times - float(self._times[-1])) * self._mean_s
        step = int(np.searchsorted(self._times, times, side="left"))
        before = float(self._times[step - 1]) if step else 0.0
        within = (times - before) / max(float(self._times[step]) - before, 1e-12)
        return (step + min(1.0, within)) * self._step_s

    def _binned(self, values_s: Floats, parts: Floats) -> Floats:
        steps = np.clip(np.rint(values_s / self._step_s).astype(np.int64), 1, _STEPS)
        return np.bincount(steps, weights=parts, minlength=_STEPS + 1).astype(np.float64)

    def _ends(self, elapsed_s: Floats, run_times: RunTimes) -> Floats:
        """Return how many of the running jobs are expected to end in each step from now."""
        parts = self._binned(run_times.values_s, run_times.parts)
        left = np.append(np.cumsum(parts[::-1])[::-1], 0.0)
        ends = np.zeros(_STEPS)
        steps, jobs = np.unique(np.minimum(elapsed_s / self._step_s, _STEPS).astype(np.int64), return_counts=True)
        for step, number in zip(steps.tolist(), jobs.tolist(), strict=True):
            if left[step + 1] > 1e-6:
                ends[: _STEPS - step] += number * parts[step + 1 :] / left[step + 1]
            else:  # it runs longer than any has: as long again, at most, evenly
                span = min(max(1, step), _STEPS)
                ends[:span] += number / span
        return ends

    def _renewals(self, parts: Floats) -> Floats:
        """Return the probability that a slot that was taken now becomes free in each step, for whichever time."""
        renewals = np.zeros(_STEPS)
        for step in range(1, _STEPS):
            renewals[step] = parts[step] + float(parts[1:step] @ renewals[step - 1 : 0 : -1])
        return renewals
