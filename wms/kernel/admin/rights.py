"""Rights by row.

Django's table of permissions is not used. An operator may do everything; a manager of VOs may do what a class grants
to managers, only with the rows of their VOs.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from django import forms
from django.contrib import admin
from django.contrib.admin.exceptions import NotRegistered
from django.contrib.admin.options import BaseModelAdmin
from django.contrib.admin.views.main import ChangeList
from django.contrib.admin.widgets import AutocompleteSelect
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import ForeignKey, ManyToManyField, Model, Q, QuerySet
from django.db.models.fields.related import RelatedField
from django.http import HttpRequest

from wms.kernel.admin.forms import (
    Column,
    ComposedCharField,
    PlainFloatField,
    StrictJSONField,
    array_form_field,
    label_of,
)

M = TypeVar("M", bound=Model)
What = Literal["view", "add", "change", "delete"]
Recorded = Literal["added", "changed", "deleted"]
EVERYTHING: frozenset[What] = frozenset({"view", "add", "change", "delete"})


class Dated(Protocol):
    """An entry of a history."""

    @property
    def at(self) -> datetime:
        """Return its time."""


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

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the condition of the rows that a manager of *vos* may change and delete."""
        return Q(pk__in=[])

    def visible(self, request: HttpRequest, rows: QuerySet[M]) -> QuerySet[M]:
        """Return the rows that the user sees."""
        return rows if self.sees_all(request) else rows.filter(self.seen(self.managed_vos(request)))

    def short_name(self, row: Model) -> str:
        """Return the name of a row of a table on the page, for the security log."""
        return str(row)

    def history_of(self, request: HttpRequest, row: Model) -> Sequence[Dated]:
        """Return the changes of a row through any door that the user may see, the newest first."""
        raise NotImplementedError

    def first_change_of(self, row: Model) -> datetime | None:
        """Return the time since when the changes of a row are recorded; None: there were none."""
        raise NotImplementedError

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
        return type(row)._default_manager.filter(rule, pk=row.pk).exists()

    def choices_of(self, column: Column, request: HttpRequest) -> QuerySet[Model] | None:
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


class FieldsByRights(RowRights, BaseModelAdmin):  # type: ignore[type-arg]  # at run time it takes no parameter
    """Form fields of both kinds of admin class, with choices limited by the rights."""

    def formfield_for_dbfield(self, db_field: Column, request: HttpRequest, **kwargs: object) -> forms.Field | None:
        """Return the form field of a column."""
        if isinstance(db_field, ArrayField):
            return array_form_field(db_field)
        if (
            isinstance(db_field, models.CharField | models.TextField)
            and not db_field.choices
            and db_field.name != "url"
        ):
            kwargs.setdefault("form_class", ComposedCharField)
        if isinstance(db_field, models.FloatField):
            kwargs.setdefault("form_class", PlainFloatField)
        if isinstance(db_field, models.JSONField):
            kwargs["form_class"] = StrictJSONField
        kwargs.setdefault("label", label_of(db_field))
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def formfield_for_foreignkey(
        self, db_field: "ForeignKey[Any, Any]", request: HttpRequest, **kwargs: object
    ) -> "forms.ModelChoiceField[Model] | None":
        """Limit the choices to the user's rights; any other posted value is refused."""
        self._limit(db_field, request, kwargs)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_manytomany(
        self, db_field: "ManyToManyField[Any, Any]", request: HttpRequest, **kwargs: object
    ) -> "forms.ModelMultipleChoiceField[Model] | None":
        """Limit the choices to the user's rights; any other posted value is refused."""
        self._limit(db_field, request, kwargs)
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def _limit(self, db_field: Column, request: HttpRequest, kwargs: dict[str, object]) -> None:
        rows = self.choices_of(db_field, request)
        if rows is not None:
            kwargs.setdefault("queryset", rows)


class SeenRelatedFilter(admin.RelatedFieldListFilter):
    """A filter by a relation, among the rows that the user sees: links, or of many rows a field that searches them."""

    #: Rows with a link each.
    MOST_LINKS: ClassVar[int] = 20

    def field_choices(
        self, field: "RelatedField[Any, Any]", request: HttpRequest, model_admin: "admin.ModelAdmin[Any]"
    ) -> list[tuple[str, Any]]:
        """Return [(key, name)] of the rows, if they are few."""
        rows = model_admin.choices_of(field, request) if isinstance(model_admin, RowRights) else None
        if rows is None:
            rows = field.related_model._default_manager.all()
        by = getattr(field.related_model, "USERNAME_FIELD", "name")
        few = [(str(row.pk), str(row)) for row in rows.order_by(by)[: self.MOST_LINKS + 1]]
        if len(few) <= self.MOST_LINKS:
            return few
        self.template = "admin/searched_filter.html"
        widget = AutocompleteSelect(field, model_admin.admin_site)
        #: Has the row that is selected; others are fetched as one types.
        self.select = forms.ModelChoiceField(rows, required=False, widget=widget).widget
        return []

    def has_output(self) -> bool:
        """Return whether there is more than one choice."""
        return self.is_searched or super().has_output()

    @property
    def is_searched(self) -> bool:
        """Whether the rows are too many for links."""
        return hasattr(self, "select")

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        """Yield the links, or the field that searches with the other parameters of the list."""
        if not self.is_searched:
            yield from super().choices(changelist)
            return
        others = [
            (name, value)
            for name, values in changelist.filter_params.items()
            if name not in self.expected_parameters()
            for value in values
        ]
        chosen = self.lookup_val[-1] if self.lookup_val else None
        field = self.select.render(self.lookup_kwarg, chosen, {"aria-label": self.title})
        yield {"display": field, "others": others}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows; a form that was sent without a choice filters nothing."""
        if self.used_parameters.get(self.lookup_kwarg) in ([""], ""):
            return queryset
        filtered = super().queryset(request, queryset)
        return queryset if filtered is None else filtered
