"""Base classes of the admin pages: rights by row, bounded lists, and form fields that match the columns.

Django's table of permissions is not used. An operator may do everything; a manager of VOs may do what a class grants
to managers, only with the rows of their VOs.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar
from weakref import WeakKeyDictionary

from django import forms
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.exceptions import NotRegistered
from django.contrib.admin.widgets import AdminTextInputWidget
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.forms import SimpleArrayField
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.db import models
from django.db.models import Field, Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.functional import cached_property
from django.utils.text import capfirst

from wms.kernel.log_lines import changed_names
from wms.kernel.names import composed
from wms.kernel.rest.strict_json import InvalidJSONError, load_json

M = TypeVar("M", bound=Model)
What = Literal["view", "add", "change", "delete"]
Recorded = Literal["added", "changed", "deleted"]
EVERYTHING: frozenset[What] = frozenset({"view", "add", "change", "delete"})
#: Number of rows preventing a deletion that are named; the rest are counted.
MOST_PROTECTING = 20

if TYPE_CHECKING:

    class GenericModelAdmin(admin.ModelAdmin[M]):
        """Django's class, as the type checker sees it."""

    class GenericTabularInline(admin.TabularInline[M, Model], Generic[M]):
        """Django's class, as the type checker sees it."""
else:

    class GenericModelAdmin(admin.ModelAdmin, Generic[M]):
        """Django's class, which takes no type parameter at run time."""

    class GenericTabularInline(admin.TabularInline, Generic[M]):
        """Django's class, which takes no type parameter at run time."""


class CappedPaginator(Paginator):  # type: ignore[type-arg]  # at run time it takes no parameter
    """Pages of at most MOST rows in all: counting millions of rows takes seconds."""

    MOST = 10_000

    @cached_property
    def count(self) -> int:
        """Number of rows, or MOST."""
        rows = self.object_list
        return rows.order_by()[: self.MOST].count() if isinstance(rows, QuerySet) else len(rows)


# ---- Fields ----------------------------------------------------------------------------------------------------------


class ComposedCharField(forms.CharField):
    """A text in Unicode's NFC, the form in which names are stored and compared."""

    def to_python(self, value: Any) -> Any:  # noqa: ANN401 - Django's own
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

    def to_python(self, value: Any) -> Any:  # noqa: ANN401 - JSON is anything
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
            raise ValidationError('It is no object: use names with their values, such as {"name": 1}; empty: none.')
        return super().to_python(value)

    def prepare_value(self, value: Any) -> Any:  # noqa: ANN401 - JSON is anything
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
        help_text=f"{about} Names with commas.".strip(),
        widget=AdminTextInputWidget,
    )


#: Spelling of words of column names in labels.
_WRITTEN = {"vo": "VO", "ce": "CE", "dn": "DN", "cpu": "CPU", "s": "(s)", "mb": "(MB)", "url": "URL"}


def label_of(column: "Field[Any, Any]") -> str:
    """Return the label of a column: ``cpu_time_s`` is "CPU time (s)"."""
    words = " ".join(_WRITTEN.get(word, word) for word in str(column.verbose_name).split())
    return words[:1].upper() + words[1:]


class ConstraintsInWords(forms.ModelForm):  # type: ignore[type-arg]  # at run time it takes no parameter
    """A form that explains a violated constraint, where Django would show the constraint's name."""

    #: {name of the constraint: (field beside which the sentence is shown, sentence)}.
    constraint_words: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType({})

    def _update_errors(self, errors: ValidationError) -> None:
        # NB: Django's hook for errors of model validation; there is no public one.
        names = {str(each.get_violation_error_message()): each.name for each in self.instance._meta.constraints}  # noqa: SLF001 - Django's API
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


# ---- The security log ------------------------------------------------------------------------------------------------

#: Changes by the form of a request, kept between two of Django's hooks.
_changes: "WeakKeyDictionary[HttpRequest, Mapping[str, object]]" = WeakKeyDictionary()


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
            changes[str(formset.model._meta.verbose_name_plural)] = rows  # noqa: SLF001 - Django's API
    return changes


def _change_of(form: Any, name: str) -> object:  # noqa: ANN401 - a form of any model
    field, before, after = form.fields.get(name), form.initial.get(name), form.cleaned_data.get(name)
    if isinstance(after, bool):
        return after
    names = changed_names(before, after)
    if names is not None:
        return names
    return str(after) if isinstance(field, forms.ChoiceField) else "changed"


