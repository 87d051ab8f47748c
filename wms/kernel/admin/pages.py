"""Base classes of pages and of tables within pages, with bounded lists, and what a deletion shows."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from django import forms
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.options import get_content_type_for_model
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.widgets import AutocompleteSelect
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.db.models import PROTECT, Model, Q, QuerySet
from django.forms import BaseFormSet, Form, Media, ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.text import capfirst

from wms.kernel.admin.actions import OF_ROW, ReasonedActionForm
from wms.kernel.admin.confirmation import ConfirmedForm
from wms.kernel.admin.forms import Column, ConstraintsInWords, changes_of, label_of, labels_of
from wms.kernel.admin.rights import FieldsByRights, RowRights, SeenRelatedFilter, What

M = TypeVar("M", bound=Model)
#: A row of a deletion, or the list of the rows that belong to the row before.
Nested: TypeAlias = "str | list[Nested]"

#: Number of rows preventing a deletion that are named; the rest are counted.
MOST_PROTECTING = 20
#: Number of rows of a kind beyond which they are not read to be named.
MANY_PROTECTING = 1000

#: Entries of Django's own history that a page shows.
_MOST_EARLIER = 100
#: Rows of other tables that a search looks up: their names are unique, or nearly so.
_MOST_RELATED = 100
#: Changes by the form of a request, kept between two of Django's hooks.
_changes: "WeakKeyDictionary[HttpRequest, Mapping[str, object]]" = WeakKeyDictionary()

if TYPE_CHECKING:
    from django.contrib.admin.options import _FieldOpts, _FieldsetSpec
    from django.utils.datastructures import _ListOrTuple

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

    @property
    def count_in_words(self) -> str:
        """Return the number of rows, as far as it is known."""
        return f"{self.MOST:,} or more" if self.count >= self.MOST else f"{self.count:,}"


class RowLevelAdmin(FieldsByRights, GenericModelAdmin[M]):
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
    #: Fields without secrets whose old and new values are written to the security log.
    logged_values: ClassVar[frozenset[str]] = frozenset()
    #: {action of the list: words of its button on the page of a row}.
    row_actions: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def get_form(
        self,
        request: HttpRequest,
        obj: M | None = None,
        change: bool = False,
        **kwargs: object,
    ) -> "type[ModelForm[M]]":
        """Return the form, with sentences for constraints, and labels with units of what is only shown, too."""
        kwargs.setdefault("labels", labels_of(self.model))
        form = super().get_form(request, obj, change=change, **kwargs)
        return type(form.__name__, (ConstraintsInWords, form), {"constraint_words": self.constraint_words})

    def get_fieldsets(self, request: HttpRequest, obj: M | None = None) -> "_FieldsetSpec":
        """Return the fields in sets; for those who may save, before them what is to be confirmed, after them why."""
        fieldsets = super().get_fieldsets(request, obj)
        may_save = self.has_add_permission(request) if obj is None else self.has_change_permission(request, obj)
        if may_save and issubclass(self.form, ConfirmedForm):
            (title, options), *others = fieldsets
            first: _FieldOpts = {**options, "fields": ("confirmed", *options["fields"])}
            reasons: _FieldsetSpec = [] if "reason" in (self.fields or ()) else [(None, {"fields": ("reason",)})]
            return [(title, first), *others, *reasons]
        return fieldsets

    def get_deleted_objects(
        self, objs: QuerySet[M] | Sequence[M], request: HttpRequest
    ) -> tuple[list[Any], dict[str, int], set[str], list[str]]:
        """Return the rows that a deletion removes, without internal records.

        Read-only records, and what nobody may delete alone, go with the row that they belong to. Rows that prevent
        the deletion are named as such, the first of them; of many only the kind is said, without reading them.
        """
        if too_many := list(self._many_protecting(objs)):
            return [], {}, set(), too_many
        rows, counts, lacking, protected = super().get_deleted_objects(objs, request)
        hidden = names_without_a_page(self.admin_site)
        kinds = tuple(f"{capfirst(name)}: " for name in hidden)
        shown = {name: number for name, number in counts.items() if name not in hidden.values()}
        named = named_rows(protected, hidden)
        return without_kinds(rows, kinds), shown, set(lacking) - _names_of_followers(self.admin_site), named

    def _many_protecting(self, objs: QuerySet[M] | Sequence[M]) -> Iterable[str]:
        """Yield the kinds of which more than MANY_PROTECTING rows prevent the deletion; Django would read each."""
        keys = [row.pk for row in objs]
        for relation in self.opts.related_objects:
            if relation.on_delete is PROTECT and isinstance(relation.related_model, type):
                rows = relation.related_model._default_manager.filter(**{f"{relation.field.name}__in": keys})
                if rows.order_by()[: MANY_PROTECTING + 1].count() > MANY_PROTECTING:
                    yield f"{capfirst(relation.related_model._meta.verbose_name_plural)}: more than {MANY_PROTECTING:,}"

    def construct_change_message(
        self,
        request: HttpRequest,
        form: Form,
        formsets: "Iterable[BaseFormSet[Form]]",
        add: bool = False,
    ) -> list[dict[str, dict[str, list[str]]]]:
        """Return Django's description of the form's changes, and keep ours for the security log."""
        logged = self.logged_values | ({"reason"} if isinstance(form, ConfirmedForm) else set())
        _changes[request] = changes_of(form, formsets or (), named=self.short_name, logged_values=logged)
        return super().construct_change_message(request, form, formsets, add)

    def log_addition(self, request: HttpRequest, obj: M, message: object) -> LogEntry:
        """Record the new row in Django's history and in the security log."""
        self.record(request, obj, "added", _changes.pop(request, {}))
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: M, message: object) -> LogEntry:
        """Record the changes by a form; actions of lists call services, which record them."""
        if changes := _changes.pop(request, {}):
            self.record(request, obj, "changed", changes)
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[M]) -> list[LogEntry]:
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

    @property
    def media(self) -> Media:
        """Return the scripts and style sheets, with those of the filters that search for a row."""
        searched = any(isinstance(each, tuple) and issubclass(each[1], SeenRelatedFilter) for each in self.list_filter)
        return super().media + (AutocompleteSelect(None, self.admin_site).media if searched else Media())

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: M | None = None,
    ) -> HttpResponse:
        """Show the form, with the actions that the user may apply to the row."""
        if obj is not None and self.row_actions:
            actions = self.get_actions(request)
            is_changeable = self.changeable(request, self.get_queryset(request).filter(pk=obj.pk)).exists()
            offered = [each for each in self.row_actions.items() if each[0] in actions and self.offers(each[0], obj)]
            offered = offered if is_changeable else []
            context |= {"row_actions": offered, "has_reason": issubclass(self.action_form, ReasonedActionForm)}
        return super().render_change_form(request, context, add, change, form_url, obj)

    def offers(self, action: str, row: M) -> bool:
        """Return whether the page of a row has a button for the action: whether it could change the row."""
        return True

    def response_action(self, request: HttpRequest, queryset: QuerySet[Any], *others: Any) -> HttpResponse | None:  # noqa: ANN401 - Django's own
        """Apply an action; one that was chosen on the page of a row leads back to it."""
        response = super().response_action(request, queryset, *others)
        row = request.POST.get(OF_ROW)
        if row and (response is None or isinstance(response, HttpResponseRedirect)):
            address = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
            return HttpResponseRedirect(reverse(address, args=[quote(row)]))
        return response

    def history_view(
        self,
        request: HttpRequest,
        object_id: str,
        extra_context: dict[str, object] | None = None,
    ) -> HttpResponse:
        """Show the history: changes through any door, and before them what Django noted of this page.

        The right to view is checked before the row is looked up, as on the other pages.

        Raises:
            PermissionDenied: the user sees no rows of this kind.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id))
        changes = [] if row is None else self.history_of(request, row)
        first = None if row is None else self.first_change_of(row)
        noted = LogEntry.objects.filter(object_id=object_id, content_type=get_content_type_for_model(self.model))
        if first is not None:
            noted = noted.filter(action_time__lt=first)
        earlier = noted.select_related("user").order_by("-action_time")[:_MOST_EARLIER]
        context = {"changes": changes, "earlier": earlier, **(extra_context or {})}
        return super().history_view(request, object_id, context)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Allow only lookups of the page's own filters: others could probe secret columns."""
        if request is None:
            return False
        filters: Iterable[object] = self.get_list_filter(request)
        names = {item if isinstance(item, str) else item[0] for item in filters if isinstance(item, str | tuple)}
        allowed = {name.partition("__")[0] for name in names} | {self.date_hierarchy, "id", "pk"}
        allowed |= {getattr(item, "parameter_name", None) for item in filters}
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
    # To count the rows of each choice of a filter, millions would be read.
    show_facets = admin.ShowFacets.NEVER
    #: Columns in which the whole term is searched, by their indexes: for tables of millions of rows. Of
    #: ``owner__username`` the owner is looked up first.
    searched_exactly: ClassVar[tuple[str, ...]] = ()

    def get_search_fields(self, request: HttpRequest) -> "_ListOrTuple[str]":
        """Return the searched columns, without which there is no field to search."""
        return [*super().get_search_fields(request), *self.searched_exactly]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return the rows that are found; a number that is none finds nothing in a column of numbers."""
        if not (self.searched_exactly and search_term):
            return super().get_search_results(request, queryset, search_term)
        found = Q(pk__in=[])
        for name in self.searched_exactly:
            column, _, of_other = name.partition("__")
            found |= _is(self.model, column, of_other, search_term.strip())
        return queryset.filter(found), False


def _is(model: type[Model], column: str, of_other: str, term: str) -> Q:
    """Return the condition that a column, or that of the row which it refers to, is what was typed."""
    field = model._meta.get_field(column)
    if of_other and isinstance(field.related_model, type):
        rows = field.related_model._default_manager.filter(_is(field.related_model, of_other, "", term))
        return Q(**{f"{column}__in": list(rows.values_list("pk", flat=True)[:_MOST_RELATED])})
    try:
        return Q(**{column: field.to_python(term)})  # type: ignore[union-attr]  # a column, as of_other is empty
    except ValidationError:
        return Q(pk__in=[])


def _names_of_followers(site: admin.AdminSite) -> frozenset[str]:
    """Return the names of the models whose rows only go with others: the system writes them, or nobody deletes them."""
    pages = {model: site.get_model_admin(model) for model in apps.get_models() if site.is_registered(model)}
    followers = [
        model
        for model, page in pages.items()
        if isinstance(page, ReadOnlyAdmin) or (isinstance(page, RowRights) and "delete" not in page.operators_may)
    ]
    return frozenset(str(model._meta.verbose_name) for model in followers)


class RowLevelInline(FieldsByRights, GenericTabularInline[M]):
    """Base of a table of rows on the page of another row; the rights of the page are checked first."""

    extra = 0

    def formfield_for_dbfield(self, db_field: Column, request: HttpRequest, **kwargs: object) -> forms.Field | None:
        """Return the form field of a column; its label is the head of the column, which no program reads aloud."""
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field is not None:
            field.widget.attrs.setdefault("aria-label", label_of(db_field))
        return field

    def get_queryset(self, request: HttpRequest) -> QuerySet[M]:
        """Return the rows that the user sees."""
        return self.visible(request, super().get_queryset(request))

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return whether the table is shown."""
        return self.may("view", request)

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return whether rows may be added."""
        return self.may("add", request)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return whether rows may be changed."""
        return self.may("change", request)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return whether rows may be removed."""
        return self.may("delete", request)


def names_without_a_page(site: admin.AdminSite) -> Mapping[str, str]:
    """Return {name: plural} of the models without a page or a table on one: the system's internal records.

    A name that also belongs to a model with a page is left out (Django's groups share theirs with ours).
    """
    pages = {model: site.get_model_admin(model) for model in apps.get_models() if site.is_registered(model)}
    seen = pages.keys() | {inline.model for page in pages.values() for inline in page.inlines}
    names = {str(model._meta.verbose_name) for model in seen}
    hidden = [model._meta for model in apps.get_models(include_auto_created=True) if model not in seen]
    return {str(meta.verbose_name): str(meta.verbose_name_plural) for meta in hidden if meta.verbose_name not in names}


def without_kinds(rows: Sequence[Nested], kinds: tuple[str, ...]) -> list[Nested]:
    """Return Django's nested lists of deleted rows, without the lines that begin with one of *kinds*."""
    inner = [without_kinds(row, kinds) if isinstance(row, list) else row for row in rows]
    return [row for row in inner if row and not (isinstance(row, str) and str(row).startswith(kinds))]


def named_rows(protected: Sequence[str], hidden: Mapping[str, str]) -> list[str]:
    """Return the first rows that prevent a deletion, in order; if only internal records do, their counts.

    Args:
        protected: one line for each row, the name of its kind first.
        hidden: from ``names_without_a_page``.
    """
    plural_of = {capfirst(name): capfirst(plural) for name, plural in hidden.items()}
    kinds = [str(row).partition(": ")[0] for row in protected]
    seen = sorted((row for row, kind in zip(protected, kinds, strict=True) if kind not in plural_of), key=_by_number)
    if not seen:
        return [f"{plural_of[kind]}: {number:,}" for kind, number in Counter(kinds).items()]
    more = len(seen) - MOST_PROTECTING
    return [*seen[:MOST_PROTECTING], *([f"and {more:,} more"] if more > 0 else [])]


def _by_number(line: str) -> list[tuple[int, str]]:
    """Return what orders lines by their words, and by the numbers in them: job 8 before job 10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", line)]
