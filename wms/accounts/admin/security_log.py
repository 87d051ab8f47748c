"""The admin pages of the security log and of the history of the configuration; read-only."""

from datetime import timedelta
from typing import Any, TypeVar

from django.apps import apps
from django.contrib import admin
from django.contrib.postgres.fields import ArrayField
from django.db.models import CharField, Model, Q, QuerySet, Value
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from wms.accounts.admin.rights import VOLevelLedger
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import ConfigurationChange, SecurityEvent, User
from wms.accounts.queries import history_entry, managed_names, names_in_event
from wms.kernel.clock import current_time

M = TypeVar("M", bound=Model)

#: Choices of the filter by time: {days: label}.
_PERIODS = {"1": "Past 24 hours", "7": "Past 7 days", "30": "Past 30 days", "365": "Past year"}


class KindFilter(admin.SimpleListFilter):
    """Filter by kind; the column itself has no choices."""

    title = "kind"
    parameter_name = "kind"

    def lookups(self, _request: HttpRequest, _model_admin: "admin.ModelAdmin[SecurityEvent]") -> list[tuple[str, str]]:
        """Return every kind."""
        return sorted((kind.value, kind.value) for kind in SecurityEventKind)

    def queryset(self, _request: HttpRequest, queryset: QuerySet[SecurityEvent]) -> QuerySet[SecurityEvent]:
        """Return the events of the kind."""
        return queryset if self.value() is None else queryset.filter(kind=self.value())


class PeriodFilter(admin.SimpleListFilter):
    """Filter by age."""

    title = "time"
    parameter_name = "days"

    def lookups(self, _request: HttpRequest, _model_admin: "admin.ModelAdmin[SecurityEvent]") -> list[tuple[str, str]]:
        """Return the periods."""
        return list(_PERIODS.items())

    def queryset(self, _request: HttpRequest, queryset: QuerySet[SecurityEvent]) -> QuerySet[SecurityEvent]:
        """Return the events of the period."""
        days = self.value()
        return queryset.filter(at__gt=current_time() - timedelta(days=int(days))) if days in _PERIODS else queryset


class EventsAdmin(VOLevelLedger[M]):
    """Base of the pages of events: many rows, found by whole names and beginnings, which have indexes."""

    search_fields = ("actor_name__exact", "address__startswith", "target__startswith")
    search_help_text = "User name, name of the object, its beginning with its kind (such as: site LCG), or an address."
    # All other columns would be sorted anew for each page.
    sortable_by = ("at",)

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002 - Django's signature
        queryset: QuerySet[Any],
        search_term: str,
    ) -> tuple[QuerySet[Any], bool]:
        """Return the events that are found by the whole term; Django would search for its words."""
        term = search_term.strip()
        kinds = {str(model._meta.verbose_name) for model in apps.get_models() if self.admin_site.is_registered(model)}
        return (queryset.filter(names_in_event(term, kinds=kinds)) if term else queryset), False


@admin.register(SecurityEvent)
class SecurityEventAdmin(EventsAdmin[SecurityEvent]):
    """For operators; `manage.py security_log` exports the log."""

    operators_may = frozenset({"view"})
    managers_may = frozenset()
    list_display = ("at", "kind", "actor_name", "address", "target", "times", "facts")
    # Uses index: security_event_by_kind
    list_filter = (KindFilter, PeriodFilter)
    # Uses index: security_event_by_time
    ordering = ("-at", "-id")
    fields = ("at", "kind", "actor_name", "actor", "address", "target", "facts", "times")


@admin.register(ConfigurationChange)
class HistoryAdmin(EventsAdmin[ConfigurationChange]):
    """The changes of the configuration through any door; managers see those that concern their VOs."""

    operators_may = frozenset({"view"})
    managers_may = frozenset({"view"})
    list_display = ("at", "actor_name", "target", "change")
    list_filter = (PeriodFilter,)
    ordering = ("-id",)
    fields = ("at", "kind", "actor_name", "target", "change")
    readonly_fields = ("change",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ConfigurationChange]:
        """Return the events about rows; each knows whose page it is on (``seen_by``, as in ``facts_for``)."""
        user = request.user
        names = managed_names(user) if isinstance(user, User) else frozenset()
        seen_by = Value(None if names is None else sorted(names), output_field=ArrayField(CharField()))
        return super().get_queryset(request).exclude(row_type="").annotate(seen_by=seen_by)

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the events that concern the VOs."""
        # Uses index: security_event_by_vo, or security_event_of_vos
        return Q(vo_ids__isnull=False, vo_ids__overlap=list(vos))

    @admin.display(description="change")
    def change(self, event: ConfigurationChange) -> SafeString | str:
        """Return what was changed, one line for each field."""
        lines = history_entry(event, vos=event.seen_by).changes  # type: ignore[attr-defined]  # annotated
        return format_html_join("", "<div>{}</div>", ((line,) for line in lines)) or event.kind
