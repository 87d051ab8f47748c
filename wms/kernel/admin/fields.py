"""Form fields of the admin that match the columns."""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from django import forms
from django.contrib.admin.widgets import AdminTextInputWidget
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.forms import SimpleArrayField
from django.core.exceptions import ValidationError
from django.db.models import Field

from wms.kernel.names import composed
from wms.kernel.rest.strict_json import InvalidJSONError, load_json

#: Of any type of values.
Column: TypeAlias = "Field[Any, Any]"


class ComposedCharField(forms.CharField):
    """A text in Unicode's NFC, the form in which names are stored and compared."""

    def to_python(self, value: object) -> str | None:
        """Return the text in NFC."""
        text = super().to_python(value)
        return composed(text) if isinstance(text, str) else text


class NameListField(SimpleArrayField):
    """A comma-separated list of names; stored sorted, without duplicates and in NFC, as by the configuration file."""

    def clean(self, value: object) -> list[str]:
        """Return the names."""
        return sorted({composed(name) for name in super().clean(value)})


class ChoiceListField(forms.MultipleChoiceField):
    """A choice of several values; stored sorted."""

    widget = forms.CheckboxSelectMultiple

    def clean(self, value: object) -> list[str]:
        """Return the selected values."""
        return sorted(super().clean(value))


class StrictJSONField(forms.JSONField):
    """A JSON object that PostgreSQL can store: no NaN, no NUL, no duplicate name; an empty text is an empty object."""

    def to_python(self, value: object) -> object:
        """Return the parsed value."""
        if not isinstance(value, str):
            return super().to_python(value)
        if not value.strip():
            return {}
        try:
            parsed = load_json(value.encode("utf-8", "surrogatepass"))
        except InvalidJSONError as error:
            raise ValidationError(error.detail.replace("The body", "This")) from error
        # NB: checked here because Django runs no validator of the column for null, [] and "".
        if not isinstance(parsed, Mapping):
            raise ValidationError('Not an object: use names with their values, such as {"name": 1}; empty: none.')
        return super().to_python(value)

    def prepare_value(self, value: object) -> str:
        """Return the text to edit, one name per line."""
        return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def array_form_field(column: "ArrayField[Any, Any]") -> forms.Field:
    """Return the form field of an array column."""
    required, label, about = not column.blank, label_of(column), str(column.help_text)
    if column.base_field.choices:
        return ChoiceListField(choices=list(column.base_field.choices), required=required, label=label, help_text=about)
    item = column.base_field.formfield() or forms.CharField()
    return NameListField(
        item,
        max_length=1000,
        required=required,
        label=label,
        help_text=f"{about} Separate names with commas.".strip(),
        widget=AdminTextInputWidget,
    )


#: Spelling of words of column names in labels.
_WRITTEN = {"vo": "VO", "ce": "CE", "dn": "DN", "cpu": "CPU", "s": "(s)", "mb": "(MB)", "url": "URL"}


def label_of(column: Column) -> str:
    """Return the label of a column: ``cpu_time_s`` is "CPU time (s)", and so is "CPU time, s"."""
    words = " ".join(_WRITTEN.get(word, word) for word in str(column.verbose_name).replace(",", "").split())
    return words[:1].upper() + words[1:]
