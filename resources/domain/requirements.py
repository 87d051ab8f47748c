"""Requirements of jobs on the parameters of resources, and the ids of their submit pools (RFC7)."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import NamedTuple, Self

from resources.domain.definitions import is_number, kind_problem
from resources.domain.enums import RequirementKind
from resources.domain.files import shown
from resources.domain.parameters import (
    Identity,
    Parameters,
    Scalar,
    Value,
    ValueProblem,
    canonical_name,
    canonical_value,
    folded_name,
    identity,
    values_of,
)
from wms.kernel.errors import RejectedError
from wms.kernel.names import did_you_mean

#: In canonical form: names case-folded and sorted, values canonical.
Requirements = Mapping[str, Value]
#: Kinds of comparison, by case-folded name; for missing names the value decides.
Kinds = Mapping[str, RequirementKind]

#: Units of capacities, such as MB, by case-folded name; shown to people, never converted.
Units = Mapping[str, str]

NO_KINDS: Kinds = MappingProxyType({})
NO_UNITS: Units = MappingProxyType({})
NO_SPELLINGS: Mapping[str, str] = MappingProxyType({})
MAX_NAMES = 100
_FIELD = "requirements"
#: Texts that a reader could take for a number, true, false or nothing.
_MISLEADING = re.compile(r"|\s.*|.*\s|[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|true|false", re.IGNORECASE | re.DOTALL)
_NO_EXPRESSIONS = (
    "expressions are not understood here; write a record of names and values, such as "
    '{"Memory": 4000, "SoftwareTag": ["AppVersion1", "AppVersion2"]}.'
)


class RequirementsError(RejectedError):
    """A job's requirements are invalid, or no resource could ever meet them."""

    code = "bad_requirements"


def _refused(problems: Mapping[str, list[str]]) -> RequirementsError:
    sentences = next(iter(problems.values()))
    return RequirementsError(sentences[0], errors=problems)


def _about(name: object, problem: str) -> dict[str, list[str]]:
    """Return the error of one requirement; the sentence repeats its name, as it is also shown without the field."""
    return {f"{_FIELD}.{name}": [f"The requirement {shown(name)} {problem}"]}


def canonical(requirements: object) -> dict[str, Value]:
    """Return the canonical form of a job's requirements; equal requirements have equal forms.

    Names are case-folded and sorted; a list is a sorted set, and a list of one element is that element; numbers have
    their shortest form. The case of values matters. A canonical form (also from JSON) stays as it is.

    Raises:
        RequirementsError: with errors of ``requirements`` or ``requirements.Name``.

    Source: RFC7, "orders them alphabetically and creates a unique hash".
    """
    if isinstance(requirements, str):
        raise _refused({_FIELD: [f"requirements: {_NO_EXPRESSIONS}"]})
    if not isinstance(requirements, Mapping):
        raise _refused({_FIELD: ['requirements: use a record of names and values, such as {"Memory": 4000}.']})
    if len(requirements) > MAX_NAMES:
        raise _refused({_FIELD: [f"requirements: at most {MAX_NAMES} names are accepted."]})
    canonical_values: dict[str, Value] = {}
    problems: dict[str, list[str]] = {}
    for name, value in requirements.items():
        try:
            folded = canonical_name(name)
            canonical_form = canonical_value(value)
        except ValueProblem as problem:
            problems |= _about(name, f"is not accepted: {problem}.")
            continue
        if folded in canonical_values:
            problems |= _about(name, "is given twice; the case of a name is ignored.")
        canonical_values[folded] = canonical_form
    if problems:
        raise _refused(problems)
    return dict(sorted(canonical_values.items()))


