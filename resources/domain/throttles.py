"""How a site limits the flow of jobs to it: SAM's policies, and how many matches each leaves (DESIGN §3.6).

A site advertises what goes on there. CurMatches starts at what the policy makes of that, grows by one with each match,
and nothing is subtracted until the next advertisement; the site takes a match only while its policy's condition is true
of CurMatches before it. So what a policy says of one advertisement is one number: the matches until it is closed.

An advertisement may have ``Requirements`` of its own. "If either requirement conditions evaluate to FALSE …, the match
fails" (SAM §2), so under every policy they must be TRUE too. A site may have several gateways, each of which advertises
(ADR 30): the policy is about the sum of their numbers, and each advertisement must accept the match by itself.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
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
    classad_of,
    evaluate,
    is_true,
    may_be_true,
    parse_classad,
    parse_expression,
)
from resources.domain.enums import ThrottlePolicy

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
#: The attributes of TARGET, which is a job; any other is undefined (taskqueues.services.classads).
JOB_ATTRIBUTES: Final = (
    *("Owner", "OwnerGroup", "VO", "Setup", "CPUTime", "JobType", "Site", "BannedSites", "GridCE", "Platform"),
    *(
        "SubmitPools",
        "PilotTypes",
        "Tags",
        "Software",
        "NumberOfProcessors",
        "Memory",
        "WallTime",
        "GPUs",
        "Disk",
        "Container",
    ),
)
_UNKNOWN: Final = frozenset(name.lower() for name in JOB_ATTRIBUTES)
_CONSTANTS: Final = frozenset(name.lower() for name in NUMBERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayAdvertisement:
    """What one gateway of a site advertised last, or the server counted in its place."""

    #: Of the gateway; empty: it has none.
    gateway: str = ""
    numbers: Numbers
    #: Empty: it came as numbers.
    classad: str = ""


def sum_of(ads: Iterable[GatewayAdvertisement]) -> dict[str, int]:
    """Return the numbers of a site: the sums of those that each of its gateways advertises."""
    numbers = [ad.numbers for ad in ads]
    names = [name for name in NUMBERS if numbers and all(name in each for each in numbers)]
    return {name: sum(each[name] for each in numbers) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleCondition:
    """An expression that must be TRUE of a match."""

    #: None: what was configured, or advertised, is no expression.
    expression: Expression | None
    #: The ad of which it is asked, for the next match.
    my: ClassAd
    reach: Reach
    #: Whether the site advertised it; else it is configured.
    is_advertised: bool
    gateway: str

    @property
    def asks_of_the_job(self) -> bool:
        """Whether its value may depend on the job."""
        return bool(self.reach.in_target)

    @property
    def counts_matches(self) -> bool:
        """Whether its value may depend on CurMatches."""
        return CUR_MATCHES.lower() in self.reach.own

    def holds(self, job: ClassAd = NO_JOB) -> bool:
        """Return whether it is TRUE for a job."""
        return self.expression is not None and is_true(self.expression, my=self.my, target=job, max_steps=MAX_STEPS)

    def may_hold(self) -> bool:
        """Return whether it may be TRUE for some job."""
        if self.expression is None or not self.asks_of_the_job:
            return self.holds()
        return may_be_true(self.expression, my=self.my, unknown=_UNKNOWN, max_steps=MAX_STEPS)

    def in_words(self) -> str:
        """Return what its value is, one that does not hold."""
        if self.expression is None or self.asks_of_the_job:
            return "not TRUE"
        try:
            value = evaluate(self.expression, my=self.my, max_steps=MAX_STEPS)
        except ClassAdError:
            return "not TRUE, for they take too long to evaluate"
        if value is UNDEFINED:
            return "undefined"
        return "an error" if value is ERROR else "FALSE" if value is False else "neither TRUE nor FALSE"


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
    #: What each gateway advertised, of which *advertised* are the sums; none: *advertised* and *classad* are all.
    gateways: tuple[GatewayAdvertisement, ...] = ()

    def maximum(self, name: str) -> int | None:
        """Return the smaller of what is configured and what is advertised; None: neither is."""
        known = [numbers[name] for numbers in (self.maxima, self.advertised) if name in numbers]
        return min(known, default=None)

    @property
    def start(self) -> int | None:
        """CurMatches right after the advertisement; None: it is undefined, and nothing is accepted."""
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
        """The matches from the advertisement until the policy's numbers close it; None: they do not (``custom``)."""
        if self.policy is ThrottlePolicy.CUSTOM:
            return None
        lefts = [
            _left(each, maximum, counted) for each in self._sum_and_each for maximum, counted in _BOUNDS[self.policy]
        ]
        return max(0, min(lefts))

    @property
    def room(self) -> int | None:
        """The matches from the advertisement until it is closed; None: an expression has to be evaluated for each.

        What an expression says that looks neither at the job nor at CurMatches is the same for all matches.
        """
        most = self.most
        if most is None or most == 0:
            return most
        conditions = list(self.conditions(matched=0))
        once = [each for each in conditions if not each.asks_of_the_job and not each.counts_matches]
        if not all(each.holds() for each in once):
            return 0
        return most if len(once) == len(conditions) else None

    @property
    def missing(self) -> tuple[str, ...]:
        """What is neither configured nor advertised, though the policy asks for it; with it missing it is closed."""
        if self.policy is ThrottlePolicy.CUSTOM:
            return () if CUR_MATCHES in self.advertised else (CUR_MATCHES,)
        bounds = _BOUNDS[self.policy]
        maxima = [name for name, _ in bounds if any(each.maximum(name) is None for each in self._sum_and_each)]
        numbers = [name for _, counted in bounds for name in counted if name not in self.advertised]
        return (*maxima, *numbers)

    @property
    def tightest(self) -> tuple[str, tuple[str, ...], "Throttle"]:
        """The maximum that leaves the fewest matches, what counts towards it, and the throttle that says so.

        That is the site's, of the sums, or that of one gateway. Not of the policy ``custom``.
        """
        bounds = [(name, counted, each) for each in self._sum_and_each for name, counted in _BOUNDS[self.policy]]
        return min(bounds, key=lambda bound: _left(bound[2], bound[0], bound[1]))

    @property
    def asks_of_the_job(self) -> tuple[str, ...]:
        """The attributes of a job, in lower case, on which it may depend whether a match is accepted."""
        configured = [self.requirements] if self.policy is ThrottlePolicy.CUSTOM else []
        asked = [(each, ad.classad) for ad in self._ads for each in (*configured, None)]
        names = frozenset[str]().union(*(_expression_and_reach(*each)[1].in_target for each in asked))
        return tuple(sorted(names))

    def kind_of(self, job: ClassAd) -> Hashable:
        """Return what of a job it may look at: of jobs of one kind it says the same."""
        return _kind_of(job, self.asks_of_the_job)

    def accepts(self, *, matched: int, job: ClassAd = NO_JOB) -> bool:
        """Return whether one more match is accepted.

        Args:
            matched: matches since the measurement.
            job: TARGET of expressions.
        """
        return self._has_numbers_for(matched) and all(each.holds(job) for each in self.conditions(matched=matched))

    def may_accept(self, *, matched: int) -> bool:
        """Return whether one more match is accepted of some job, as far as can be told without one."""
        return self._has_numbers_for(matched) and self.in_the_way(matched=matched) is None

    def in_the_way(self, *, matched: int) -> ThrottleCondition | None:
        """Return an expression that is TRUE for no job after so many matches; None: each may be TRUE."""
        return next((each for each in self.conditions(matched=matched) if not each.may_hold()), None)

    def conditions(self, *, matched: int) -> Iterator[ThrottleCondition]:
        """Yield the expressions that must be TRUE of a match after so many."""
        start = self.start or 0
        for ad in self._ads:
            parsed = _parsed_or_none(ad.classad)
            if self.policy is ThrottlePolicy.CUSTOM:
                # Of several gateways it is asked about each, with the sums of all.
                my = _my(self, parsed, cur_matches=start + matched)
                yield _condition(self.requirements, ad, my)
            if parsed is None or parsed.expression(REQUIREMENTS) is not None:
                of_one = self.alone(ad)
                my = _my(of_one, parsed, cur_matches=(of_one.start or 0) + matched)
                yield _condition(None, ad, my)

    def refused(self, jobs: Mapping[int, ClassAd], *, matched: int, is_patient: Callable[[], bool]) -> tuple[int, ...]:
        """Return the keys of the jobs of which no match is accepted; jobs of one kind are asked about once.

        Args:
            jobs: as TARGET of a custom expression, by any key.
            matched: matches since the measurement.
            is_patient: whether to go on with what takes so long; else what is left is refused, as in a match.
        """
        names = self.asks_of_the_job
        kind_of = {key: _kind_of(job, names) for key, job in jobs.items()}
        examples = {kind_of[key]: job for key, job in jobs.items()}
        accepted = {kind: is_patient() and self.accepts(matched=matched, job=job) for kind, job in examples.items()}
        return tuple(key for key in jobs if not accepted[kind_of[key]])

    def left(self, *, matched: int, job: ClassAd = NO_JOB, most_tried: int = MOST_TRIED) -> int:
        """Return how many more matches are accepted, of jobs like *job*; at most *most_tried* of an expression."""
        room = self.room
        if room is not None:
            return max(0, room - matched)
        for tried in range(most_tried):
            if not self.accepts(matched=matched + tried, job=job):
                return tried
        return most_tried

    def sum_of(self, *names: str) -> int | None:
        """Return the sum of what was advertised under these names; None: of one of them nothing was."""
        if any(name not in self.advertised for name in names):
            return None
        return sum(self.advertised[name] for name in names)

    def alone(self, ad: GatewayAdvertisement) -> "Throttle":
        """Return the throttle as it were if there were only this gateway."""
        return replace(self, advertised=ad.numbers, classad=ad.classad, gateways=()) if self.gateways else self

    @property
    def _ads(self) -> tuple[GatewayAdvertisement, ...]:
        return self.gateways or (GatewayAdvertisement(numbers=self.advertised, classad=self.classad),)

    @property
    def _sum_and_each(self) -> tuple["Throttle", ...]:
        """The throttle of the sums, and that of each gateway by itself."""
        return (replace(self, gateways=()), *(self.alone(ad) for ad in self.gateways)) if self.gateways else (self,)

    def _has_numbers_for(self, matched: int) -> bool:
        most = self.most
        return self.start is not None and (most is None or matched < most)


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


