"""The expressions of a site's throttle, configured or advertised, about the site and a job."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from resources.domain.advertised_load import CUR_MATCHES, NUMBERS, REQUIREMENTS
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
from wms.kernel.memo import RecentlyUsed
from wms.kernel.names import did_you_mean
from wms.wire.amounts import AMOUNTS

#: Steps for the expressions of a site about one job, some milliseconds at worst: pilots wait for it.
MAX_STEPS: Final = 5000
NO_JOB: Final = classad_of({})
#: Of texts that are kept parsed, at 20 to 70 bytes of memory for each.
MOST_PARSED_BYTES: Final = 512 * 1024
PARSED_UNUSED_S: Final = 600.0
#: The attributes of TARGET, the job; all others are undefined (taskqueues.services.classads).
JOB_ATTRIBUTES: Final = (
    *("Owner", "OwnerGroup", "VO", "Setup", "CPUTime", "JobType", "Site", "BannedSites", "GridCE", "Platform"),
    *("SubmitPools", "PilotTypes", "Tags", "Software", "Container"),
    *(amount.jdl[0] for amount in AMOUNTS),
)
_UNKNOWN: Final = frozenset(name.lower() for name in JOB_ATTRIBUTES)
_NAMES_MY: Final = re.compile(r"\bmy\b", re.IGNORECASE)
_CONSTANTS: Final = frozenset(name.lower() for name in NUMBERS)


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
        return bool(names_of_the_job(self.reach))

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
        return all_hold([self], job)

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


def all_hold(conditions: Sequence[ThrottleCondition], job: ClassAd) -> bool:
    """Return whether all of them are TRUE for a job; MAX_STEPS is for all together, because a lock may be held."""
    expressions = [(condition.expression, condition.my) for condition in conditions if condition.expression is not None]
    now = conditions[0].now if conditions else None
    return len(expressions) == len(conditions) and are_true(expressions, target=job, now=now, max_steps=MAX_STEPS)


def names_of_the_job(reach: Reach) -> frozenset[str]:
    """Return the names looked up in the job; bare names that no job has are undefined for every one."""
    bare = {name.lower() for name in reach.elsewhere if "." not in name}
    return reach.in_target - (bare - _UNKNOWN)


def _lacked_by_jobs(reach: Reach) -> frozenset[str]:
    """Return the names looked up in the job that no job has."""
    return frozenset(name for name in reach.elsewhere if name.lower().removeprefix("target.") not in _UNKNOWN)


def flaw_of_expression(requirements: str) -> str:
    """Return why a site cannot have this expression, as words after its name; empty: it can."""
    try:
        expression = parse_expression(requirements)
    except ClassAdError as error:
        return f"not a ClassAd expression: {error}"
    reach = expression.reach(NO_JOB)
    # A bare name may have any value; of MY.name the analysis cannot say so.
    is_open = reach.uses_time or _NAMES_MY.search(requirements) is not None
    if is_open or may_be_true(expression, my=NO_JOB, unknown=reach.in_target):
        return ""
    return "TRUE for no advertisement and no job, so no job would ever start; ban the site instead"


def undefined_in(requirements: str, *, classads: Iterable[str]) -> Mapping[str, str]:
    """Return the names of an expression that neither jobs nor each of a site's advertisements have, and hints.

    Args:
        requirements: the configured expression.
        classads: the last advertisement of each gateway; none: the site has never advertised.

    Returns:
        {name: `` Did you mean "…"?``, or an empty text}. It may be meant: the next advertisement may have it.
    """
    known = (*JOB_ATTRIBUTES, *NUMBERS)
    reaches = [expression_and_reach(requirements, classad)[1] for classad in (tuple(classads) or ("",))]
    names = frozenset[str]().union(*map(_lacked_by_jobs, reaches))
    return {name: did_you_mean(name.rpartition(".")[2], known) for name in sorted(names)}


#: The same few texts are parsed often; but each advertisement, with its numbers, is a new one.
_ads: Final[RecentlyUsed[str, ClassAd]] = RecentlyUsed(
    most=MOST_PARSED_BYTES, unused_s=PARSED_UNUSED_S, size_of=lambda classad, _ad: len(classad)
)
_reaches: Final[RecentlyUsed[tuple[str | None, str], tuple[Expression | None, Reach]]] = RecentlyUsed(
    most=MOST_PARSED_BYTES, unused_s=PARSED_UNUSED_S, size_of=lambda texts, _: len(texts[0] or "") + len(texts[1])
)


def _parsed(classad: str) -> ClassAd:
    return _ads.recall(classad, lambda: parse_classad(classad, by_lines=True))


def parsed_or_none(classad: str) -> ClassAd | None:
    """Return the ad in *classad*; None: it is not a ClassAd, and the throttle is closed."""
    try:
        return _parsed(classad)
    except ClassAdError:
        return None


def expression_and_reach(requirements: str | None, classad: str) -> tuple[Expression | None, Reach]:
    """Return the expression and the attributes that it depends on; the numbers of an ad are constants."""
    return _reaches.recall((requirements, classad), lambda: _expression_and_reach(requirements, classad))


def _expression_and_reach(requirements: str | None, classad: str) -> tuple[Expression | None, Reach]:
    try:
        my = _parsed(classad)
        expression = my.expression(REQUIREMENTS) if requirements is None else parse_expression(requirements)
    except ClassAdError:
        expression = None
    if expression is None:
        return None, Reach(frozenset(), frozenset(), uses_time=False)
    return expression, expression.reach(my, constants=_CONSTANTS)