# ---- Rights ----------------------------------------------------------------------------------------------------------


class RowRights:
    """Rights by row; mixed into the classes of pages and of tables within pages.

    Subclasses define the caller's rights in ``sees_all`` and ``managed_vos``, and the rows of a manager of VOs in
    ``seen`` and ``managed``.
    """

    #: Actions allowed to operators.
    operators_may: ClassVar[frozenset[What]] = EVERYTHING
    #: Actions allowed to managers, on rows that they manage; "view" on rows that they see.
    managers_may: ClassVar[frozenset[What]] = frozenset()
    #: Relations whose choices, for a manager, are the managed rows rather than all visible ones.
    choose_managed: ClassVar[frozenset[str]] = frozenset()

    admin_site: admin.AdminSite

    def sees_all(self, request: HttpRequest) -> bool:
        """Return whether the caller is an operator."""
        raise NotImplementedError

    def managed_vos(self, request: HttpRequest) -> frozenset[int]:
        """Return the primary keys of the VOs that the user manages."""
        raise NotImplementedError

    def seen(self, vos: frozenset[int]) -> Q:
        """Return the condition of the rows that a manager of *vos* sees: by default those of ``managed``."""
        return self.managed(vos)

    def managed(self, vos: frozenset[int]) -> Q:  # noqa: ARG002 - for subclasses
        """Return the condition of the rows that a manager of *vos* may change and delete."""
        return Q(pk__in=[])

    def visible(self, request: HttpRequest, rows: QuerySet[M]) -> QuerySet[M]:
        """Return the rows that the user sees."""
        return rows if self.sees_all(request) else rows.filter(self.seen(self.managed_vos(request)))

    def short_name(self, row: Model) -> str:
        """Return the name of a row of a table on the page, for the security log."""
        return str(row)

    def record(self, request: HttpRequest, row: Model, what: Recorded, changes: Mapping[str, object]) -> None:
        """Write the user's action on the row to the security log.

        Args:
            request: of the user.
            row: after the change; before its deletion.
            what: the action.
            changes: by the form (``changes_of``).
        """
        raise NotImplementedError

    def changeable(self, request: HttpRequest, rows: QuerySet[M]) -> QuerySet[M]:
        """Return the rows that the user may change."""
        return rows if self.sees_all(request) else rows.filter(self.managed(self.managed_vos(request)))

    def may(self, what: What, request: HttpRequest, row: Model | None = None) -> bool:
        """Return whether the user may do *what*: on some row, or on this one."""
        if self.sees_all(request):
            return what in self.operators_may
        if what not in self.managers_may or not (vos := self.managed_vos(request)):
            return False
        if row is None or row.pk is None:
            return True
        rule = self.seen(vos) if what == "view" else self.managed(vos)
        return type(row)._default_manager.filter(rule, pk=row.pk).exists()  # noqa: SLF001 - Django's API

    def choices_of(self, column: "Field[Any, Any]", request: HttpRequest) -> QuerySet[Model] | None:
        """Return the rows that a relation may be set to; None: the model has no admin page."""
        remote = column.remote_field.model if column.remote_field else None
        try:
            page = self.admin_site.get_model_admin(remote) if isinstance(remote, type) else None
        except NotRegistered:
            page = None
        if page is None:
            return None
        rows = page.get_queryset(request)
        return (
            page.changeable(request, rows)
            if isinstance(page, RowRights) and column.name in self.choose_managed
            else rows
        )


class _Fields(RowRights):
    """Form fields of both kinds of admin class, with choices limited by the rights."""

    def formfield_for_dbfield(self, db_field: "Field[Any, Any]", request: HttpRequest, **kwargs: Any) -> Any:  # noqa: ANN401
        """Return the form field of a column."""
        if isinstance(db_field, ArrayField):
            return array_form_field(db_field)
        if (
            isinstance(db_field, models.CharField | models.TextField)
            and not db_field.choices
            and db_field.name != "url"
        ):
            kwargs.setdefault("form_class", ComposedCharField)
        if isinstance(db_field, models.JSONField):
            kwargs["form_class"] = StrictJSONField
        kwargs.setdefault("label", label_of(db_field))
        return super().formfield_for_dbfield(db_field, request, **kwargs)  # type: ignore[misc]  # of the class beside

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:  # noqa: ANN401
        """Limit the choices to the user's rights; any other posted value is refused."""
        self._limit(db_field, request, kwargs)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)  # type: ignore[misc]

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:  # noqa: ANN401
        """Limit the choices to the user's rights; any other posted value is refused."""
        self._limit(db_field, request, kwargs)
        return super().formfield_for_manytomany(db_field, request, **kwargs)  # type: ignore[misc]

    def _limit(self, db_field: Any, request: HttpRequest, kwargs: dict[str, Any]) -> None:  # noqa: ANN401
        rows = self.choices_of(db_field, request)
        if rows is not None:
            kwargs.setdefault("queryset", rows)


