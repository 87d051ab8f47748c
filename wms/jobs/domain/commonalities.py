"""What failed jobs have in common that other jobs have not: a value, or numbers beyond a bound (pure).

Each property is tested by itself. What is reported holds for most of the failed jobs and few others, so clearly that
chance would hardly do it: Fisher's exact test, one-sided, times the number of values that were tried.
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import groupby
from math import exp, isfinite, lgamma
from typing import Final

from wms.kernel.time_texts import to_the_second

#: Least part of the failed jobs for which it holds.
LEAST_PART: Final = 0.8
#: By how much that part exceeds the one of the other jobs.
LEAST_DIFFERENCE: Final = 0.5
#: Greatest probability by chance.
MOST_CHANCE: Final = 0.001
MOST_REPORTED: Final = 3
#: Fact of the start of the payload: seconds since 1970.
STARTED: Final = "started"
#: Facts of the place and of the owner.
HOST, CE, SITE, OWNER = "host", "CE", "site", "owner"
_VERBS: Final = {HOST: "ran on", CE: "ran at", SITE: "ran at", OWNER: "are jobs of"}
#: Value of an option that has none.
GIVEN: Final = "given"
_MOST_WORDS: Final = 20
_ONE_NUMBER: Final = re.compile(r"\D*(\d+)\D*")

#: {property of a job: its value}. Numbers can also be compared.
Facts = Mapping[str, str | float]


class Relation(StrEnum):
    """How a property relates to a value."""

    IS = "is"
    ABOVE = ">"
    BELOW = "<"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commonality:
    """A property of most failed jobs that few others have."""

    name: str
    relation: Relation
    value: str | float
    #: Failed jobs that have it, and all of them.
    failed: int
    of_failed: int
    #: Other jobs that have it, and all of them.
    others: int
    of_others: int

    @property
    def difference(self) -> float:
        """By how much its part of the failed jobs exceeds that of the others."""
        return self.failed / self.of_failed - self.others / self.of_others

    @property
    def sentence(self) -> str:
        """It in words, with its numbers."""
        all_or_some = "All" if self.failed == self.of_failed else f"{self.failed:,} of"
        others = f"{self.others:,}" if self.others else "none"
        return f"{all_or_some} {self.of_failed:,} {self._predicate}; {others} of {self.of_others:,} others."

    @property
    def _predicate(self) -> str:
        if self.name == STARTED and isinstance(self.value, float):
            when = "after" if self.relation is Relation.ABOVE else "before"
            return f"started {when} {to_the_second(datetime.fromtimestamp(self.value, UTC))}"
        value = f"{self.value:g}" if isinstance(self.value, float) else self.value
        if verb := _VERBS.get(self.name):
            return f"{verb} {value}"
        if self.relation is not Relation.IS:
            return f"have {self.name} {self.relation} {value}"
        return f"have {self.name}" if value == GIVEN else f"have {self.name} {value}"


def common_to(failed: Sequence[Facts], others: Sequence[Facts]) -> list[Commonality]:
    """Return what the failed jobs have in common, the clearest first, else in the order of their facts."""
    if not failed or not others:
        return []
    names = dict.fromkeys(name for facts in failed for name in facts)
    found = [best for name in names if (best := _best(name, failed, others)) is not None]
    return sorted(found, key=lambda each: -each.difference)[:MOST_REPORTED]


def facts_of_words(arguments: str) -> dict[str, str | float]:
    """Return the options of a command line by their names, and its other words by their places.

    ``--seed 7``, ``--seed=7`` and ``seed=7`` are numbers; of a word such as ``run7.root`` its number is a fact, too.
    """
    try:
        words = shlex.split(arguments)[:_MOST_WORDS]
    except ValueError:
        words = arguments.split()[:_MOST_WORDS]
    facts: dict[str, str | float] = {}
    place = 0
    name = ""
    for word in words:
        is_option = word.startswith("-") and _number(word) is None
        if name and is_option:
            facts[name] = GIVEN
            name = ""
        before, equals, after = word.partition("=")
        if before and equals:
            facts |= fact(before, after)
        elif is_option:
            name = word
        elif name:
            facts |= fact(name, word)
            name = ""
        else:
            place += 1
            facts |= fact(f"argument {place}", word)
    return facts | ({name: GIVEN} if name else {})


def fact(name: str, text: str) -> dict[str, str | float]:
    """Return a value as a fact; a text with one number in it is two."""
    if (number := _number(text)) is not None:
        return {name: number}
    found = _ONE_NUMBER.fullmatch(text)
    return {name: text} | ({f"number in {name}": float(found[1])} if found else {})


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _best(name: str, failed: Sequence[Facts], others: Sequence[Facts]) -> Commonality | None:
    """Return the clearest relation of one property; None: there is none."""
    of_failed, of_others = ([facts[name] for facts in jobs if name in facts] for jobs in (failed, others))
    if len(of_failed) < LEAST_PART * len(failed):
        return None
    tried = len({*of_failed, *of_others})
    candidates = [
        Commonality(
            name=name,
            relation=relation,
            value=value,
            failed=have,
            of_failed=len(failed),
            others=others_have,
            of_others=len(others),
        )
        for relation, value, have, others_have in (*_equal(of_failed, of_others), *_beyond(of_failed, of_others))
        if have >= LEAST_PART * len(failed)
    ]
    best = max(candidates, key=lambda each: each.difference, default=None)
    if best is None or best.difference < LEAST_DIFFERENCE or tried * _chance(best) > MOST_CHANCE:
        return None
    return best


_Found = tuple[Relation, str | float, int, int]


def _equal(of_failed: Sequence[str | float], of_others: Sequence[str | float]) -> Iterator[_Found]:
    others = Counter(of_others)
    for value, have in Counter(of_failed).most_common(1):
        yield Relation.IS, value, have, others[value]


def _beyond(of_failed: Sequence[str | float], of_others: Sequence[str | float]) -> Iterator[_Found]:
    """Yield each bound between two values, with the numbers of those beyond it, from either end."""
    numbers = [*((number, True) for number in of_failed), *((number, False) for number in of_others)]
    if not all(isinstance(number, float) for number, _ in numbers):
        return
    for relation, is_reversed in ((Relation.ABOVE, True), (Relation.BELOW, False)):
        have = others_have = 0
        ordered = sorted(numbers, reverse=is_reversed)
        for value, alike in groupby(ordered, key=lambda each: each[0]):
            if have or others_have:
                yield relation, value, have, others_have
            for _, is_failed in alike:
                have, others_have = have + is_failed, others_have + (not is_failed)


def _chance(each: Commonality) -> float:
    """Return the probability that as many of the failed jobs, or more, have the property by chance."""
    jobs, having = each.of_failed + each.of_others, each.failed + each.others
    most = min(having, each.of_failed)
    whole = _log_choices(jobs, each.of_failed)
    return sum(
        exp(_log_choices(having, number) + _log_choices(jobs - having, each.of_failed - number) - whole)
        for number in range(each.failed, most + 1)
        if each.of_failed - number <= jobs - having
    )


def _log_choices(of: int, number: int) -> float:
    return lgamma(of + 1) - lgamma(number + 1) - lgamma(of - number + 1)
