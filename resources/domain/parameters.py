"""Parameters of resources: allowed values, and their inheritance from site to CE to queue (RFC7, RFC 5)."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

from wms.kernel.names import composed, did_you_mean

#: A single value; a number is finite and within ±2^63.
Scalar = str | int | float | bool
#: A list has no order and no duplicates; a list of one element equals that element.
Value = Scalar | tuple[Scalar, ...]
Parameters = Mapping[str, Value]
#: Key for the equality and order of scalars.
Identity = tuple[str, float | int, str]

MAX_NAME_LENGTH = 128
MAX_TEXT_LENGTH = 1024
MAX_VALUES = 1000
#: Characters that PostgreSQL's jsonb or JSON of other languages cannot store.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_LARGEST = 2**63


class ValueProblem(ValueError):  # noqa: N818 - a sentence on its way to a caller that knows the field
    """A parameter's name or value is not allowed; the text is the reason."""


def canonical_name(name: object) -> str:
    """Return the name in the form for comparisons: case-folded and in Unicode's NFC.

    Raises:
        ValueProblem: it is not a valid name.
    """
    # Normalised again, because case folding may decompose.
    folded = composed(composed(name).strip().casefold()) if isinstance(name, str) else ""
    if not 1 <= len(folded) <= MAX_NAME_LENGTH or _UNSTORABLE.search(folded):
        raise ValueProblem(f"a name is a text of 1 to {MAX_NAME_LENGTH} characters")
    return folded


def folded_name(name: object) -> str:
    """Return ``canonical_name``, or an empty string if it is not a valid name."""
    try:
        return canonical_name(name)
    except ValueProblem:
        return ""


def canonical_value(value: object) -> Value:
    """Return the canonical form of *value*: integers without a fraction, lists sorted and without duplicates.

    Raises:
        ValueProblem: it is not a scalar or a non-empty list of scalars, or is out of range.
    """
    if not isinstance(value, Sequence | AbstractSet) or isinstance(value, str | bytes):
        return _canonical_scalar(value)
    if not value:
        raise ValueProblem("an empty list matches nothing; leave the name out or give a value")
    if len(value) > MAX_VALUES:
        raise ValueProblem(f"a list holds at most {MAX_VALUES} values")
    scalars = tuple(sorted({identity(scalar): scalar for scalar in map(_canonical_scalar, value)}.items()))
    return scalars[0][1] if len(scalars) == 1 else tuple(scalar for _, scalar in scalars)


def _canonical_scalar(value: object) -> Scalar:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if len(value) > MAX_TEXT_LENGTH or _UNSTORABLE.search(value):
            raise ValueProblem(f"a text holds at most {MAX_TEXT_LENGTH} characters and none of them is NUL")
        return composed(value)
    if isinstance(value, int | float):
        if not -_LARGEST <= value < _LARGEST:  # NB: also true of NaN
            raise ValueProblem("a number is finite and fits in 64 bits")
        return int(value) if value == int(value) else value
    raise ValueProblem("use a text, a number, true or false, or a list of these")


def identity(scalar: Scalar) -> Identity:
    """Return the key for equality: ``true`` differs from 1, and so does ``"1"``."""
    if isinstance(scalar, bool):
        return ("boolean", scalar, "")
    if isinstance(scalar, str):
        return ("text", 0, scalar)
    return ("number", scalar, "")


def values_of(value: Value) -> tuple[Scalar, ...]:
    """Return the value as a tuple; a scalar becomes a tuple of one."""
    return value if isinstance(value, tuple) else (value,)