class SeenRelatedFilter(admin.RelatedFieldListFilter):
    """A filter by a relation that lists only the rows that the user sees."""

    def field_choices(self, field: Any, request: HttpRequest, model_admin: Any) -> Any:  # noqa: ANN401 - Django's own
        """Return [(key, name)] of the rows."""
        rows = model_admin.choices_of(field, request)
        limit = {} if rows is None else {"pk__in": rows.values("pk")}
        return field.get_choices(include_blank=False, limit_choices_to=limit, ordering=("name",))


def _names_without_a_page(site: admin.AdminSite) -> Mapping[str, str]:
    """Return {name: plural} of the models without a page or a table on one: the system's internal records.

    A name that also belongs to a model with a page is left out (Django's groups share theirs with ours).
    """
    pages = {model: site.get_model_admin(model) for model in apps.get_models() if site.is_registered(model)}
    seen = pages.keys() | {inline.model for page in pages.values() for inline in page.inlines}
    names = {str(model._meta.verbose_name) for model in seen}  # noqa: SLF001 - Django's API
    hidden = [model._meta for model in apps.get_models(include_auto_created=True) if model not in seen]  # noqa: SLF001
    return {str(meta.verbose_name): str(meta.verbose_name_plural) for meta in hidden if meta.verbose_name not in names}


def _names_of_ledgers(site: admin.AdminSite) -> frozenset[str]:
    """Return the names of the models whose rows the system writes and people only read."""
    pages = {model: site.get_model_admin(model) for model in apps.get_models() if site.is_registered(model)}
    ledgers = [model for model, page in pages.items() if isinstance(page, ReadOnlyAdmin)]
    return frozenset(str(model._meta.verbose_name) for model in ledgers)  # noqa: SLF001 - Django's API


def _without_kinds(rows: Sequence[Any], kinds: tuple[str, ...]) -> list[Any]:
    """Return Django's nested lists of deleted rows, without the lines that begin with one of *kinds*."""
    inner = [_without_kinds(row, kinds) if isinstance(row, list) else row for row in rows]
    return [row for row in inner if row and not (isinstance(row, str) and str(row).startswith(kinds))]


def _named(protected: Sequence[str], hidden: Mapping[str, str]) -> list[str]:
    """Return the first rows that prevent a deletion; if only internal records do, their counts.

    Args:
        protected: one line for each row, the name of its kind first.
        hidden: from ``_names_without_a_page``.
    """
    plural_of = {capfirst(name): capfirst(plural) for name, plural in hidden.items()}
    kinds = [str(row).partition(": ")[0] for row in protected]
    seen = [row for row, kind in zip(protected, kinds, strict=True) if kind not in plural_of]
    if not seen:
        return [f"{plural_of[kind]}: {number:,}" for kind, number in Counter(kinds).items()]
    more = len(seen) - MOST_PROTECTING
    return [*seen[:MOST_PROTECTING], *([f"and {more:,} more"] if more > 0 else [])]


