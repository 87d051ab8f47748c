"""What failed jobs have in common that other jobs have not: a value, or numbers beyond a bound (pure).

Each property is tested by itself. What is reported holds for most of the failed jobs and few others, so clearly that
chance would hardly do it: Fisher's exact test, one-sided, times the number of values that were tried.
"""

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from math import exp, isfinite, lgamma
from typing import Final

import numpy as np
from numpy.typing import NDArray

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
_NEEDS_SHELL: Final = re.compile(r"[\"'\\]")
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


class ComparedJobs:
    """Jobs of which some have failed for one cause: groups of them are compared with all others.

    Args:
        facts: of each job.
    """

    def __init__(self, facts: Sequence[Facts]) -> None:
        self._jobs = len(facts)
        values: dict[str, tuple[list[int], list[str | float]]] = {}
        for row, each in enumerate(facts):
            for name, value in each.items():
                rows, of_name = values.setdefault(name, ([], []))
                rows.append(row)
                of_name.append(value)
        self._columns = [_Column(name, rows, of_name) for name, (rows, of_name) in values.items()]

    def common_to(self, failed: Collection[int]) -> list[Commonality]:
        """Return what some jobs, by their places in the facts, have in common, the clearest first."""
        is_failed = np.zeros(self._jobs, dtype=np.bool_)
        is_failed[list(failed)] = True
        if not 0 < len(failed) < self._jobs:
            return []
        found = [best for each in self._columns if (best := _best(each, is_failed)) is not None]
        return sorted(found, key=lambda each: -each.difference)[:MOST_REPORTED]


class _Column:
    """The values of one property, of the jobs that have it."""

    def __init__(self, name: str, rows: Sequence[int], values: Sequence[str | float]) -> None:
        self.name, self.rows = name, np.array(rows)
        #: Whether all are numbers; then they ascend.
        self.are_numbers = all(isinstance(value, float) for value in values)
        distinct = sorted(set(values)) if self.are_numbers else list(dict.fromkeys(values))
        self.values: Sequence[str | float] = distinct
        code_of = {value: code for code, value in enumerate(distinct)}
        self.codes = np.array([code_of[value] for value in values])


def facts_of_words(arguments: str) -> dict[str, str | float]:
    """Return the options of a command line by their names, and its other words by their places.

    ``--seed 7``, ``--seed=7`` and ``seed=7`` are numbers; of a word such as ``run7.root`` its number is a fact, too.
    """
    words = arguments.split()
    if _NEEDS_SHELL.search(arguments):  # else shlex says the same in fifty times the time
        with suppress(ValueError):
            words = shlex.split(arguments)
    words = words[:_MOST_WORDS]
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


def _best(column: _Column, is_failed: NDArray[np.bool_]) -> Commonality | None:
    """Return the clearest relation of one property; None: there is none."""
    of_failed, of_others = int(is_failed.sum()), int((~is_failed).sum())
    failed_here = is_failed[column.rows]
    if int(failed_here.sum()) < LEAST_PART * of_failed:
        return None
    number = len(column.values)
    failed = np.bincount(column.codes[failed_here], minlength=number)
    others = np.bincount(column.codes[~failed_here], minlength=number)
    most = int(failed.argmax())
    candidates = [(Relation.IS, most, int(failed[most]), int(others[most]))]
    if column.are_numbers:
        candidates += _beyond(failed, others, of_failed=of_failed, of_others=of_others)
    best: Commonality | None = None
    for relation, code, have, others_have in candidates:
        if have >= LEAST_PART * of_failed:
            each = Commonality(
                name=column.name,
                relation=relation,
                value=column.values[code],
                failed=have,
                of_failed=of_failed,
                others=others_have,
                of_others=of_others,
            )
            best = each if best is None or each.difference > best.difference else best
    if best is None or best.difference < LEAST_DIFFERENCE or number * _chance(best) > MOST_CHANCE:
        return None
    return best


def _beyond(
    failed: NDArray[np.int64], others: NDArray[np.int64], *, of_failed: int, of_others: int
) -> Iterator[tuple[Relation, int, int, int]]:
    """Yield the best bound among the values, from either end, with the numbers of the jobs beyond it.

    Args:
        failed: failed jobs by value, ascending.
        others: the others.
        of_failed: all failed jobs.
        of_others: all others.
    """
    for relation, step in ((Relation.ABOVE, -1), (Relation.BELOW, 1)):
        # Beyond each value, from this end on; none is beyond the first.
        have, others_have = (np.cumsum(counts[::step])[:-1] for counts in (failed, others))
        if not len(have):
            return
        difference = np.where(have >= LEAST_PART * of_failed, have / of_failed - others_have / of_others, -1.0)
        place = int(difference.argmax())
        yield relation, len(failed) - 2 - place if step < 0 else place + 1, int(have[place]), int(others_have[place])


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
