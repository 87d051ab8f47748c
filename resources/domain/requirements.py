"""Requirements of jobs on the parameters of resources, and the submit pools that they name (RFC7)."""

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
#: How names are compared, by case-folded name; a name that is missing is compared as its value suggests.
Kinds = Mapping[str, RequirementKind]

#: Units of capacities, such as MB, by case-folded name; for people, nothing is converted.
Units = Mapping[str, str]

NO_KINDS: Kinds = MappingProxyType({})
NO_UNITS: Units = MappingProxyType({})
NO_SPELLINGS: Mapping[str, str] = MappingProxyType({})
MAX_NAMES = 100
_FIELD = "requirements"
#: Texts that a reader would take for something else: for a number, for true or false, or for nothing.
_MISLEADING = re.compile(r"|\s.*|.*\s|[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|true|false", re.IGNORECASE | re.DOTALL)
_NO_EXPRESSIONS = (
    "expressions are not understood here; write a record of names and values, such as "
    '{"Memory": 4000, "SoftwareTag": ["AppVersion1", "AppVersion2"]}.'
)


class RequirementsError(RejectedError):
    """A job's requirements cannot be understood, or nothing could ever meet them."""

    code = "bad_requirements"


def _refused(problems: Mapping[str, list[str]]) -> RequirementsError:
    sentences = next(iter(problems.values()))
    return RequirementsError(sentences[0], errors=problems)


def _about(name: object, problem: str) -> dict[str, list[str]]:
    """Return the field error of one requirement; it names it as the user does, for texts are shown without fields."""
    return {f"{_FIELD}.{name}": [f"The requirement {shown(name)} {problem}"]}


def canonical(requirements: object) -> dict[str, Value]:
    """Return the one spelling of a job's requirements, so that equal ones are equal.

    Names are case-folded and sorted; a list is a sorted set, and one of one element is that element; numbers are in
    their shortest form. The values' case counts. What is already canonical (also as JSON) is left as it is.

    Raises:
        RequirementsError: field errors named ``requirements`` or ``requirements.Name``.

    Source: RFC7, "orders them alphabetically and creates a unique hash"; DESIGN §3.4.
    """
    if isinstance(requirements, str):
        raise _refused({_FIELD: [f"requirements: {_NO_EXPRESSIONS}"]})
    if not isinstance(requirements, Mapping):
        raise _refused({_FIELD: ['requirements: use a record of names and values, such as {"Memory": 4000}.']})
    if len(requirements) > MAX_NAMES:
        raise _refused({_FIELD: [f"requirements: at most {MAX_NAMES} names are accepted."]})
    found: dict[str, Value] = {}
    problems: dict[str, list[str]] = {}
    for name, value in requirements.items():
        try:
            folded = canonical_name(name)
            canonical_form = canonical_value(value)
        except ValueProblem as problem:
            problems |= _about(name, f"is not accepted: {problem}.")
            continue
        if folded in found:
            problems |= _about(name, "is given twice; the case of a name is ignored.")
        found[folded] = canonical_form
    if problems:
        raise _refused(problems)
    return dict(sorted(found.items()))


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
    """Refuse names that no resource carries and no definition knows, and values that cannot be compared.

    Args:
        requirements: as the user spelled them, for errors name them so.
        known: names as configured, in any case.
        kinds, units: see Kinds and Units.
        hint: returns where an unknown name belongs instead, with a leading space; empty: the nearest one is suggested.

    Raises:
        RequirementsError: it has no canonical form; or naming the nearest known name (a typing error would otherwise
            wait for ever).
    """
    wanted = canonical(requirements)
    stated = {canonical_name(name): name for name in requirements}
    spellings = {folded_name(name): name for name in known}
    problems: dict[str, list[str]] = {}
    for name, value in wanted.items():
        if name not in spellings:
            instead = hint(stated[name]) or did_you_mean(stated[name], spellings.values())
            problems |= _about(stated[name], f"is described by no resource of your VO.{instead}")
        elif problem := kind_problem(value, kind=kinds.get(name), unit=units.get(name, "")):
            problems |= _about(stated[name], f"{problem}.")
    if problems:
        raise _refused(problems)


def satisfied(requirements: Requirements, parameters: Parameters, kinds: Kinds = NO_KINDS) -> bool:
    """Return whether a resource with these parameters is eligible: nothing in ``unmet`` speaks against it."""
    return all(meets(name, value, parameters.get(name), kinds) for name, value in requirements.items())