class RowLevelAdmin(_Fields, GenericModelAdmin[M]):
    """Base of every page of a model."""

    paginator = CappedPaginator
    show_full_result_count = False
    list_per_page = 50
    #: Fields set only at creation: the names by which others refer to the row, and its owners.
    fixed_after_creation: ClassVar[tuple[str, ...]] = ()
    #: Fields that a manager sees but may not change.
    for_operators: ClassVar[tuple[str, ...]] = ()
    #: See ``ConstraintsInWords``.
    constraint_words: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType({})

    def get_form(
        self,
        request: HttpRequest,
        obj: M | None = None,
        change: bool = False,  # noqa: FBT001, FBT002 - Django's own
        **kwargs: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401 - a form of this model
        """Return the form, with sentences for constraints."""
        form = super().get_form(request, obj, change=change, **kwargs)
        return type(form.__name__, (ConstraintsInWords, form), {"constraint_words": self.constraint_words})

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:  # noqa: ANN401 - Django's own
        """Return the rows that a deletion removes, without internal records.

        Read-only records go with the row that they belong to, though nobody may delete them alone. Rows that prevent
        the deletion are named as such, the first of them.
        """
        rows, counts, lacking, protected = super().get_deleted_objects(objs, request)
        hidden = _names_without_a_page(self.admin_site)
        kinds = tuple(f"{capfirst(name)}: " for name in hidden)
        shown = {name: number for name, number in counts.items() if name not in hidden.values()}
        named = _named(protected, hidden)
        return _without_kinds(rows, kinds), shown, set(lacking) - _names_of_ledgers(self.admin_site), named

    def construct_change_message(
        self,
        request: HttpRequest,
        form: Any,  # noqa: ANN401 - of any model
        formsets: Any,  # noqa: ANN401 - likewise
        add: bool = False,  # noqa: FBT001, FBT002 - Django's own
    ) -> Any:  # noqa: ANN401 - Django's own
        """Return Django's description of the form's changes, and keep ours for the security log."""
        _changes[request] = changes_of(form, formsets or (), named=self.short_name)
        return super().construct_change_message(request, form, formsets, add)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:  # noqa: ANN401 - Django's own
        """Record the new row in Django's history and in the security log."""
        self.record(request, obj, "added", _changes.pop(request, {}))
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:  # noqa: ANN401 - Django's own
        """Record the changes by a form; actions of lists call services, which record them."""
        if changes := _changes.pop(request, {}):
            self.record(request, obj, "changed", changes)
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:  # noqa: ANN401 - Django's own
        """Record the rows that will be deleted."""
        for row in queryset:
            self.record(request, row, "deleted", {})
        return super().log_deletions(request, queryset)

    def get_queryset(self, request: HttpRequest) -> QuerySet[M]:
        """Return the rows that the user sees."""
        return self.visible(request, super().get_queryset(request))

    def get_readonly_fields(self, request: HttpRequest, obj: M | None = None) -> list[str]:
        """Return the read-only fields."""
        names = [str(name) for name in super().get_readonly_fields(request, obj)]
        names += self.fixed_after_creation if obj is not None else ()
        names += () if self.sees_all(request) else self.for_operators
        return list(dict.fromkeys(names))

    def history_view(
        self,
        request: HttpRequest,
        object_id: str,
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the history; the right to view is checked before the row is looked up, as on the other pages.

        Raises:
            PermissionDenied: the user sees no rows of this kind.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        return super().history_view(request, object_id, extra_context)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Allow only lookups of the page's own filters: others could probe secret columns."""
        if request is None:
            return False
        filters: Iterable[Any] = self.get_list_filter(request)
        names = {item if isinstance(item, str) else item[0] for item in filters if isinstance(item, str | tuple)}
        allowed = {name.partition("__")[0] for name in names} | {self.date_hierarchy, "id", "pk"}
        allowed |= {item.parameter_name for item in filters if hasattr(item, "parameter_name")}
        return lookup.partition("__")[0] in allowed and super().lookup_allowed(lookup, value, request)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return whether the page is in the user's menu."""
        return self.may("view", request)

    def has_view_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        """Return whether the user sees the row."""
        return self.may("view", request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may add rows."""
        return self.may("add", request)

    def has_change_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        """Return whether the user may change the row."""
        return self.may("change", request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        """Return whether the user may delete the row."""
        return self.may("delete", request, obj)


class ReadOnlyAdmin(RowLevelAdmin[M]):
    """Base of read-only pages, of records that only the system writes."""

    operators_may: ClassVar[frozenset[What]] = frozenset({"view"})
    managers_may: ClassVar[frozenset[What]] = frozenset({"view"})


class RowLevelInline(_Fields, GenericTabularInline[M]):
    """Base of a table of rows on the page of another row; the rights of the page are checked first."""

    extra = 0

    def get_queryset(self, request: HttpRequest) -> QuerySet[M]:
        """Return the rows that the user sees."""
        return self.visible(request, super().get_queryset(request))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ANN401, ARG002 - the page's row
        """Return whether the table is shown."""
        return self.may("view", request)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ANN401, ARG002
        """Return whether rows may be added."""
        return self.may("add", request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ANN401, ARG002
        """Return whether rows may be changed."""
        return self.may("change", request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ANN401, ARG002
        """Return whether rows may be removed."""
        return self.may("delete", request)
