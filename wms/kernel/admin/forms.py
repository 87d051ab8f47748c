"""Forms of the admin: violated constraints in words, and what a form changes."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Model

from wms.kernel.log_lines import changed_names


class ConstraintsInWords(forms.ModelForm):  # type: ignore[type-arg]  # at run time it takes no parameter
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
            super()._update_errors(ValidationError(by_django))  # type: ignore[misc]


def _as_sentence(name: str) -> str:
    """Return an error sentence made from the name of a constraint; constraints are named after their invariants."""
    return f"This must hold: {name.replace('_', ' ')}."


def changes_of(form: Any, formsets: Iterable[Any], *, named: Callable[[Model], str]) -> dict[str, object]:  # noqa: ANN401 - forms of any model
    """Return the changes by a form and the tables of its page: {field: change}.

    A change is the new value of a flag or choice, the added and removed names of a list or object ("+a", "-b"), and
    for anything else the word "changed": texts and numbers may be secrets, names of options are not.
    """
    changes = {name: change for name in form.changed_data if (change := _change_of(form, name)) != []}
    for formset in formsets:
        added = [f"+{named(row)}" for row in formset.new_objects]
        changed = [f"~{named(row)}" for row, _ in formset.changed_objects]
        removed = [f"-{named(row)}" for row in formset.deleted_objects]
        if rows := [*added, *changed, *removed]:
            changes[str(formset.model._meta.verbose_name_plural)] = rows
    return changes


def _change_of(form: Any, name: str) -> object:  # noqa: ANN401 - a form of any model
    field, before, after = form.fields.get(name), form.initial.get(name), form.cleaned_data.get(name)
    if isinstance(after, bool):
        return after
    names = changed_names(before, after)
    if names is not None:
        return names
    return str(after) if isinstance(field, forms.ChoiceField) else "changed"
