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
from typing import Final

from resources.domain.advertised_load import (
    CUR_MATCHES,
    CURRENT,
    FIELD_OF_MAXIMUM,
    GATHERING,
    MAX_JOBS,
    MAX_MATCHES,
    MAX_SUBMITTING,
    MAX_SUBMITTING_AND_GATHERING,
    MAXIMA,
    REQUIREMENTS,
    SUBMITTING,
    GatewayAdvertisement,
    Numbers,
)
from resources.domain.classad import ClassAd, Reach, classad_of
from resources.domain.enums import ThrottlePolicy
from resources.domain.throttle_conditions import (
    NO_JOB,
    ThrottleCondition,
    all_hold,
    expression_and_reach,
    flaw_of_expression,
    names_of_the_job,
    parsed_or_none,
)

#: Matches for which an expression is evaluated in advance; after them it is evaluated again.
MOST_TRIED: Final = 1000
#: Seconds for evaluating a site's expression on many jobs; after them the site counts as closed.
PATIENCE_S: Final = 0.5


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
    def maximum_of_zero(self) -> str | None:
        """Return the configured maximum of zero that closes the site whatever is counted there; None: there is none."""
        names = [name for name, _ in _BOUNDS.get(self.policy, ())]
        return next((name for name in names if self.maxima.get(name) == 0), None)

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
        return tuple(sorted(frozenset[str]().union(*map(names_of_the_job, self._reaches))))

    @property
    def uses_time(self) -> bool:
        """Return whether acceptance may depend on the time."""
        return any(reach.uses_time for reach in self._reaches)

    @property
    def _reaches(self) -> Sequence[Reach]:
        configured = [self.requirements] if self.policy is ThrottlePolicy.CUSTOM else []
        expressions = [(expression, ad.classad) for ad in self._ads for expression in (*configured, None)]
        return [expression_and_reach(*pair)[1] for pair in expressions]

    def kind_of(self, job: ClassAd) -> Hashable:
        """Return the part of a job that acceptance may depend on; it is the same for jobs with equal parts."""
        return _kind_of(job, self.asks_of_the_job)

    def accepts(self, *, matched: int, job: ClassAd = NO_JOB) -> bool:
        """Return whether a further match is accepted.

        Args:
            matched: matches since the measurement.
            job: TARGET of expressions.
        """
        return self._has_numbers_for(matched) and all_hold(list(self.conditions(matched=matched)), job)

    def in_the_way(self, *, matched: int) -> ThrottleCondition | None:
        """Return an expression that cannot be TRUE for any job after so many matches; None: there is none."""
        return next((condition for condition in self.conditions(matched=matched) if not condition.may_hold()), None)

    def conditions(self, *, matched: int) -> Iterator[ThrottleCondition]:
        """Yield the expressions that must be TRUE for a match after so many."""
        start = self.start or 0
        for ad in self._ads:
            parsed = parsed_or_none(ad.classad)
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
        expression, reach = expression_and_reach(requirements, ad.classad)
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


def _left(throttle: Throttle, maximum: str, counted: tuple[str, ...]) -> int:
    most, now = throttle.maximum(maximum), throttle.sum_of(*counted)
    return 0 if most is None or now is None else most - now


def _my(throttle: Throttle, parsed: ClassAd | None, *, cur_matches: int) -> ClassAd:
    """Return MY of an expression: the ad, with the numbers of the throttle."""
    maxima = {name: most for name in MAXIMA if (most := throttle.maximum(name)) is not None}
    numbers = classad_of({**throttle.advertised, **maxima, CUR_MATCHES: cur_matches})
    return (parsed or NO_JOB).updated(numbers)


def mistakes_in(settings: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield (setting, sentence) for what is wrong with the settings of a throttle.

    Args:
        settings: by name, as in files and over REST; one that is missing has no value.
    """
    policy = ThrottlePolicy(str(settings.get("policy") or ""))
    maxima = [FIELD_OF_MAXIMUM[maximum] for maximum, _ in _BOUNDS.get(policy, ())]
    for name in ["requirements"] if policy is ThrottlePolicy.CUSTOM else maxima:
        if settings.get(name) in {None, ""}:
            yield name, f"the policy {policy} requires this value"
    expression = str(settings.get("requirements") or "")
    if expression and (flaw := flaw_of_expression(expression)):
        yield "requirements", flaw
