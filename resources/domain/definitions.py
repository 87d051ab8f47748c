"""Definitions of parameters, and the check that values of resources and requirements are comparable (RFC7)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeGuard

from resources.domain.enums import RequirementKind
from resources.domain.parameters import ValueProblem, canonical_name, canonical_value, folded_name, values_of

_NUMBER: Final = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The definition of one parameter: its kind of comparison, for some VOs or for all."""

    name: str
    kind: RequirementKind
    unit: str = ""
    #: Names of VOs; empty: all.
    vos: frozenset[str] = frozenset()

    def holds_for(self, vo: str) -> bool:
        """Return whether it applies to the VO of this name."""
        return not self.vos or vo in self.vos

    def holds_among(self, vos: Iterable[str]) -> bool:
        """Return whether it applies to one of these VOs; none given: to any."""
        named = frozenset(vos)
        return not self.vos or not named or not named.isdisjoint(self.vos)


@dataclass(frozen=True, slots=True, kw_only=True)
class MisfitValue:
    """A value of a level that is not comparable by its definition."""

    #: The VO whose parameters contain the value; None: those for all VOs.
    vo: str | None
    #: As spelled at the level.
    name: str
    definition: Definition
    #: The fault and the remedy: "is a capacity in MB; give a number".
    problem: str


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether *value* is a number; true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def kind_problem(value: object, *, kind: RequirementKind | None, unit: str = "") -> str:
    """Return why *value* is not comparable by *kind*, and the remedy; empty: it is.

    Only a capacity restricts its values: one number, or several, of 0 or more. Members of a set and exact values may be
    texts, numbers, true or false; a text and a number that look alike are different values (ADR 31).

    Args:
        value: a scalar or a list; values that are not allowed at all are ignored.
        kind: of the definition; None: there is no definition.
        unit: of the definition, for the sentence.
    """
    if kind is not RequirementKind.CAPACITY:
        return ""
    try:
        scalars = values_of(canonical_value(value))
    except ValueProblem:
        return ""
    in_unit = f" in {unit}" if unit else ""
    wrong = next((scalar for scalar in scalars if not is_number(scalar)), None)
    if isinstance(wrong, str) and _NUMBER.fullmatch(wrong):
        return f"is a capacity{in_unit}; give a number. Write {wrong.strip()}, without quotes"
    if wrong is not None:
        return f"is a capacity{in_unit}; give a number"
    if any(is_number(scalar) and scalar < 0 for scalar in scalars):
        return f"is a capacity{in_unit}; give a number. It must be 0 or more"
    return ""


def misfit_values(
    parameters: Mapping[str, object],
    vo_parameters: Mapping[str, object],
    *,
    serves: Iterable[str],
    definitions: Mapping[str, Definition],
) -> Iterator[MisfitValue]:
    """Yield each value of one level that is not comparable by its definition.

    Args:
        parameters: the level's, for all VOs that its site serves.
        vo_parameters: the level's, {VO: {name: value}}.
        serves: names of the VOs that the site serves; empty: all.
        definitions: by case-folded name.
    """
    levels: list[tuple[str | None, object]] = [(None, parameters), *vo_parameters.items()]
    for vo, values in levels:
        for name, value in values.items() if isinstance(values, Mapping) else ():
            definition = definitions.get(folded_name(name))
            if definition is None or not (definition.holds_among(serves) if vo is None else definition.holds_for(vo)):
                continue
            if problem := kind_problem(value, kind=definition.kind, unit=definition.unit):
                yield MisfitValue(vo=vo, name=name, definition=definition, problem=problem)


def by_folded_name(definitions: Iterable[Definition]) -> Mapping[str, Definition]:
    """Return the definitions in the form for ``misfit_values``."""
    return {canonical_name(definition.name): definition for definition in definitions}