def unmet(
    requirements: Requirements,
    parameters: Parameters,
    kinds: Kinds = NO_KINDS,
    units: Units = NO_UNITS,
    *,
    spelled: Mapping[str, str] = NO_SPELLINGS,
) -> tuple[str, ...]:
    """Return one sentence for each requirement that a resource does not meet; empty: it is eligible.

    A parameter that is absent is not met. By kind (the definition's, else: a number is a capacity, everything else a
    set) the others are met when

    - set: one of the values asked for is among the resource's;
    - capacity: the resource's is at least the value asked for (the least of several). RFC7 says "greater", but 4000
      must fit 4000 (ADR 7). A resource that gives several values promises only the least;
    - exact: the resource has no other value than those asked for.

    Args:
        requirements: in canonical form.
        parameters: as ``parameters.effective`` returns them.
        kinds, units: see Kinds and Units.
        spelled: how names are shown, by case-folded name; one that is missing is shown as it is.

    Source: RFC7, the list after the example.
    """
    return tuple(
        _sentence(spelled.get(name, name), value, parameters.get(name), unit=units.get(name, ""))
        for name, value in requirements.items()
        if not meets(name, value, parameters.get(name), kinds)
    )


def meets(name: str, asked: Value, offered: Value | None, kinds: Kinds) -> bool:
    """Return whether a resource that offers *offered* (None: nothing) under *name* meets what is asked of it."""
    return offered is not None and RequiredValue.of(name, asked, kinds).is_met_by(Offered.of(offered))


class Offered(NamedTuple):
    """The value of a resource, as demands are compared with it."""

    has: frozenset[Identity]
    #: The least; None: some of its values are no numbers.
    capacity: float | None

    @classmethod
    def of(cls, value: Value) -> Self:
        """Return the form of a canonical *value*."""
        scalars = values_of(value)
        numbers = [scalar for scalar in scalars if is_number(scalar)]
        return cls(frozenset(map(identity, scalars)), min(numbers) if len(numbers) == len(scalars) else None)


class RequiredValue(NamedTuple):
    """What one requirement asks, made once for many resources."""

    kind: RequirementKind
    asked_for: frozenset[Identity]
    #: The least capacity that will do; None: no number is asked for.
    least: float | None

    @classmethod
    def of(cls, name: str, asked: Value, kinds: Kinds) -> Self:
        """Return the demand of *asked* under *name*."""
        # NB: canonical requirements that come from the database have lists where tuples were.
        wanted = tuple(asked) if isinstance(asked, tuple | list) else (asked,)
        numbers = [scalar for scalar in wanted if is_number(scalar)]
        kind = kinds.get(name) or _kind_by_value(wanted)
        return cls(kind, frozenset(map(identity, wanted)), min(numbers, default=None))

    def is_met_by(self, offered: Offered) -> bool:
        """Return whether the resource has what is asked for."""
        match self.kind:
            case RequirementKind.CAPACITY:
                return self.least is not None and offered.capacity is not None and self.least <= offered.capacity
            case RequirementKind.EXACT:
                return offered.has <= self.asked_for
            case RequirementKind.SET:
                return not offered.has.isdisjoint(self.asked_for)


def _kind_by_value(wanted: tuple[Scalar, ...]) -> RequirementKind:
    return RequirementKind.CAPACITY if len(wanted) == 1 and is_number(wanted[0]) else RequirementKind.SET


class Misses(StrEnum):
    """In what way a resource does not meet a requirement."""

    NOT_DESCRIBED = "not_described"
    TOO_SMALL = "too_small"
    NOT_A_NUMBER = "not_a_number"
    NOT_AMONG = "not_among"
    OTHER_VALUE = "other_value"


def how_missed(name: str, asked: Value, offered: Value | None, kinds: Kinds) -> Misses | None:
    """Return in what way a resource that offers *offered* (None: nothing) misses what is asked; None: it meets it."""
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
    """Return a value as people read it, such as "4000 MB" or "AppVersion1 or AppVersion2"."""
    several = value if isinstance(value, tuple | list) else (value,)
    words = " or ".join(map(_word, several))
    return f"{words} {unit}" if unit and all(map(is_number, several)) else words


def _word(scalar: object) -> str:
    if isinstance(scalar, bool):
        return str(scalar).lower()
    # A text is not the number that it looks like: "4000 there, 4000 asked for" would help nobody.
    return f'"{scalar}"' if isinstance(scalar, str) and _MISLEADING.fullmatch(scalar) else str(scalar)


def requirements_in_words(requirements: Mapping[str, object], *, units: Units = NO_UNITS) -> str:
    """Return what is required as people read it, such as "Memory = 4000 MB and CPUModel = Xeon", names as spelled."""
    return " and ".join(
        f"{name} = {in_words(value, unit=units.get(folded_name(name), ''))}" for name, value in requirements.items()
    )


def _sentence(name: str, asked: Value, offered: Value | None, *, unit: str) -> str:
    if offered is None:
        return f"{name}: not described there, {in_words(asked, unit=unit)} asked for"
    return f"{name}: {in_words(offered, unit=unit)} there, {in_words(asked, unit=unit)} asked for"
