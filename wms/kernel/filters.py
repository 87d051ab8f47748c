"""Filters of django-filter that several lists share: by name, and by a time with its zone."""

from datetime import UTC, datetime
from typing import TypeVar, cast

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.utils.dateparse import parse_datetime
from django_filters import CharFilter, IsoDateTimeFilter

from wms.kernel.names import composed

M = TypeVar("M", bound=Model)


class NameField(forms.CharField):
    """A name, normalised to Unicode's NFC."""

    def to_python(self, value: object) -> str:
        """Return the name in NFC."""
        if isinstance(value, bool | dict | list):
            raise ValidationError("Not a valid string.")
        return composed(super().to_python(value) or "")


class NameFilter(CharFilter):
    """Rows with exactly this name."""

    field_class = NameField


class PatternFilter(NameFilter):
    """Rows with a name that matches a pattern, in which each ``*`` stands for any characters."""

    def filter(self, qs: QuerySet[M], value: str) -> QuerySet[M]:
        """Return the matching rows."""
        if "*" not in value:
            return cast("QuerySet[M]", super().filter(qs, value))
        return qs.filter(**{f"{self.field_name}__like": value})


class ZonedTimeField(forms.Field):
    """A time in RFC 3339 with its zone: without one it would depend on the machine."""

    def to_python(self, value: object) -> datetime | None:
        """Return the time, in UTC; None: no filter."""
        if value in self.empty_values:
            return None
        try:
            moment = parse_datetime(value) if isinstance(value, str) else None
            if moment is not None and moment.tzinfo is not None:
                # In UTC: PostgreSQL accepts no offset of 16 hours or more.
                return moment.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
        sentence = "Write a time with its zone, such as 2026-06-01T12:00:00Z (in an address, + is written %2B)."
        raise ValidationError(sentence)


class ZonedTimeFilter(IsoDateTimeFilter):
    """Rows before or after a time, by its lookup."""

    field_class: type[forms.Field] = ZonedTimeField
