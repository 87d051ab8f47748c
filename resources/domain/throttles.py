"""How a site limits the flow of jobs to it: SAM's policies, and how many matches each leaves (DESIGN §3.6).

A site advertises what goes on there. CurMatches starts at what the policy makes of that, grows by one with each match,
and nothing is subtracted until the next advertisement; the site takes a match only while its policy's condition is true
of CurMatches before it. So what a policy says of one advertisement is one number: the matches until it is closed.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from resources.domain.classad import ClassAd, ClassAdError, classad_of, is_true, parse_classad, parse_expression
from resources.domain.words import ThrottlePolicy

#: By the names under which SAM advertises them; whole numbers, at least 0.
Numbers = Mapping[str, int]

CUR_MATCHES: Final = "CurMatches"
SUBMITTING: Final = "CurrentSubmittingJobs"
GATHERING: Final = "CurrentGatheringOutputJobs"
CURRENT: Final = "CurrentJobs"
MAX_MATCHES: Final = "MaxMatches"
MAX_SUBMITTING: Final = "MaxSubmittingJobs"
MAX_SUBMITTING_AND_GATHERING: Final = "MaxSubmittingAndOutputGatheringJobs"
MAX_JOBS: Final = "MaxJobs"
REQUIREMENTS: Final = "Requirements"
#: By SAM's names: as our settings and requests are called.
FIELD_OF_MAXIMUM: Final[Mapping[str, str]] = MappingProxyType(
    {
        MAX_MATCHES: "max_matches",
        MAX_SUBMITTING: "max_submitting_jobs",
        MAX_SUBMITTING_AND_GATHERING: "max_submitting_and_output_gathering_jobs",
        MAX_JOBS: "max_jobs",
    }
)
MAXIMA: Final = tuple(FIELD_OF_MAXIMUM)
#: What a site may advertise under these names is a number.
NUMBERS: Final = (CUR_MATCHES, SUBMITTING, GATHERING, CURRENT, *MAXIMA)
#: An expression that stays true for so many matches is asked again after them.
MOST_TRIED: Final = 1000
#: Of one evaluation, some milliseconds at worst: pilots wait for it.
MAX_STEPS: Final = 5000
#: So long a site's expression is asked about jobs; then the site counts as closed, whose own expression is so slow.
PATIENCE_S: Final = 0.5

NO_JOB: Final = classad_of({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """The policy of a site, and what is known of the site at one moment."""

    policy: ThrottlePolicy
    #: The site's configured maxima; of those advertised too the smaller ones.
    maxima: Numbers
    #: Of the policy ``custom``: a ClassAd expression.
    requirements: str = ""
    #: What was advertised, or counted; what is missing is undefined.
    advertised: Numbers
    #: The advertisement in ClassAd form; empty: it came as numbers.
    classad: str = ""

    def maximum(self, name: str) -> int | None:
        """Return the smaller of what is configured and what is advertised; None: neither is."""
        known = [numbers[name] for numbers in (self.maxima, self.advertised) if name in numbers]
        return min(known, default=None)

    @property
    def start(self) -> int | None:
        """CurMatches right after the advertisement; None: it is undefined, and nothing is accepted."""
        match self.policy:
            case ThrottlePolicy.LEVEL0:
                return self._sum(SUBMITTING)
            case ThrottlePolicy.LEVEL1:
                return self._sum(SUBMITTING, GATHERING)
            case ThrottlePolicy.LEVEL2:
                return self._sum(CURRENT)
            case ThrottlePolicy.CUSTOM:
                return self.advertised.get(CUR_MATCHES)
        return 0

    @property
    def room(self) -> int | None:
        """The matches from the advertisement until it is closed; None: that depends on the job (``custom``)."""
        if self.policy is ThrottlePolicy.CUSTOM:
            return None
        bounds = [self._left(maximum, *counted) for maximum, counted in _BOUNDS[self.policy]]
        return max(0, min(bounds))

    @property
    def missing(self) -> tuple[str, ...]:
        """What is neither configured nor advertised, though the policy asks for it; with it missing it is closed."""
        if self.policy is ThrottlePolicy.CUSTOM:
            return () if CUR_MATCHES in self.advertised else (CUR_MATCHES,)
        bounds = _BOUNDS[self.policy]
        maxima = [maximum for maximum, _ in bounds if self.maximum(maximum) is None]
        numbers = [name for _, counted in bounds for name in counted if name not in self.advertised]
        return (*maxima, *numbers)

    @property
    def asks_of_the_job(self) -> tuple[str, ...]:
        """The attributes of a job, in lower case, on which it may depend whether a match is accepted."""
        return _names_in_target(self.requirements, self.classad) if self.policy is ThrottlePolicy.CUSTOM else ()

    def kind_of(self, job: ClassAd) -> Hashable:
        """Return what of a job it may look at: of jobs of one kind it says the same."""
        entries = job.record.entries
        return tuple([entries[name].node if name in entries else None for name in self.asks_of_the_job])

    def accepts(self, *, matched: int, job: ClassAd = NO_JOB) -> bool:
        """Return whether one more match is accepted.

        Args:
            matched: matches since the measurement.
            job: TARGET of a custom expression.
        """
        if self.room is not None:
            return matched < self.room
        if self.start is None:
            return False
        try:
            my = self._as_classad(cur_matches=self.start + matched)
            # Of a site that advertises Requirements too, as SAM's do, both must be TRUE.
            asked = [_expression(self.requirements), my.expression(REQUIREMENTS)]
        except ClassAdError:
            return False
        expressions = [each for each in asked if each is not None]
        return all(is_true(each, my=my, target=job, max_steps=MAX_STEPS) for each in expressions)

    def refused(self, jobs: Mapping[int, ClassAd], *, matched: int, is_patient: Callable[[], bool]) -> tuple[int, ...]:
        """Return the keys of the jobs of which no match is accepted; jobs of one kind are asked about once.

        Args:
            jobs: as TARGET of a custom expression, by any key.
            matched: matches since the measurement.
            is_patient: whether to go on with what takes so long; else what is left is refused, as in a match.
        """
        kind_of = {key: self.kind_of(job) for key, job in jobs.items()}
        examples = {kind_of[key]: job for key, job in jobs.items()}
        accepted = {kind: is_patient() and self.accepts(matched=matched, job=job) for kind, job in examples.items()}
        return tuple(key for key in jobs if not accepted[kind_of[key]])

    def left(self, *, matched: int, job: ClassAd = NO_JOB, most_tried: int = MOST_TRIED) -> int:
        """Return how many more matches are accepted, of jobs like *job*; at most *most_tried* of an expression."""
        if self.room is not None:
            return max(0, self.room - matched)
        for tried in range(most_tried):
            if not self.accepts(matched=matched + tried, job=job):
                return tried
        return most_tried

    def _sum(self, *names: str) -> int | None:
        if any(name not in self.advertised for name in names):
            return None
        return sum(self.advertised[name] for name in names)

    def _left(self, maximum: str, *counted: str) -> int:
        most, now = self.maximum(maximum), self._sum(*counted)
        return 0 if most is None or now is None else most - now

    def _as_classad(self, *, cur_matches: int) -> ClassAd:
        maxima = {name: most for name in MAXIMA if (most := self.maximum(name)) is not None}
        numbers = classad_of({**self.advertised, **maxima, CUR_MATCHES: cur_matches})
        return _parsed(self.classad).updated(numbers)


#: By policy: each maximum with the numbers that count towards it before the first match.
_BOUNDS: Final[Mapping[ThrottlePolicy, tuple[tuple[str, tuple[str, ...]], ...]]] = {
    ThrottlePolicy.MATCHES: ((MAX_MATCHES, ()),),
    ThrottlePolicy.LEVEL0: ((MAX_SUBMITTING, (SUBMITTING,)),),
    ThrottlePolicy.LEVEL1: ((MAX_SUBMITTING_AND_GATHERING, (SUBMITTING, GATHERING)),),
    ThrottlePolicy.LEVEL2: (
        (MAX_JOBS, (CURRENT,)),
        (MAX_SUBMITTING_AND_GATHERING, (SUBMITTING, GATHERING)),
    ),
}


def needed_by(policy: ThrottlePolicy, *, expression: str) -> tuple[str, ...]:
    """Return the settings that a policy cannot be configured without.

    Args:
        expression: how the setting of the site's own expression is called.
    """
    if policy is ThrottlePolicy.CUSTOM:
        return (expression,)
    return tuple(FIELD_OF_MAXIMUM[maximum] for maximum, _ in _BOUNDS.get(policy, ()))


# The same few texts are asked about again and again.
_parsed = lru_cache(maxsize=1000)(parse_classad)
_expression = lru_cache(maxsize=1000)(parse_expression)


@lru_cache(maxsize=1000)
def _names_in_target(requirements: str, classad: str) -> tuple[str, ...]:
    try:
        names = _expression(requirements).names_in_target | _parsed(classad).whole.names_in_target
    except ClassAdError:
        return ()  # closed, whatever the job is
    return tuple(sorted(names))
