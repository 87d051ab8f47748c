"""The time until all jobs of a submission have ended, as a range, from those that have run and those that run now."""

from math import log, sqrt
from typing import Final, NamedTuple

#: Ended payloads from which on a time is said.
LEAST_ENDED: Final = 3
#: A range reaches from the estimate divided by a factor to it multiplied by this factor; so that the upper end is at
#: most three times the lower one, this is the largest factor …
_LARGEST_FACTOR: Final = 1.72
#: … and this the smallest: nothing is known better.
_SMALLEST_FACTOR: Final = 1.3
#: Part of the influence of the payloads that still run on the estimated time of one, see ``time_left``.
_OF_RUNNING: Final = 0.3
#: Growth of the factor with the uncertainty.
_OF_UNCERTAINTY: Final = 1.5
#: Normal deviations that count.
_OF_DEVIATION: Final = 0.75
#: Part of the time of one payload that the last of all takes at least.
_LEAST_TAIL: Final = 0.3


class PayloadProgress(NamedTuple):
    """The payloads of a submission; times in seconds."""

    #: Jobs that are yet to start.
    waiting: int
    running: int
    #: Time for which those that run have run, all together, and that of the last one that started.
    elapsed_s: float
    least_elapsed_s: float
    #: Payloads that have ended in the last hour, the mean of their run times and its standard deviation.
    ended: int
    mean_s: float
    deviation_s: float


class TimeRange(NamedTuple):
    """A time in seconds that is between these two, in eight of ten cases."""

    least_s: float
    most_s: float


def time_left(progress: PayloadProgress) -> TimeRange | None:
    """Return the time until the last payload ends; None: it cannot be said, as too few have ended or none runs.

    As many run at a time as now. The waiting ones start one after another as those before them end; the last of those
    that run then ends later than the mean, as the largest of as many normal deviations. The first payloads to end are
    the short ones, so the time of one is between their mean, and all time that was run divided by the number that
    ended. The range is wider the fewer have ended or are left. (No source: fitted to simulated submissions,
    ``test_time_left.py``; it is wrong while the number of slots grows or falls.)
    """
    if progress.ended < LEAST_ENDED or not progress.running:
        return None
    all_run_s = (progress.mean_s * progress.ended + progress.elapsed_s) / progress.ended
    one_s = progress.mean_s ** (1 - _OF_RUNNING) * all_run_s**_OF_RUNNING
    tail_s = one_s + _OF_DEVIATION * progress.deviation_s * sqrt(2 * log(progress.running))
    if progress.waiting:
        left_s = progress.waiting * one_s / progress.running + tail_s
    else:
        left_s = max(tail_s - progress.least_elapsed_s, _LEAST_TAIL * one_s)
    uncertainty = sqrt(1 / progress.ended + 1 / (progress.waiting + progress.running))
    factor = min(_LARGEST_FACTOR, _SMALLEST_FACTOR + _OF_UNCERTAINTY * uncertainty)
    return TimeRange(left_s / factor, left_s * factor)
