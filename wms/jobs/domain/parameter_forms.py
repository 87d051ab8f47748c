"""The attributes ``Parameters``, ``ParameterStart`` … of JDL and CFG, joined into the field ``parameters``."""

from collections.abc import Callable, Mapping
from typing import Final

from resources.domain.classad import ClassAdError
from wms.jobs.domain.jdl_fields import number_in, whole_number_in

#: (part of a counted sequence, attribute, its default here, that in DIRAC).
_DEFAULTS_UNLIKE_DIRAC: Final = (("start", "ParameterStart", 0, 1), ("step", "ParameterStep", 1, 0))


class ParameterForms:
    """Collects the attributes of sequences.

    Args:
        value_of: returns the value of an attribute.
        error: returns an error, with a sentence, at the name of an attribute.
    """

    def __init__(self, value_of: Callable[[str], object], error: Callable[[str, str], ClassAdError]) -> None:
        self._value_of = value_of
        self._error = error
        #: {sequence: {part: attribute}}.
        self._sequences: dict[str, dict[str, str]] = {}

    def __bool__(self) -> bool:
        """Return whether the description is parametric."""
        return bool(self._sequences)

    def add(self, attribute: str, *, sequence: str, part: str) -> None:
        """Add an attribute."""
        self._sequences.setdefault(sequence.lower(), {})[part] = attribute

    def joined(self, warnings: list[str]) -> object:
        """Return the field, empty without any attribute; add to the warnings."""
        forms: dict[str, dict[str, object]] = {}
        number = self._number_of_jobs()
        for parts in self._sequences.values():
            first = next(iter(parts.values()))
            _, dot, sequence = parts.get("", first).partition(".")
            if "" not in parts and number is None:
                needed = f"`Parameters{dot}{sequence}`, the number of jobs or the list of their values."
                raise self._error(first, f"`{first}` requires {needed}")
            form = {part: self._part(part, name) for part, name in parts.items()}
            values = form.pop("", number)
            if not isinstance(values, list) and form:
                _warn_of_defaults(warnings, dot + sequence, given=form)
            forms[sequence] = {"values" if isinstance(values, list) else "count": values, **form}
        if forms.get("") == {"count": number} and len(forms) > 1 and _is_length(number, forms):
            del forms[""]
        return forms if len(forms) > 1 else forms.get("", forms)

    def _part(self, part: str, name: str) -> object:
        """Return the value of an attribute; a number may be in quotes, that of jobs may be a whole real."""
        value = self._value_of(name)
        number = number_in(value) if part else whole_number_in(value)
        return value if number is None else number

    def _number_of_jobs(self) -> int | None:
        """Return ``Parameters``, if it is the number of jobs."""
        name = self._sequences.get("", {}).get("")
        return None if name is None else whole_number_in(self._value_of(name))


def _is_length(number: int | None, forms: Mapping[str, Mapping[str, object]]) -> bool:
    """Return whether every named sequence has this many values, so that the number says nothing more."""
    named = [form for sequence, form in forms.items() if sequence]
    lists = [values for form in named if isinstance(values := form.get("values"), list)]
    lengths = [*map(len, lists), *[form.get("count", number) for form in named]]
    return all(length == number for length in lengths)


def _warn_of_defaults(warnings: list[str], suffix: str, *, given: Mapping[str, object]) -> None:
    for part, name, here, in_dirac in _DEFAULTS_UNLIKE_DIRAC:
        if part not in given:
            attribute = f"{name}{suffix}"
            warnings.append(
                f"{attribute} is not given: it is {here} here, and {in_dirac} in DIRAC. "
                f"Write {attribute} = … to be clear."
            )