def canonical(parameters: Mapping[str, object]) -> Parameters:
    """Return the parameters of one level in canonical form, sorted by name.

    Invalid entries (of a row written by hand) are left out, so that a resource does not offer them.
    """
    valid: dict[str, Value] = {}
    for name, value in parameters.items():
        try:
            valid[canonical_name(name)] = canonical_value(value)
        except ValueProblem:
            continue
    return dict(sorted(valid.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelParameters:
    """The parameters of one level: for every VO, and for one VO."""

    general: Mapping[str, object] = field(default_factory=dict)
    of_vo: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def read(cls, general: object, by_vo: object, *, vo: str | None) -> "LevelParameters":
        """Return the parameters from the two JSON columns of a level, whose content may be invalid."""
        of_vo = by_vo.get(vo) if isinstance(by_vo, Mapping) and vo is not None else None
        return cls(
            general=general if isinstance(general, Mapping) else {},
            of_vo=of_vo if isinstance(of_vo, Mapping) else {},
        )


def unserved_vos(
    vo_parameters: Mapping[str, object], *, before: Collection[str], served: Collection[str]
) -> Iterator[str]:
    """Yield a sentence on each new VO of parameters that the site does not serve: no job would be compared with them.

    Args:
        vo_parameters: {VO: parameters} of a level.
        before: the VOs of the stored ones.
        served: the VOs that the site serves.
    """
    for name in sorted(vo_parameters.keys() - {*before} - {*served}):
        yield f'the site serves no VO "{name}".{did_you_mean(name, served)}'


def inherit(inherited: Parameters, level: LevelParameters) -> Parameters:
    """Return the parameters in force at *level*, from those in force one level further out."""
    return {**inherited, **canonical(level.general), **canonical(level.of_vo)}


def effective(*levels: LevelParameters) -> Parameters:
    """Return the parameters in force for one VO.

    Args:
        levels: site, then computing element, then queue.

    Returns:
        {case-folded name: value}. The innermost level with a value decides (queue over CE over site), and within a
            level the VO's value over the general one. A list replaces the inherited one, it does not merge.

    Source: RFC7, paragraph 6 ("queues are inheriting parameters …"); ADR 6.
    """
    nothing: Parameters = {}
    return reduce(inherit, levels, nothing)


class InForce(NamedTuple):
    """The parameters in force for several VOs."""

    #: Those with equal values for all of the VOs.
    common: Parameters
    #: The others, by VO; VOs without any are missing.
    own: Mapping[str, Parameters]


def in_force(by_vo: Mapping[str, Parameters]) -> InForce:
    """Separate the parameters that are equal for all VOs from the others.

    Args:
        by_vo: results of ``effective``, by the name of the VO.
    """
    every = list(by_vo.values())
    # By identity: True equals 1 in Python, but not as a parameter.
    common = {
        name: value
        for name, value in (every[0] if every else {}).items()
        if all(other is every[0] or _says(other, name, value) for other in every[1:])
    }
    own = {
        vo: {name: value for name, value in parameters.items() if name not in common}
        for vo, parameters in by_vo.items()
    }
    return InForce(common, {vo: parameters for vo, parameters in own.items() if parameters})


def _says(parameters: Parameters, name: str, value: Value) -> bool:
    own = parameters.get(name)
    return own is not None and [*map(identity, values_of(own))] == [*map(identity, values_of(value))]


def problems_of(parameters: object) -> Mapping[str, str]:
    """Return {name: sentence} for the faults of one level's parameters; '' stands for the whole."""
    if not isinstance(parameters, Mapping):
        return {"": "use names with their values"}
    sentences: dict[str, str] = {}
    spellings: dict[str, object] = {}
    for name, value in parameters.items():
        try:
            folded = canonical_name(name)
            canonical_value(value)
        except ValueProblem as problem:
            sentences[str(name)] = str(problem)
            continue
        if folded in spellings:
            sentences[str(name)] = f'"{spellings[folded]}" is the same name; case is ignored'
        spellings[folded] = name
    return sentences


def names_in(parameters: object, by_vo: object) -> frozenset[str]:
    """Return the names of the parameters of a place: those for all VOs, and those of any VO."""
    groups = [parameters, *(by_vo.values() if isinstance(by_vo, Mapping) else ())]
    return frozenset(str(name) for group in groups if isinstance(group, Mapping) for name in group)
