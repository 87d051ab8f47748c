"""Fields that accept one JSON type each, where Django REST framework's own convert.

Its CharField turns 5 into "5", its IntegerField "5" into 5, its FloatField accepts "nan", its BooleanField "yes". For
query strings, whose values are all text, the framework's fields are right.
"""

import math
from collections.abc import Sequence
from typing import Any

from rest_framework import serializers

from wms.kernel.names import composed, did_you_mean, is_one_line
from wms.kernel.rest.strict_json import MAX_INTEGER, MIN_INTEGER


class Text(serializers.CharField):
    """A JSON string, unchanged: blanks at its ends are kept."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of the framework's field
        super().__init__(**{"trim_whitespace": False, **options})

    def to_internal_value(self, data: object) -> str:
        """Return the string."""
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Name(Text):
    """A JSON string that is a name, normalised to Unicode's NFC."""

    def to_internal_value(self, data: object) -> str:
        """Return the name in NFC."""
        return composed(super().to_internal_value(data))


class ReasonText(Text):
    """A JSON string that people are shown as a reason: one line, without blanks at its ends."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of the framework's field
        super().__init__(**{"trim_whitespace": True, **options})

    def to_internal_value(self, data: object) -> str:
        """Return the reason in NFC."""
        reason = composed(super().to_internal_value(data))
        if not is_one_line(reason):
            raise serializers.ValidationError("Write one line, without control characters.")
        return reason


class WholeNumber(serializers.IntegerField):
    """A JSON number without a fraction, of at most 63 bits."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of the framework's field
        super().__init__(**{"min_value": MIN_INTEGER, "max_value": MAX_INTEGER, **options})

    def to_internal_value(self, data: object) -> int:
        """Return the number; 3.0 is 3, as JSON does not distinguish them."""
        if isinstance(data, float) and data.is_integer():
            return int(data)
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return data


class Number(serializers.FloatField):
    """A JSON number."""

    def to_internal_value(self, data: object) -> float:
        """Return the number as a finite float."""
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        value = float(data)
        if not math.isfinite(value):
            self.fail("invalid")
        return value


class Flag(serializers.BooleanField):
    """JSON's true or false."""

    def to_internal_value(self, data: object) -> bool:
        """Return the flag."""
        if not isinstance(data, bool):
            self.fail("invalid", input=str(data)[:40])
        return data


_MAX_LENGTH = 255
_SHOWN = 64


class GroupBy(serializers.CharField):
    """A comma-separated list of the attributes by which rows are counted.

    Args:
        names: the available attributes.
        counted: plural of the rows, as a sentence begins with it: "Jobs".
        default_name: attribute used without the parameter, for the documentation.
    """

    def __init__(self, names: Sequence[str], *, counted: str, default_name: str) -> None:
        self._names, self._counted = names, counted
        help_text = f"Properties to count by, with commas: {', '.join(names)}; default {default_name}."
        super().__init__(required=False, max_length=_MAX_LENGTH, help_text=help_text)

    def to_internal_value(self, data: object) -> tuple[str, ...]:  # type: ignore[override]  # not one text
        """Return the names without duplicates, in their order."""
        names = [name.strip() for name in str(data).split(",")]
        for name in names:
            if name not in self._names:
                shown = name[:_SHOWN]
                hint = did_you_mean(shown, self._names) or f" Count by any of {', '.join(self._names)}."
                raise serializers.ValidationError(f'{self._counted} cannot be counted by "{shown}".{hint}')
        return tuple(dict.fromkeys(names))
