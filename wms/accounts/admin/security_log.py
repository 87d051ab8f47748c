"""The admin page of the security log; read-only."""

from datetime import timedelta

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from wms.accounts.admin.rights import VOLevelLedger
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import SecurityEvent
from wms.kernel.clock import current_time

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


@admin.register(SecurityEvent)
class SecurityEventAdmin(VOLevelLedger[SecurityEvent]):
    """For operators; `manage.py security_log` exports the log."""

    operators_may = frozenset({"view"})
    managers_may = frozenset()
    list_display = ("at", "kind", "actor_name", "address", "target", "times", "facts")
    # Uses index: security_event_by_kind
    list_filter = (KindFilter, PeriodFilter)
    search_fields = ("actor_name__exact", "address__startswith", "target__icontains")
    search_help_text = "User name, beginning of an address, or part of the object's name."
    ordering = ("-at", "-id")
    fields = ("at", "kind", "actor_name", "actor", "address", "target", "facts", "times")
