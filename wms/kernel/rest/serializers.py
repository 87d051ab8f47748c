"""Input that is refused rather than guessed."""

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, ClassVar, Self

from django.http import QueryDict
from rest_framework import serializers

from wms.kernel.names import did_you_mean
from wms.kernel.rest.strict_json import TYPE_NAMES

#: Key of the framework for what concerns the whole input.
NON_FIELD_ERRORS = "non_field_errors"
#: More unknown fields than these are not listed: the first ones tell the story.
MAX_UNKNOWN_LISTED = 20
#: Longer names are not compared with the known ones: the comparison takes quadratic time.
MAX_COMPARED_LENGTH = 64


@lru_cache(maxsize=1024)
def _hint(name: str, known: frozenset[str]) -> str:
    # Sorted: which of two equally near names is suggested must not depend on the process.
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
    """Return a query string or a form as one value for each name.

    NB: from a QueryDict itself the framework's fields take the last of several values, and an empty one as left out.

    Raises:
        ValidationError: a name is there twice: one of the two would be ignored.
    """
    twice = [name for name, values in query.lists() if len(values) > 1]
    if twice:
        raise serializers.ValidationError(
            {name[:MAX_COMPARED_LENGTH]: ["Given more than once; use it once."] for name in twice}
        )
    return dict(query.items())


def require_object(data: object) -> Mapping[str, object]:
    """Return *data*, or raise the framework's ValidationError: it is no object."""
    if not isinstance(data, Mapping):
        got = TYPE_NAMES.get(type(data), type(data).__name__)
        raise serializers.ValidationError({NON_FIELD_ERRORS: [f"Expected an object, got {got}."]})
    return data


class StrictSerializer(serializers.Serializer[Any]):
    """An object of which every field is known: others are refused, with the nearest known name suggested."""

    #: Names that something else reads from the same input.
    known_elsewhere: ClassVar[frozenset[str]] = frozenset()

    def to_internal_value(self, data: object) -> dict[str, Any]:
        """Return the validated values, or raise with everything that is wrong at once."""
        data = require_object(data)
        known = frozenset(name for name, field in self.fields.items() if not field.read_only) | self.known_elsewhere
        unknown = unknown_fields(data, known=known)
        try:
            values: dict[str, Any] = super().to_internal_value(data)
        except serializers.ValidationError as error:
            # The unknown first: a misspelt name is why the right one is missing.
            if unknown and isinstance(error.detail, dict):
                raise serializers.ValidationError({**unknown, **error.detail}) from error
            raise
        if unknown:
            raise serializers.ValidationError(unknown)
        return values

    @classmethod
    def checked(cls, data: object, *, context: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the validated values of *data*, a body or a query string; raise the framework's ValidationError."""
        given = single_values(data) if isinstance(data, QueryDict) else data
        if given is None:
            raise serializers.ValidationError({NON_FIELD_ERRORS: ["No data provided"]})
        serializer = cls._shared() if context is None else cls(context=dict(context))
        values: dict[str, Any] = serializer.run_validation(given)
        return values

    @classmethod
    @cache
    def _shared(cls) -> Self:
        """Return the one that validates for all requests: the framework copies every field for each new one."""
        return cls()
