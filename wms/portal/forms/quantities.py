"""Fields for times and sizes with their units, such as ``90 min`` and ``2 GB``; REST and JDL have seconds and MB."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from types import MappingProxyType
from typing import Final

from django import forms

_PART: Final = re.compile(r"\s*(?P<number>[0-9]{1,15}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})\s*(?P<unit>[A-Za-z]*)\s*")
_MOST_CHARACTERS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A kind of quantity: its units and how numbers of its smallest unit are written."""

    #: {unit in lower case: numbers of the smallest unit}.
    units: Mapping[str, Fraction]
    #: Units in which values are shown, the largest first, and the decimals of each.
    shown_in: tuple[tuple[str, int], ...]
    #: Unit of a number without one, and its word.
    plain_unit: str
    plain_word: str
    #: A larger number without a unit is a mistake: it is in the smallest unit, as in REST and JDL.
    most_plain: int
    smallest: str
    example: str

    def parsed(self, text: str) -> int:
        """Return the quantity in its smallest unit, rounded up.

        Raises:
            ValueError: with a sentence for the user.
        """
        parts = _parts_of(text)
        if not parts:
            raise ValueError(f"Write a number and a unit, such as {self.example}.")
        total = Fraction(0)
        for number, unit in parts:
            if not unit and len(parts) > 1:
                raise ValueError(f"Each number needs a unit, such as {self.example}.")
            if not unit and number > self.most_plain:
                meant = f"write {text} {self.smallest}, or {self.example}"
                raise ValueError(f"{text} without a unit would be {self.plain_word}; {meant}.")
            factor = self.units.get((unit or self.plain_unit).lower())
            if factor is None:
                raise ValueError(f'"{unit[:20]}" is not a unit; write for example {self.example}.')
            total += number * factor
        return ceil(total)

    def written(self, value: int) -> str:
        """Return the value in the largest unit in which it has few decimals."""
        for unit, decimals in self.shown_in:
            scaled = Fraction(value) / self.units[unit.lower()] * 10**decimals
            if scaled.denominator == 1 and scaled >= 10**decimals:
                return f"{float(scaled) / 10**decimals:.{decimals}f}".removesuffix(".0") + f" {unit}"
        return f"{value} {self.smallest}"


def _parts_of(text: str) -> list[tuple[Fraction, str]]:
    """Return the numbers of the text with their units; empty: it has another form."""
    if len(text) > _MOST_CHARACTERS:
        return []
    parts = []
    end = 0
    while end < len(text):
        match = _PART.match(text, end)
        if match is None:
            return []
        parts.append((Fraction(match["number"]), match["unit"]))
        end = match.end()
    return parts


def _units(names: Mapping[str, Fraction | int]) -> Mapping[str, Fraction]:
    return MappingProxyType({name: Fraction(factor) for words, factor in names.items() for name in words.split()})


DURATION: Final = Quantity(
    units=_units(
        {
            "s sec secs second seconds": 1,
            "m min mins minute minutes": 60,
            "h hour hours": 3600,
            "d day days": 86400,
        }
    ),
    shown_in=(("h", 0), ("min", 0)),
    plain_unit="h",
    plain_word="hours",
    # Above the longest queues; the default of REST, 86400, is not taken for hours.
    most_plain=1000,
    smallest="s",
    example="24 h or 90 min",
)
SIZE: Final = Quantity(
    units=_units(
        {
            "mb m": 1,
            "gb g": 1000,
            "tb t": 1000**2,
            "mib": Fraction(2**20, 10**6),
            "gib": Fraction(2**30, 10**6),
            "tib": Fraction(2**40, 10**6),
        }
    ),
    shown_in=(("GB", 1),),
    plain_unit="gb",
    plain_word="gigabytes",
    # Above the memory of slots; 2000 is not taken for gigabytes.
    most_plain=1000,
    smallest="MB",
    example="2 GB or 500 MB",
)


class QuantityField(forms.CharField):
    """A quantity with its unit; left empty: *least*, unless it is required."""

    def __init__(
        self,
        quantity: Quantity,
        *,
        least: int,
        most: int,
        required: bool,
        label: str,
        help_text: str,
        initial: int | None = None,
    ) -> None:
        super().__init__(required=required, label=label, help_text=help_text, initial=initial)
        self._quantity = quantity
        self._least = least
        self._most = most

    def prepare_value(self, value: object) -> object:
        """Return the text of the input: what the user wrote, or a number with its unit; 0 is left empty."""
        return self._quantity.written(value) if isinstance(value, int) and value else value or ""

    def clean(self, value: object) -> int:
        """Return the number of the smallest unit."""
        text = str(super().clean(value))
        if not text:
            return self._least
        try:
            number = self._quantity.parsed(text)
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error
        for bound, beyond, word in (
            (self._least, number < self._least, "least"),
            (self._most, number > self._most, "most"),
        ):
            if beyond:
                raise forms.ValidationError(f"Write at {word} {self._quantity.written(bound)}.")
        return number
