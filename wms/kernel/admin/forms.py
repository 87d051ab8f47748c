"""Forms of the admin and their fields: they match the columns, name violated constraints, and list changes."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from django import forms
from django.contrib.admin.widgets import AdminTextInputWidget
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.forms import SimpleArrayField
from django.core.exceptions import ValidationError
from django.db.models import Field, Model

from wms.kernel.names import changed_names, composed, in_full, values_in_words
from wms.kernel.rest.strict_json import InvalidJSONError, load_json

M = TypeVar("M", bound=Model)
#: Of any type of values.
Column: TypeAlias = "Field[Any, Any]"

if TYPE_CHECKING:

    class GenericModelForm(forms.ModelForm[M]):
        """Django's class, as the type checker sees it."""
else:

    class GenericModelForm(forms.ModelForm, Generic[M]):
        """Django's class, which takes no type parameter at run time."""


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

    def to_python(self, value: object) -> Any:  # noqa: ANN401 - JSON is anything
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


def labels_of(model: type[Model]) -> Mapping[str, str]:
    """Return {column: its label}: forms label only the fields that can be changed."""
    return {column.name: label_of(column) for column in (*model._meta.fields, *model._meta.many_to_many)}


class ConstraintsInWords(GenericModelForm[Model]):
    """A form that explains a violated constraint, where Django would show the constraint's name."""

    #: {name of the constraint: (field beside which the sentence is shown, sentence)}.
    constraint_words: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType({})

    def _update_errors(self, errors: ValidationError) -> None:
        # NB: Django's hook for errors of model validation; there is no public one.
        names = {str(each.get_violation_error_message()): each.name for each in self.instance._meta.constraints}
        by_django: dict[str, list[ValidationError]] = {}
        for place, problems in errors.error_dict.items():
            for problem in problems:
                name = names.get(str(problem.message))
                if name is None:
                    by_django.setdefault(place, []).append(problem)
                    continue
                field, sentence = self.constraint_words.get(name, (place, _as_sentence(name)))
                self.add_error(field if field in self.fields else None, sentence)
        if by_django:
            super()._update_errors(ValidationError(by_django))  # type: ignore[misc]  # not in the stubs


def _as_sentence(name: str) -> str:
    """Return an error sentence made from the name of a constraint; constraints are named after their invariants."""
    return f"This must hold: {name.replace('_', ' ')}."


def changes_of(
    form: forms.Form,
    formsets: "Iterable[forms.BaseFormSet[forms.Form]]",
    *,
    named: Callable[[Model], str],
    logged_values: Collection[str] = (),
) -> dict[str, object]:
    """Return the changes by a form and the tables of its page: {field: change}.

    A change is the new value of a flag or choice, the old and new values of a field of *logged_values*, the added and
    removed names of another list or object ("+a", "-b"), and for anything else the word "changed": texts and numbers
    may be secrets, names of options are not. A form may add what a change does, as its attribute ``effects``.
    """
    changes = {
        name: change
        for name in form.changed_data
        if (change := _change_of(form, name, has_values=name in logged_values)) not in ([], {})
    }
    for formset in formsets:
        if not isinstance(formset, forms.BaseModelFormSet) or formset.model is None:
            continue
        added = [f"+{named(row)}" for row in formset.new_objects]
        changed = [f"~{named(row)}" for row, _ in formset.changed_objects]
        removed = [f"-{named(row)}" for row in formset.deleted_objects]
        if rows := [*added, *changed, *removed]:
            changes[str(formset.model._meta.verbose_name_plural)] = rows
    return {**changes, **getattr(form, "effects", {})}


def _change_of(form: forms.Form, name: str, *, has_values: bool) -> object:
    field, before, after = form.fields.get(name), form.initial.get(name), form.cleaned_data.get(name)
    if isinstance(after, bool):
        return after
    if has_values:
        if isinstance(field, forms.ModelChoiceField) and field.queryset is not None and isinstance(before, int):
            before = field.queryset.filter(pk=before).first()
        return values_in_words(before, after)
    names = changed_names(before, after)
    if names is not None:
        return names
    return str(after) if isinstance(field, forms.ChoiceField) else "changed"


class PlainFloatField(forms.FloatField):
    """A number, shown as it was configured: 1000, not 1000.0."""

    def prepare_value(self, value: object) -> object:
        """Return the text to edit."""
        return in_full(value) if isinstance(value, float) else value