def submit_pool_id(vo: str, requirements: Requirements) -> str:
    """Return the identifier of the submit pool: SHA-256, in hexadecimal, over the VO and the canonical requirements."""
    text = json.dumps([vo, requirements], sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256(text.encode()).hexdigest()


def _no_hint(_name: str) -> str:
    return ""


def check(
    requirements: Mapping[str, object],
    *,
    known: Iterable[str],
    kinds: Kinds = NO_KINDS,
    units: Units = NO_UNITS,
    hint: Callable[[str], str] = _no_hint,
) -> None:
    """Refuse names that no resource and no definition has, and values that are not comparable.

    Args:
        requirements: as the user wrote them, for the errors.
        known: names as configured, in any case.
        kinds, units: see Kinds and Units.
        hint: returns where an unknown name belongs instead, with a leading space; if empty, the nearest name is named.

    Raises:
        RequirementsError: an invalid form, or an unknown name, whose job would wait forever.
    """
    required = canonical(requirements)
    stated = {canonical_name(name): name for name in requirements}
    spellings = {folded_name(name): name for name in known}
    problems: dict[str, list[str]] = {}
    for name, value in required.items():
        if name not in spellings:
            instead = hint(stated[name]) or did_you_mean(stated[name], spellings.values())
            problems |= _about(stated[name], f"is described by no resource of your VO.{instead}")
        elif problem := kind_problem(value, kind=kinds.get(name), unit=units.get(name, "")):
            problems |= _about(stated[name], f"{problem}.")
    if problems:
        raise _refused(problems)


def unmet(
    requirements: Requirements,
    parameters: Parameters,
    kinds: Kinds = NO_KINDS,
    units: Units = NO_UNITS,
    *,
    spelled: Mapping[str, str] = NO_SPELLINGS,
) -> tuple[str, ...]:
    """Return one sentence for each requirement that a resource does not meet; empty: it is eligible.

    A missing parameter does not meet a requirement. Otherwise the kind decides (by definition; else a number is a
    capacity, and everything else a set). A requirement is met when

    - set: the resource has one of the required values;
    - capacity: the resource's value is at least the required one (the least of several). RFC7 says "greater", but
      4000 must fit 4000 (ADR 7). Of several values of a resource, the least counts;
    - exact: the resource has only required values.

    Args:
        requirements: in canonical form.
        parameters: as ``parameters.effective`` returns them.
        kinds, units: see Kinds and Units.
        spelled: names for the sentences, by case-folded name.

    Source: RFC7, the list after the example.
    """
    return tuple(
        _sentence(spelled.get(name, name), value, parameters.get(name), unit=units.get(name, ""))
        for name, value in requirements.items()
        if not meets(name, value, parameters.get(name), kinds)
    )


def meets(name: str, asked: Value, offered: Value | None, kinds: Kinds) -> bool:
    """Return whether a resource with value *offered* (None: no value) under *name* meets the requirement."""
    return offered is not None and RequiredValue.of(name, asked, kinds).is_met_by(Offered.of(offered))


class Offered(NamedTuple):
    """The value of a resource, prepared for comparison."""

    has: frozenset[Identity]
    #: The least number; None: not all of its values are numbers.
    capacity: float | None

    @classmethod
    def of(cls, value: Value) -> Self:
        """Return the prepared form of a canonical *value*."""
        scalars = values_of(value)
        numbers = [scalar for scalar in scalars if is_number(scalar)]
        return cls(frozenset(map(identity, scalars)), min(numbers) if len(numbers) == len(scalars) else None)


class RequiredValue(NamedTuple):
    """One requirement, prepared for comparison with many resources."""

    kind: RequirementKind
    asked_for: frozenset[Identity]
    #: The least required number; None: no number is required.
    least: float | None

    @classmethod
    def of(cls, name: str, asked: Value, kinds: Kinds) -> Self:
        """Return the prepared form of the requirement *asked* under *name*."""
        # NB: canonical requirements from the database have lists in place of tuples.
        required = tuple(asked) if isinstance(asked, tuple | list) else (asked,)
        numbers = [scalar for scalar in required if is_number(scalar)]
        kind = kinds.get(name) or _kind_by_value(required)
        return cls(kind, frozenset(map(identity, required)), min(numbers, default=None))

    def is_met_by(self, offered: Offered) -> bool:
        """Return whether the resource meets the requirement."""
        match self.kind:
            case RequirementKind.CAPACITY:
                return self.least is not None and offered.capacity is not None and self.least <= offered.capacity
            case RequirementKind.EXACT:
                return offered.has <= self.asked_for
            case RequirementKind.SET:
                return not offered.has.isdisjoint(self.asked_for)


def _kind_by_value(required: tuple[Scalar, ...]) -> RequirementKind:
    return RequirementKind.CAPACITY if len(required) == 1 and is_number(required[0]) else RequirementKind.SET


class Misses(StrEnum):
    """The reason why a resource does not meet a requirement."""

    NOT_DESCRIBED = "not_described"
    TOO_SMALL = "too_small"
    NOT_A_NUMBER = "not_a_number"
    NOT_AMONG = "not_among"
    OTHER_VALUE = "other_value"


def how_missed(name: str, asked: Value, offered: Value | None, kinds: Kinds) -> Misses | None:
    """Return why a resource with value *offered* (None: no value) does not meet the requirement; None: it does."""
    if offered is None:
        return Misses.NOT_DESCRIBED
    demand, there = RequiredValue.of(name, asked, kinds), Offered.of(offered)
    if demand.is_met_by(there):
        return None
    match demand.kind:
        case RequirementKind.CAPACITY:
            return Misses.NOT_A_NUMBER if there.capacity is None else Misses.TOO_SMALL
        case RequirementKind.SET:
            return Misses.NOT_AMONG
    return Misses.OTHER_VALUE


def in_words(value: object, *, unit: str = "") -> str:
    """Return a value as readable text, such as "4000 MB" or "AppVersion1 or AppVersion2"."""
    several = value if isinstance(value, tuple | list) else (value,)
    words = " or ".join(map(_word, several))
    return f"{words} {unit}" if unit and all(map(is_number, several)) else words


def _word(scalar: object) -> str:
    if isinstance(scalar, bool):
        return str(scalar).lower()
    # A text that looks like a number gets quotes; otherwise a sentence could say "4000 there, 4000 required".
    return f'"{scalar}"' if isinstance(scalar, str) and _MISLEADING.fullmatch(scalar) else str(scalar)


def requirements_in_words(requirements: Mapping[str, object], *, units: Units = NO_UNITS) -> str:
    """Return requirements as readable text, such as "Memory = 4000 MB and CPUModel = Xeon"; names stay as spelled."""
    return " and ".join(
        f"{name} = {in_words(value, unit=units.get(folded_name(name), ''))}" for name, value in requirements.items()
    )


def _sentence(name: str, asked: Value, offered: Value | None, *, unit: str) -> str:
    if offered is None:
        return f"{name}: not described there, {in_words(asked, unit=unit)} required"
    return f"{name}: {in_words(offered, unit=unit)} there, {in_words(asked, unit=unit)} required"