def _kind_of(job: ClassAd, names: Iterable[str]) -> Hashable:
    entries = job.record.entries
    return tuple([entries[name].node if name in entries else None for name in names])


def _left(throttle: Throttle, maximum: str, counted: tuple[str, ...]) -> int:
    most, now = throttle.maximum(maximum), throttle.sum_of(*counted)
    return 0 if most is None or now is None else most - now


def _my(throttle: Throttle, parsed: ClassAd | None, *, cur_matches: int) -> ClassAd:
    """Return MY of an expression: the ad, with the numbers as the throttle has them."""
    maxima = {name: most for name in MAXIMA if (most := throttle.maximum(name)) is not None}
    numbers = classad_of({**throttle.advertised, **maxima, CUR_MATCHES: cur_matches})
    return (parsed or NO_JOB).updated(numbers)


def needed_by(policy: ThrottlePolicy, *, expression: str) -> tuple[str, ...]:
    """Return the settings that a policy cannot be configured without.

    Args:
        expression: how the setting of the site's own expression is called.
    """
    if policy is ThrottlePolicy.CUSTOM:
        return (expression,)
    return tuple(FIELD_OF_MAXIMUM[maximum] for maximum, _ in _BOUNDS.get(policy, ()))


# The same few texts are asked about again and again.
_parsed = lru_cache(maxsize=1000)(partial(parse_classad, by_lines=True))
_expression = lru_cache(maxsize=1000)(parse_expression)


def _parsed_or_none(classad: str) -> ClassAd | None:
    """Return the ad that *classad* is; None: it is none, and whatever is asked of it is closed."""
    try:
        return _parsed(classad)
    except ClassAdError:
        return None


def _condition(requirements: str | None, ad: GatewayAdvertisement, my: ClassAd) -> ThrottleCondition:
    """Return the condition that is configured or, without *requirements*, advertised by *ad*."""
    expression, reach = _expression_and_reach(requirements, ad.classad)
    return ThrottleCondition(
        expression=expression, my=my, reach=reach, is_advertised=requirements is None, gateway=ad.gateway
    )


@lru_cache(maxsize=1000)
def _expression_and_reach(requirements: str | None, classad: str) -> tuple[Expression | None, Reach]:
    """Return the expression, and what it may look at; the numbers of an ad are constants."""
    try:
        my = _parsed(classad)
        expression = my.expression(REQUIREMENTS) if requirements is None else _expression(requirements)
    except ClassAdError:
        expression = None
    if expression is None:
        return None, Reach(frozenset(), frozenset())
    return expression, expression.reach(my, constants=_CONSTANTS)
