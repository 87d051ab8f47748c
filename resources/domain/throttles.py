"""Throttles of sites: SAM's policies, and the matches that each leaves (docs/architecture.md, Throttles and limits).

A site advertises its load. CurMatches starts at a value that the policy computes from it and grows by one with each
match, without decrease until the next advertisement; the site accepts a match while the policy's condition is true of
the CurMatches before it. So for one advertisement, a policy comes down to the number of matches until it closes.

An advertisement may have ``Requirements`` of its own. "If either requirement conditions evaluate to FALSE …, the match
fails" (SAM §2), so under every policy they must be TRUE too. A site may have several gateways, each with its own
advertisements (ADR 30): the policy applies to the sums of their numbers, and each advertisement to itself.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Final

from resources.domain.classad import (
    ERROR,
    UNDEFINED,
    ClassAd,
    ClassAdError,
    Expression,
    Reach,
    Value,
    are_true,
    classad_of,
    evaluate,
    may_be_true,
    parse_classad,
    parse_expression,
)
from resources.domain.enums import ThrottlePolicy
from wms.kernel.names import did_you_mean
from wms.wire.amounts import AMOUNTS

#: {name in SAM's advertisements: whole number, at least 0}.
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
#: {SAM's name: name of the setting and of the request field}.
FIELD_OF_MAXIMUM: Final[Mapping[str, str]] = MappingProxyType(
    {
        MAX_MATCHES: "max_matches",
        MAX_SUBMITTING: "max_submitting_jobs",
        MAX_SUBMITTING_AND_GATHERING: "max_submitting_and_output_gathering_jobs",
        MAX_JOBS: "max_jobs",
    }
)
MAXIMA: Final = tuple(FIELD_OF_MAXIMUM)
#: Advertised attributes that are numbers.
NUMBERS: Final = (CUR_MATCHES, SUBMITTING, GATHERING, CURRENT, *MAXIMA)
#: Matches for which an expression is evaluated in advance; after them it is evaluated again.
MOST_TRIED: Final = 1000
#: Steps for the expressions of a site about one job, some milliseconds at worst: pilots wait for it.
MAX_STEPS: Final = 5000
#: Seconds for evaluating a site's expression on many jobs; after them the site counts as closed.
PATIENCE_S: Final = 0.5

NO_JOB: Final = classad_of({})
#: The attributes of TARGET, the job; all others are undefined (taskqueues.services.classads).
JOB_ATTRIBUTES: Final = (
    *("Owner", "OwnerGroup", "VO", "Setup", "CPUTime", "JobType", "Site", "BannedSites", "GridCE", "Platform"),
    *("SubmitPools", "PilotTypes", "Tags", "Software", "Container"),
    *(amount.jdl[0] for amount in AMOUNTS),
)
_UNKNOWN: Final = frozenset(name.lower() for name in JOB_ATTRIBUTES)
_CONSTANTS: Final = frozenset(name.lower() for name in NUMBERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayAdvertisement:
    """The last advertisement of one gateway, or the server's own count."""

    #: Name of the gateway; empty: it has none.
    gateway: str = ""
    numbers: Numbers
    #: Empty: it came as numbers.
    classad: str = ""


