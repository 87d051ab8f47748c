"""Read-only admin pages for leases and for the efficiency of pilots."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from matching.models import Match, PilotEfficiency
from matching.queries.closing import of_closing
from matching.queries.pilot_efficiency import efficiency
from matching.services.lease_ends import EndReason
from pilots.models import Pilot
from resources.admin.states import LevelT, StatesAdmin
from resources.models import ComputingElement, Queue, Site
from taskqueues.admin.resources import ComputingElementAdmin, QueueAdmin, SiteAdmin
from wms.accounts.admin.rights import VOLevelLedger
from wms.kernel.clock import current_time

if TYPE_CHECKING:
    from django.contrib.admin.filters import _ListFilterChoices


class JobsThereAdmin(StatesAdmin[LevelT]):
    """A page of sites, CEs or queues on which a ban or drain says how many jobs it concerns."""

    def jobs_at(self, level: LevelT) -> str:
        """Return how many jobs run there, and wait for it alone."""
        return of_closing(level).extent


@admin.register(Site)
class SiteOfJobsAdmin(JobsThereAdmin[Site], SiteAdmin):
    """Sites, with their jobs."""


@admin.register(ComputingElement)
class CEOfJobsAdmin(JobsThereAdmin[ComputingElement], ComputingElementAdmin):
    """Computing elements, with their jobs."""


@admin.register(Queue)
class QueueOfJobsAdmin(JobsThereAdmin[Queue], QueueAdmin):
    """Queues, with their jobs."""


class EndFilter(admin.SimpleListFilter):
    """Filter by how a lease ended; the reasons are known, so that they are not read from all rows."""

    title = "end"
    parameter_name = "end"

    def lookups(self, request: HttpRequest, model_admin: "admin.ModelAdmin[Match]") -> list[tuple[str, str]]:  # noqa: ARG002 - Django's own
        """Return the reasons, and what has none yet."""
        return [("open", "open"), *((reason, reason) for reason in EndReason)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Match]) -> QuerySet[Match]:  # noqa: ARG002 - Django's own
        """Return the leases."""
        value = self.value()
        if value == "open":
            return queryset.filter(ended_at=None)
        return queryset.filter(end_reason=value) if value in set(EndReason) else queryset


@admin.register(Match)
class MatchAdmin(VOLevelLedger[Match]):
    """Leases for operators and managers: which pilot had which job, and how the lease ended."""

    list_display = ("id", "job", "pilot", "leased_at", "expires_at", "reported_at", "ended_at", "end_reason")
    list_select_related = ("job", "pilot")
    list_filter = (EndFilter,)
    searched_exactly = ("job", "pilot")
    search_help_text = "Id of a job or of a pilot."
    # Those of the newest jobs first, by the index: there is none by time.
    ordering = ("-job_id", "-leased_at")
    sortable_by = ()

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the leases of the VOs' jobs."""
        return Q(job__vo__in=vos)


class _Choice(admin.SimpleListFilter):
    """A filter of which one value is always selected."""

    options: Mapping[str, str]
    chosen_at_first: str

    def lookups(self, request: HttpRequest, model_admin: object) -> Sequence[tuple[str, str]]:  # noqa: ARG002 - Django's own
        """Return the options."""
        return list(self.options.items())

    def value(self) -> str:
        """Return the selected option."""
        selected = super().value()
        return selected if selected is not None and selected in self.options else self.chosen_at_first

    def choices(self, changelist: ChangeList) -> "Iterator[_ListFilterChoices]":
        """Return the options, without one for all."""
        choices = super().choices(changelist)
        next(iter(choices))
        yield from choices

    def queryset(self, request: HttpRequest, queryset: QuerySet[Model]) -> QuerySet[Model]:  # noqa: ARG002 - Django's own
        """Return the rows unchanged: the table is computed separately."""
        return queryset


class SubmissionPeriodFilter(_Choice):
    """The age of the pilots' submission."""

    title = "time of submission"
    parameter_name = "hours"
    options = MappingProxyType({"1": "last hour", "24": "last day", "168": "last week"})
    chosen_at_first = "24"


class PlaceFilter(_Choice):
    """The grouping of pilots."""

    title = "place or VO"
    parameter_name = "by"
    options = MappingProxyType({"site": "site", "site,ce": "computing element", "site,ce,queue": "queue", "vo": "VO"})
    chosen_at_first = "site"


_NUMBERS: Final = (
    *("Efficiency", "Submitted", "Waiting", "Stalled", "Running", "Matched", "Empty", "Done", "Aborted", "Failed"),
    *("Lost", "Jobs", "Jobs per pilot"),
)
_HEADS: Final = {"site": "Site", "ce": "CE", "queue": "Queue", "vo": "VO"}


@admin.register(PilotEfficiency)
class PilotEfficiencyAdmin(VOLevelLedger[PilotEfficiency]):
    """The efficiency of pilots by place, for operators and managers: where they fail or find no jobs (PIL §2.3)."""

    change_list_template = "admin/matching/pilot_efficiency.html"
    list_filter = (SubmissionPeriodFilter, PlaceFilter)
    list_per_page = 1
    ordering = ("-id",)

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the pilots of the VOs."""
        return Q(vo__in=vos)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:  # noqa: ARG002 - Django's own
        """Allow only the query parameters of the filters."""
        return lookup in {SubmissionPeriodFilter.parameter_name, PlaceFilter.parameter_name}

    def changelist_view(self, request: HttpRequest, extra_context: Mapping[str, object] | None = None) -> HttpResponse:
        """Show a table of places instead of the pilots."""
        response = super().changelist_view(request, dict(extra_context or {}))
        if isinstance(response, TemplateResponse) and response.context_data and "cl" in response.context_data:
            chosen = {spec.parameter_name: spec.value() for spec in response.context_data["cl"].filter_specs}
            group_by = tuple(chosen["by"].split(","))
            since = current_time() - timedelta(hours=int(chosen["hours"]))
            rows = efficiency(self.visible(request, Pilot.objects.all()), group_by=group_by, since=since)
            response.context_data |= {
                "title": "Pilot efficiency",
                "heads": [_HEADS[name] for name in group_by],
                "numbers": _NUMBERS,
                "rows": [([each.values[name] or "–" for name in group_by], each) for each in rows],
            }
        return response
