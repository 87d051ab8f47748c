"""Fields that accept one JSON type each, where Django REST framework's own convert.

Its CharField turns 5 into "5", its IntegerField "5" into 5, its FloatField accepts "nan", its BooleanField "yes". For
query strings, whose values are all text, the framework's fields are right.
"""

import math
from typing import Any

from rest_framework import serializers

from wms.kernel.names import composed
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