def sum_of(ads: Iterable[GatewayAdvertisement]) -> dict[str, int]:
    """Return the numbers of a site: the sums over its gateways, for the names that all of them advertise."""
    numbers = [ad.numbers for ad in ads]
    names = [name for name in NUMBERS if numbers and all(name in of_gateway for of_gateway in numbers)]
    return {name: sum(of_gateway[name] for of_gateway in numbers) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleCondition:
    """An expression that must be TRUE for a match."""

    #: None: the configured or advertised text is not an expression.
    expression: Expression | None
    #: MY of the expression, for the next match.
    my: ClassAd
    reach: Reach
    #: Whether the site advertised it; else it is configured.
    is_advertised: bool
    gateway: str
    #: ``time()``; None: it must not be used.
    now: int | None

    @property
    def asks_of_the_job(self) -> bool:
        """Return whether its value may depend on the job."""
        return bool(_of_the_job(self.reach))

    @property
    def lacking(self) -> Sequence[str]:
        """Return the names that make an expression undefined: of numbers and of attributes that no job has."""
        if self.expression is None or (not self.asks_of_the_job and self._value() is not UNDEFINED):
            return ()
        numbers = [name for name in NUMBERS if name.lower() in self.reach.own - self.my.record.entries.keys()]
        return (*numbers, *sorted(_lacked_by_jobs(self.reach)))

    @property
    def counts_matches(self) -> bool:
        """Return whether its value may depend on CurMatches."""
        return CUR_MATCHES.lower() in self.reach.own

    @property
    def is_decided_once(self) -> bool:
        """Return whether it stays TRUE, or not TRUE, until the next advertisement."""
        return not (self.asks_of_the_job or self.counts_matches or self.reach.uses_time)

    def holds(self, job: ClassAd = NO_JOB) -> bool:
        """Return whether it is TRUE for a job."""
        return _all_hold([self], job)

    def may_hold(self) -> bool:
        """Return whether it may be TRUE for some job."""
        if self.expression is None or not self.asks_of_the_job:
            return self.holds()
        return may_be_true(self.expression, my=self.my, unknown=_UNKNOWN, now=self.now, max_steps=MAX_STEPS)

    def in_words(self) -> str:
        """Return the value of an expression that does not hold, in words."""
        if self.expression is None or self.asks_of_the_job:
            return "not TRUE"
        value = self._value()
        if value is None:
            return "not TRUE, because they take too long to evaluate"
        if value is UNDEFINED:
            return "undefined"
        return "an error" if value is ERROR else "FALSE" if value is False else "neither TRUE nor FALSE"

    def _value(self) -> "Value | None":
        """Return its value without a job; None: it takes too long, or is not an expression."""
        try:
            if self.expression is not None:
                return evaluate(self.expression, my=self.my, now=self.now, max_steps=MAX_STEPS)
        except ClassAdError:
            pass
        return None


def _all_hold(conditions: Sequence[ThrottleCondition], job: ClassAd) -> bool:
    """Return whether all of them are TRUE for a job; MAX_STEPS is for all together, because a lock may be held."""
    expressions = [(condition.expression, condition.my) for condition in conditions if condition.expression is not None]
    now = conditions[0].now if conditions else None
    return len(expressions) == len(conditions) and are_true(expressions, target=job, now=now, max_steps=MAX_STEPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """The policy of a site, and its load at one moment."""

    policy: ThrottlePolicy
    #: The site's configured maxima; of an advertised and a configured maximum the smaller one counts.
    maxima: Numbers
    #: Of the policy ``custom``: a ClassAd expression.
    requirements: str = ""
    #: Advertised or counted numbers; missing ones are undefined.
    advertised: Numbers
    #: The advertisement in ClassAd form; empty: it came as numbers.
    classad: str = ""
    #: The gateways' advertisements, of which *advertised* are the sums; empty: *advertised* and *classad* are all.
    gateways: tuple[GatewayAdvertisement, ...] = ()
    #: ``time()`` of expressions, in seconds since 1970; None: for what does not depend on it.
    now: int | None = None

    def maximum(self, name: str) -> int | None:
        """Return the smaller of the configured and the advertised maximum; None: neither is given."""
        maxima = [numbers[name] for numbers in (self.maxima, self.advertised) if name in numbers]
        return min(maxima, default=None)

    @property
    def start(self) -> int | None:
        """Return CurMatches right after the advertisement; None: undefined, and no match is accepted."""
        match self.policy:
            case ThrottlePolicy.LEVEL0:
                return self.sum_of(SUBMITTING)
            case ThrottlePolicy.LEVEL1:
                return self.sum_of(SUBMITTING, GATHERING)
            case ThrottlePolicy.LEVEL2:
                return self.sum_of(CURRENT)
            case ThrottlePolicy.CUSTOM:
                return self.advertised.get(CUR_MATCHES)
        return 0

    @property
    def most(self) -> int | None:
        """Return the matches from the advertisement until the numbers close it; None: they do not (``custom``)."""
        if self.policy is ThrottlePolicy.CUSTOM:
            return None
        lefts = [
            _left(throttle, maximum, counted)
            for throttle in self._sum_and_each
            for maximum, counted in _BOUNDS[self.policy]
        ]
        return max(0, min(lefts))

    @property
    def room(self) -> int | None:
        """Return the matches from the advertisement until it closes; None: an expression must be evaluated for each.

        An expression that depends on none of the job, CurMatches and time is evaluated once.
        """
        most = self.most
        if most is None or most == 0:
            return most
        conditions = list(self.conditions(matched=0))
        once = [condition for condition in conditions if condition.is_decided_once]
        if not all(condition.holds() for condition in once):
            return 0
        return most if len(once) == len(conditions) else None

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the names that the policy needs and that are neither configured nor advertised; these close it."""
        if self.policy is ThrottlePolicy.CUSTOM:
            return () if CUR_MATCHES in self.advertised else (CUR_MATCHES,)
        bounds = _BOUNDS[self.policy]
        maxima = [name for name, _ in bounds if any(throttle.maximum(name) is None for throttle in self._sum_and_each)]
        numbers = [name for _, counted in bounds for name in counted if name not in self.advertised]
        return (*maxima, *numbers)

    @property
    def tightest(self) -> tuple[str, tuple[str, ...], "Throttle"]:
        """Return the maximum that leaves the fewest matches, the numbers that count towards it, and its throttle.

        The throttle is that of the site, with the sums, or of one gateway. Not for the policy ``custom``.
        """
        bounds = [
            (name, counted, throttle) for throttle in self._sum_and_each for name, counted in _BOUNDS[self.policy]
        ]
        return min(bounds, key=lambda bound: _left(bound[2], bound[0], bound[1]))

    @property
    def asks_of_the_job(self) -> tuple[str, ...]:
        """Return the attributes of a job, in lower case, on which acceptance may depend."""
        return tuple(sorted(frozenset[str]().union(*map(_of_the_job, self._reaches))))

    @property
    def uses_time(self) -> bool:
        """Return whether acceptance may depend on the time."""
        return any(reach.uses_time for reach in self._reaches)

    @property
    def _reaches(self) -> Sequence[Reach]:
        configured = [self.requirements] if self.policy is ThrottlePolicy.CUSTOM else []
        expressions = [(expression, ad.classad) for ad in self._ads for expression in (*configured, None)]
        return [_expression_and_reach(*pair)[1] for pair in expressions]

    def kind_of(self, job: ClassAd) -> Hashable:
        """Return the part of a job that acceptance may depend on; it is the same for jobs with equal parts."""
        return _kind_of(job, self.asks_of_the_job)

    def accepts(self, *, matched: int, job: ClassAd = NO_JOB) -> bool:
        """Return whether a further match is accepted.

        Args:
            matched: matches since the measurement.
            job: TARGET of expressions.
        """
        return self._has_numbers_for(matched) and _all_hold(list(self.conditions(matched=matched)), job)

    def in_the_way(self, *, matched: int) -> ThrottleCondition | None:
        """Return an expression that cannot be TRUE for any job after so many matches; None: there is none."""
        return next((condition for condition in self.conditions(matched=matched) if not condition.may_hold()), None)

    def conditions(self, *, matched: int) -> Iterator[ThrottleCondition]:
        """Yield the expressions that must be TRUE for a match after so many."""
        start = self.start or 0
        for ad in self._ads:
            parsed = _parsed_or_none(ad.classad)
            if self.policy is ThrottlePolicy.CUSTOM:
                # For several gateways, the expression is evaluated with each ad and the sums of all.
                my = _my(self, parsed, cur_matches=start + matched)
                yield self._condition(self.requirements, ad, my)
            if parsed is None or parsed.expression(REQUIREMENTS) is not None:
                of_one = self.alone(ad)
                my = _my(of_one, parsed, cur_matches=(of_one.start or 0) + matched)
                yield self._condition(None, ad, my)

    def _condition(self, requirements: str | None, ad: GatewayAdvertisement, my: ClassAd) -> ThrottleCondition:
        """Return the configured condition or, without *requirements*, that advertised by *ad*."""
        expression, reach = _expression_and_reach(requirements, ad.classad)
        return ThrottleCondition(
            expression=expression,
            my=my,
            reach=reach,
            is_advertised=requirements is None,
            gateway=ad.gateway,
            now=self.now,
        )

    def refused(self, jobs: Mapping[int, ClassAd], *, matched: int, is_patient: Callable[[], bool]) -> tuple[int, ...]:
        """Return the keys of the jobs that are refused; of jobs of one kind, one is evaluated.

        Args:
            jobs: TARGET of a custom expression, by any key.
            matched: matches since the measurement.
            is_patient: whether time is left for evaluations; without time, the remaining jobs are refused.
        """
        names = self.asks_of_the_job
        kind_of = {key: _kind_of(job, names) for key, job in jobs.items()}
        examples = {kind_of[key]: job for key, job in jobs.items()}
        accepted = {kind: is_patient() and self.accepts(matched=matched, job=job) for kind, job in examples.items()}
        return tuple(key for key in jobs if not accepted[kind_of[key]])

    def left(self, *, matched: int, job: ClassAd = NO_JOB, most_tried: int = MOST_TRIED) -> int:
        """Return how many further matches are accepted for jobs like *job*; with an expression at most *most_tried*."""
        room = self.room
        if room is not None:
            return max(0, room - matched)
        for tried in range(most_tried):
            if not self.accepts(matched=matched + tried, job=job):
                return tried
        return most_tried

    def sum_of(self, *names: str) -> int | None:
        """Return the sum of the advertised numbers of these names; None: one of them is missing."""
        if any(name not in self.advertised for name in names):
            return None
        return sum(self.advertised[name] for name in names)

    def alone(self, ad: GatewayAdvertisement) -> "Throttle":
        """Return the throttle for this gateway alone."""
        return replace(self, advertised=ad.numbers, classad=ad.classad, gateways=()) if self.gateways else self

    @property
    def _ads(self) -> tuple[GatewayAdvertisement, ...]:
        return self.gateways or (GatewayAdvertisement(numbers=self.advertised, classad=self.classad),)

    @property
    def _sum_and_each(self) -> tuple["Throttle", ...]:
        """Return the throttle of the sums, and that of each gateway alone."""
        return (replace(self, gateways=()), *(self.alone(ad) for ad in self.gateways)) if self.gateways else (self,)

    def _has_numbers_for(self, matched: int) -> bool:
        most = self.most
        return self.start is not None and (most is None or matched < most)


#: {policy: each maximum with the numbers that count towards it before the first match}.
_BOUNDS: Final[Mapping[ThrottlePolicy, tuple[tuple[str, tuple[str, ...]], ...]]] = {
    ThrottlePolicy.MATCHES: ((MAX_MATCHES, ()),),
    ThrottlePolicy.LEVEL0: ((MAX_SUBMITTING, (SUBMITTING,)),),
    ThrottlePolicy.LEVEL1: ((MAX_SUBMITTING_AND_GATHERING, (SUBMITTING, GATHERING)),),
    ThrottlePolicy.LEVEL2: (
        (MAX_JOBS, (CURRENT,)),
        (MAX_SUBMITTING_AND_GATHERING, (SUBMITTING, GATHERING)),
    ),
}


def _kind_of(job: ClassAd, names: Iterable[str]) -> Hashable:
    entries = job.record.entries
    return tuple([entries[name].node if name in entries else None for name in names])


def _of_the_job(reach: Reach) -> frozenset[str]:
    """Return the names looked up in the job; bare names that no job has are undefined for every one."""
    bare = {name.lower() for name in reach.elsewhere if "." not in name}
    return reach.in_target - (bare - _UNKNOWN)


def _lacked_by_jobs(reach: Reach) -> frozenset[str]:
    """Return the names looked up in the job that no job has."""
    return frozenset(name for name in reach.elsewhere if name.lower().removeprefix("target.") not in _UNKNOWN)


def undefined_in(requirements: str, *, classads: Iterable[str]) -> Mapping[str, str]:
    """Return the names of an expression that neither jobs nor each of a site's advertisements have, and hints.

    Args:
        requirements: the configured expression.
        classads: the last advertisement of each gateway; none: the site has never advertised.

    Returns:
        {name: `` Did you mean "…"?``, or an empty text}. It may be meant: the next advertisement may have it.
    """
    known = (*JOB_ATTRIBUTES, *NUMBERS)
    reaches = [_expression_and_reach(requirements, classad)[1] for classad in (tuple(classads) or ("",))]
    names = frozenset[str]().union(*map(_lacked_by_jobs, reaches))
    return {name: did_you_mean(name.rpartition(".")[2], known) for name in sorted(names)}


def _left(throttle: Throttle, maximum: str, counted: tuple[str, ...]) -> int:
    most, now = throttle.maximum(maximum), throttle.sum_of(*counted)
    return 0 if most is None or now is None else most - now


def _my(throttle: Throttle, parsed: ClassAd | None, *, cur_matches: int) -> ClassAd:
    """Return MY of an expression: the ad, with the numbers of the throttle."""
    maxima = {name: most for name in MAXIMA if (most := throttle.maximum(name)) is not None}
    numbers = classad_of({**throttle.advertised, **maxima, CUR_MATCHES: cur_matches})
    return (parsed or NO_JOB).updated(numbers)


def needed_by(policy: ThrottlePolicy, *, expression: str) -> tuple[str, ...]:
    """Return the settings that a policy requires.

    Args:
        expression: name of the setting for the site's own expression.
    """
    if policy is ThrottlePolicy.CUSTOM:
        return (expression,)
    return tuple(FIELD_OF_MAXIMUM[maximum] for maximum, _ in _BOUNDS.get(policy, ()))


# The same few texts are parsed often.
_parsed = lru_cache(maxsize=1000)(partial(parse_classad, by_lines=True))
_expression = lru_cache(maxsize=1000)(parse_expression)


def _parsed_or_none(classad: str) -> ClassAd | None:
    """Return the ad in *classad*; None: it is not a ClassAd, and the throttle is closed."""
    try:
        return _parsed(classad)
    except ClassAdError:
        return None


@lru_cache(maxsize=1000)
def _expression_and_reach(requirements: str | None, classad: str) -> tuple[Expression | None, Reach]:
    """Return the expression and the attributes that it depends on; the numbers of an ad are constants."""
    try:
        my = _parsed(classad)
        expression = my.expression(REQUIREMENTS) if requirements is None else _expression(requirements)
    except ClassAdError:
        expression = None
    if expression is None:
        return None, Reach(frozenset(), frozenset(), uses_time=False)
    return expression, expression.reach(my, constants=_CONSTANTS)
