"""Strict input: unknown fields and wrong types are refused, never guessed."""

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, ClassVar, Self

from django.http import QueryDict
from rest_framework import serializers

from wms.kernel.names import did_you_mean
from wms.kernel.rest.strict_json import TYPE_NAMES

#: The framework's key for errors of the whole input.
NON_FIELD_ERRORS = "non_field_errors"
#: Unknown fields reported at most.
MAX_UNKNOWN_LISTED = 20
#: Characters: longer names are not compared with the known ones, as the comparison takes quadratic time.
MAX_COMPARED_LENGTH = 64


#: The set of known names is another object in each request: 2.5 kB each.
@lru_cache(maxsize=128)
def _hint(name: str, known: frozenset[str]) -> str:
    # Sorted: the suggestion among equally near names must not depend on the process.
    return did_you_mean(name, sorted(known))


def unknown_fields(names: Iterable[object], *, known: frozenset[str]) -> dict[str, list[str]]:
    """Return {name: [sentence]} for those of *names* that are not *known*, with the nearest known one."""
    unknown = sorted({str(name) for name in names} - known)[:MAX_UNKNOWN_LISTED]
    return {
        name[:MAX_COMPARED_LENGTH]: [
            "Unknown field." + (_hint(name, known) if len(name) <= MAX_COMPARED_LENGTH else "")
        ]
        for name in unknown
    }


def single_values(query: QueryDict) -> dict[str, object]:
    """Return a query string or a form with one value for each name.

    NB: from a QueryDict the framework's fields take the last of several values, and treat an empty one as missing.

    Raises:
        ValidationError: a name occurs twice, so that one value would be ignored.
    """
    twice = [name for name, values in query.lists() if len(values) > 1]
    if twice:
        raise serializers.ValidationError(
            {name[:MAX_COMPARED_LENGTH]: ["Given more than once; use it once."] for name in twice}
        )
    return dict(query.items())


def require_object(data: object) -> Mapping[str, object]:
    """Return *data*; raise the framework's ValidationError if it is not an object."""
    if not isinstance(data, Mapping):
        got = TYPE_NAMES.get(type(data), type(data).__name__)
        raise serializers.ValidationError({NON_FIELD_ERRORS: [f"Expected an object, got {got}."]})
    return data


class StrictSerializer(serializers.Serializer[Any]):
    """An object without unknown fields: they are refused, with the nearest known name."""

    #: Names that other code reads from the same input.
    known_elsewhere: ClassVar[frozenset[str]] = frozenset()

    def to_internal_value(self, data: object) -> dict[str, Any]:
        """Return the validated values, or raise with all errors at once."""
        data = require_object(data)
        known = frozenset(name for name, field in self.fields.items() if not field.read_only) | self.known_elsewhere
        unknown = unknown_fields(data, known=known)
        try:
            values: dict[str, Any] = super().to_internal_value(data)
        except serializers.ValidationError as error:
            # Unknown names first: a misspelt name is the reason why the right one is missing.
            if unknown and isinstance(error.detail, dict):
                raise serializers.ValidationError({**unknown, **error.detail}) from error
            raise
        if unknown:
            raise serializers.ValidationError(unknown)
        return values

    @classmethod
    def checked(cls, data: object, *, context: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Return the validated values of *data*, a body or a query string; raise the framework's ValidationError."""
        values = single_values(data) if isinstance(data, QueryDict) else data
        if values is None:
            raise serializers.ValidationError({NON_FIELD_ERRORS: ["No data provided"]})
        serializer = cls._shared() if context is None else cls(context=dict(context))
        validated: dict[str, Any] = serializer.run_validation(values)
        return validated

    @classmethod
    @cache
    def _shared(cls) -> Self:
        """Return the instance that validates all requests: the framework copies every field for a new one."""
        return cls()
