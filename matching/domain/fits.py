"""The queues that described jobs fit, before they are submitted: the result, and its sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from wms.kernel.names import counted, listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """One condition that excludes queues."""

    #: Name of the condition of the match, MIDDLEWARE, or CLOSED.
    condition: str
    queues: int
    #: Sites of which every queue fails the condition, sorted.
    sites: Sequence[str]
    #: Its requirement, and the offers of the queues; empty: it is none of the match.
    detail: str
    #: The same, of every condition.
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The queues that a described job fits by the present configuration; throttles and limits are left out."""

    #: Queues at the sites that serve the VO.
    queues: int
    #: Those that would take the job.
    fitting: int
    #: Those that it fits, but that take no jobs at present.
    closed: int
    #: Sites with queues that would take the job, sorted.
    sites: Sequence[str]
    exclusions: Sequence[Exclusion]
    #: Why no pilot gets the job anywhere; empty: some may.
    never: str


class FitOutcome(Enum):
    """The result of the comparison of jobs with the queues; those that need attention first."""

    NONE = auto()
    CLOSED = auto()
    CHECKING = auto()
    FITS = auto()

    @classmethod
    def of(cls, fit: Fit | None) -> "FitOutcome":
        """Return the outcome; None: no site where the jobs may run holds their input data."""
        if fit is None:
            return cls.CHECKING
        if fit.fitting:
            return cls.FITS
        return cls.CLOSED if fit.closed else cls.NONE

    def verb(self, jobs: int) -> str:
        """Return the verb for so many jobs, such as "fit no queue"."""
        return _VERBS[self][jobs != 1]


#: For one job, and for several.
_VERBS: Final[Mapping[FitOutcome, tuple[str, str]]] = {
    FitOutcome.NONE: ("fits no queue", "fit no queue"),
    FitOutcome.CLOSED: (
        "fits only queues that accept no jobs at present",
        "fit only queues that accept no jobs at present",
    ),
    FitOutcome.CHECKING: (
        "would be Checking, because no site where it may run holds its input data",
        "would be Checking, because no site where they may run holds their input data",
    ),
    FitOutcome.FITS: ("fits a queue", "fit a queue"),
}


def fit_in_words(fit: Fit | None, *, jobs: int) -> str:
    """Return which queues jobs fit, as the end of a sentence such as "fit 2 of 3 queues, at LCG.CERN.ch"."""
    outcome = FitOutcome.of(fit)
    if fit is None:
        return outcome.verb(jobs)
    verb, queues = "fits" if jobs == 1 else "fit", counted(fit.queues, "queue")
    if outcome is FitOutcome.FITS:
        return f"{verb} {fit.fitting} of {queues}, at {listed(fit.sites)}"
    if outcome is FitOutcome.CLOSED:
        return f"{verb} {fit.closed} of {queues}, but none of these accepts jobs at present"
    return f"{verb} none of {queues}"
