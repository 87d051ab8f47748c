"""Checks of single fields of JSON written by users; all faults are collected by field."""

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from wms.kernel.names import composed_names, is_one_line
from wms.wire.units import in_units

MAX_NAME: Final = 255
MAX_ENTRIES: Final = 1000
MAX_NUMBER: Final = 2**63 - 1

Scalar: TypeAlias = str | int | float | bool

_UNSTORABLE: Final = re.compile(r"[\x00\ud800-\udfff]")  # PostgreSQL stores neither NUL nor a lone surrogate
_SHOWN_CHARACTERS: Final = 60
_MAX_FAULTS: Final = 5


class FieldReader:
    """Reads the fields of one object; faults are collected in ``errors`` as {field: sentences}.

    A missing or wrong field reads as its default, so that all fields are checked.

    Args:
        data: the object.
        names: fields that contain names; they are normalised to Unicode's NFC. File names and values for the payload
            are not.
    """

    def __init__(self, data: Mapping[str, object], *, names: Collection[str] = ()) -> None:
        self._data = data
        self._names = names
        self.errors: dict[str, list[str]] = {}

    def fault(self, field: str, sentence: str) -> None:
        """Add a fault of *field*; at most _MAX_FAULTS are kept."""
        sentences = self.errors.setdefault(field, [])
        if len(sentences) < _MAX_FAULTS:
            sentences.append(sentence)

    def text(self, field: str, default: str, *, most: int = MAX_NAME, empty: bool = False) -> str:
        """Read a text of one line, with at most *most* characters."""
        if field not in self._data:
            return default
        value = self._of(field)
        problem = _line_problem(value, most=most, empty=empty)
        if problem:
            self.fault(field, f"{field} must be {problem}.")
            return default
        return str(value)

    def whole(
        self,
        field: str,
        default: int,
        *,
        least: int,
        most: int,
        unit: str = "",
        units: Mapping[str, int] = MappingProxyType({}),
    ) -> int:
        """Read a whole number from *least* to *most*, or a text with a number and one of these units."""
        if field not in self._data:
            return default
        value = self._data[field]
        # A text without a unit is a number in the wrong type.
        if units and isinstance(value, str) and not value.isdecimal():
            value = in_units(value, units) or value
        if type(value) is int and least <= value <= most:
            return value
        self.fault(field, f"{field} must be a whole number{unit} from {least} to {most}, not {shown(value)}.")
        return default

    def number(self, field: str, *, least: float, most: float, unit: str = "") -> float | None:
        """Read a number from *least* to *most*; None: missing or null."""
        value = self._data.get(field)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
            return float(value)
        self.fault(field, f"{field} must be a number{unit} from {least:g} to {most:g}, not {shown(value)}.")
        return None

    def flag(self, field: str) -> bool:
        """Read true or false, which is the default."""
        value = self._data.get(field, False)
        if not isinstance(value, bool):
            self.fault(field, f"{field} must be true or false, not {shown(value)}.")
            return False
        return value

    def names(self, field: str) -> tuple[str, ...]:
        """Read a list of non-empty lines."""
        if field not in self._data:
            return ()
        values = self._of(field)
        if not isinstance(values, list | tuple):
            hint = f" Write [{shown(values)}]." if isinstance(values, str) else ""
            self.fault(field, f"{field} must be a list of strings, not {shown(values)}.{hint}")
            return ()
        if len(values) > MAX_ENTRIES:
            self.fault(field, f"{field} must have at most {MAX_ENTRIES} entries, not {len(values)}.")
            return ()
        for number, value in enumerate(values, start=1):
            problem = _line_problem(value, most=MAX_NAME, empty=False)
            if problem:
                self.fault(field, f"Entry {number} of {field} must be {problem}.")
        return () if field in self.errors else tuple(values)

    def _of(self, field: str) -> object:
        value = self._data[field]
        return composed_names(value) if field in self._names else value

    def object(self, field: str, *, hint: str) -> Mapping[str, object]:
        """Read an object; its names are checked, its values not yet."""
        value = self._data.get(field, {})
        if not isinstance(value, Mapping):
            self.fault(field, f"{field} must be an object, not {shown(value)}. {hint}")
            return {}
        if len(value) > MAX_ENTRIES:
            self.fault(field, f"{field} must have at most {MAX_ENTRIES} names, not {len(value)}.")
            return {}
        for name in value:
            problem = _line_problem(name, most=MAX_NAME, empty=False)
            if problem:
                self.fault(field, f"A name in {field} must be {problem}.")
        return {} if field in self.errors else value


def free_text_problem(value: str, *, most_bytes: int) -> str:
    """Return what a text of several lines must be, if *value* is not; else an empty string."""
    if _UNSTORABLE.search(value):
        return "free of NUL characters and of halves of surrogate pairs"
    size = len(value) if value.isascii() else len(value.encode())
    return f"at most {most_bytes} bytes long, not {size}" if size > most_bytes else ""


def scalar_problem(value: object) -> str:
    """Return what a string, number or boolean must be, if *value* is not; else an empty string."""
    if isinstance(value, str):
        return _line_problem(value, most=MAX_NAME, empty=False)
    if isinstance(value, bool):
        return ""
    if isinstance(value, int | float):
        if isinstance(value, float) and not math.isfinite(value):
            return "a finite number"
        return "" if abs(value) <= MAX_NUMBER else f"a number between -{MAX_NUMBER} and {MAX_NUMBER}"
    return f"a string, a number or a boolean, not {shown(value)}"


def shown(value: object) -> str:
    """Return any value as a short, printable text for a sentence."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        short = value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "…"
        return '"' + "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in short) + '"'
    if isinstance(value, int):
        return str(value) if abs(value) <= MAX_NUMBER else "a number that large"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, Sequence) else f"a value of type {type(value).__name__}"


def _line_problem(value: object, *, most: int, empty: bool) -> str:
    if not isinstance(value, str):
        return f"a string, not {shown(value)}"
    if not value and not empty:
        return "a non-empty string"
    if len(value) > most:
        return f"at most {most} characters long, not {len(value)}"
    return "" if is_one_line(value) else f"free of control characters and line breaks, not {shown(value)}"
