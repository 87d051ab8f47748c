"""Admin pages of places with their jobs, of downtimes, and, read-only, of leases and of the efficiency of pilots."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Model, Q, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.text import capfirst

from matching.models import Match, PilotEfficiency
from matching.queries.closing import of_closing
from matching.queries.pilot_efficiency import efficiency
from matching.services.lease_ends import EndReason
from pilots.models import Pilot
from resources.admin.states import LevelT, StatesAdmin
from resources.domain.enums import DowntimeSource
from resources.models import ComputingElement, Downtime, Queue, Site
from resources.queries.rights import sites_serving, sites_serving_only
from resources.services.downtimes import DowntimeError, declare, end, mistakes_in
from resources.services.downtimes import change as change_downtime
from resources.services.states import full_name
from taskqueues.admin.resources import ComputingElementAdmin, QueueAdmin, SiteAdmin
from wms.accounts.admin.rights import VOLevelAdmin, VOLevelLedger
from wms.accounts.models import User
from wms.accounts.queries import HistoryEntry
from wms.kernel.admin.forms import GenericModelForm
from wms.kernel.admin.rights import EVERYTHING, Recorded, SeenRelatedFilter
from wms.kernel.clock import current_time
from wms.kernel.errors import NotFoundError
from wms.kernel.names import counted

if TYPE_CHECKING:
    from django.contrib.admin.filters import _ListFilterChoices


class JobsThereAdmin(StatesAdmin[LevelT]):
    """A page of sites, CEs or queues on which a ban or drain says how many jobs it concerns."""

    def jobs_at(self, level: LevelT) -> str:
        """Return how many jobs run there, and wait for it alone."""
        return of_closing(level).extent

    def get_deleted_objects(
        self, objs: QuerySet[Any] | Sequence[Any], request: HttpRequest
    ) -> tuple[list[Any], dict[str, int], set[str], list[str]]:
        """Return what a deletion removes; before it, how many jobs run at each place, and wait for it alone."""
        found = super().get_deleted_objects(objs, request)
        found[0][:0] = [str(of_closing(level)) for level in objs]
        return found


@admin.register(Site)
class SiteOfJobsAdmin(JobsThereAdmin[Site], SiteAdmin):
    """Sites, with their jobs."""


@admin.register(ComputingElement)
class CEOfJobsAdmin(JobsThereAdmin[ComputingElement], ComputingElementAdmin):
    """Computing elements, with their jobs."""


@admin.register(Queue)
class QueueOfJobsAdmin(JobsThereAdmin[Queue], QueueAdmin):
    """Queues, with their jobs."""


class DowntimeRowForm(GenericModelForm[Downtime]):
    """A downtime; the computing element is of its site, and the queue of its computing element."""

    def clean(self) -> None:
        """Refuse places that are not one within the other, and times and reasons that the service refuses."""
        super().clean()
        fields, row = self.cleaned_data, self.instance
        site, ce, queue = (fields.get(name, getattr(row, name, None)) for name in ("site", "ce", "queue"))
        if ce is not None and ce.site != site:
            self.add_error("ce", f"{ce} is not a computing element of this site; choose one that is.")
        if queue is not None and queue.ce != ce:
            self.add_error("queue", f"{queue} is not a queue of this computing element; choose both.")
        if {"begins_at", "ends_at"} <= fields.keys():
            values = {name: fields.get(name, "") for name in ("begins_at", "ends_at", "reason")}
            for name, sentence in mistakes_in(**values, now=current_time()).items():
                if not self.has_error(name):
                    self.add_error(name, sentence)


class TimeFilter(admin.SimpleListFilter):
    """Filter by the time of downtimes."""

    title = "time"
    parameter_name = "time"

    def lookups(self, request: HttpRequest, model_admin: "admin.ModelAdmin[Downtime]") -> list[tuple[str, str]]:  # noqa: ARG002 - Django's own
        """Return the choices."""
        return [("running", "running"), ("ahead", "not begun"), ("over", "ended")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Downtime]) -> QuerySet[Downtime]:  # noqa: ARG002 - Django's own
        """Return the downtimes."""
        now = current_time()
        conditions = {
            "running": Q(begins_at__lte=now, ends_at__gt=now),
            "ahead": Q(begins_at__gt=now),
            "over": Q(ends_at__lte=now),
        }
        return queryset.filter(conditions.get(self.value() or "", Q()))


@admin.register(Downtime)
class DowntimeAdmin(VOLevelAdmin[Downtime]):
    """Downtimes: who may set the state of a site declares, changes and ends them; those from GOCDB are changed there.

    One that runs is ended, not deleted, so that it stays in the list of past ones.
    """

    form = DowntimeRowForm
    operators_may = managers_may = EVERYTHING - {"delete"}
    choose_managed = frozenset({"site", "ce", "queue"})
    fixed_after_creation = ("site", "ce", "queue")
    list_display = ("place", "begins_at", "ends_at", "reason", "source", "declared_by")
    list_select_related = ("site", "ce__site", "queue__ce__site", "declared_by")
    list_filter = (TimeFilter, "source", ("site", SeenRelatedFilter))
    search_fields = ("site__name", "ce__name", "queue__name", "reason")
    search_help_text = "Part of the name of a site, computing element or queue, or of the reason."
    ordering = ("-ends_at", "-pk")
    autocomplete_fields = ("site", "ce", "queue")
    readonly_fields = ("source", "declared_by", "declared_at")
    fieldsets = (
        ("Place", {"fields": ("site", "ce", "queue")}),
        ("Times (UTC)", {"fields": ("begins_at", "ends_at", "reason")}),
        ("Declared", {"fields": readonly_fields}),
    )
    actions = ("end",)
    row_actions = MappingProxyType({"end": "End now, or withdraw"})
    constraint_words = MappingProxyType(
        {
            "downtime_begins_before_it_ends": ("ends_at", "The end must be after the begin; correct one of them."),
            "downtime_of_a_queue_names_its_ce": ("ce", "Choose the computing element of the queue, too."),
        }
    )

    def seen(self, vos: frozenset[int]) -> Q:
        """Return the downtimes of the sites that serve the VOs."""
        return Q(site__in=sites_serving(vos))

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the downtimes of the sites that serve no other VO."""
        return Q(site__in=sites_serving_only(vos))

    def has_change_permission(self, request: HttpRequest, obj: Downtime | None = None) -> bool:
        """Return whether the user may change it; one that is announced in GOCDB is changed there."""
        is_from_here = obj is None or obj.source == DowntimeSource.HERE
        return is_from_here and super().has_change_permission(request, obj)

    def save_model(
        self,
        request: HttpRequest,
        obj: Downtime,
        form: "ModelForm[Downtime]",  # noqa: ARG002 - Django's own
        change: bool,  # noqa: FBT001 - Django's own
    ) -> None:
        """Declare or change the downtime, and say how many jobs it concerns."""
        by = request.user
        if not isinstance(by, User):
            raise PermissionDenied
        times: dict[str, Any] = {"begins_at": obj.begins_at, "ends_at": obj.ends_at, "reason": obj.reason}
        if change:
            change_downtime(obj, **times, by=by, now=current_time())
        else:
            obj.pk = declare(obj.level, **times, by=by, now=current_time())[0].pk
            obj.refresh_from_db()
        self.message_user(request, f"{capfirst(full_name(obj.level))}: {of_closing(obj.level).extent}")

    def history_of(self, request: HttpRequest, row: Model) -> Sequence[HistoryEntry]:
        """Return the changes of the downtimes of its place, which are in the history of the site."""
        if not isinstance(row, Downtime):
            return []
        begin = f"downtime of {full_name(row.level)}: "
        changes = super().history_of(request, row.site)
        return [each for each in changes if any(line.startswith(begin) for line in each.changes)]

    def first_change_of(self, row: Model) -> datetime | None:
        """Return the time since when the changes of its site are recorded."""
        return super().first_change_of(row.site) if isinstance(row, Downtime) else None

    def record(self, request: HttpRequest, row: Model, what: Recorded, changes: Mapping[str, object]) -> None:
        """Write nothing: the service has written the change to the history of the site."""

    @admin.action(description="End selected downtimes, or withdraw those that have not begun", permissions=["change"])
    def end(self, request: HttpRequest, queryset: QuerySet[Downtime]) -> None:
        """End the downtimes."""
        by = request.user
        rows = list(self.changeable(request, queryset).select_related(*self.list_select_related).order_by("pk"))
        if not isinstance(by, User) or len(rows) != queryset.count():
            self.message_user(request, "Nothing was changed; choose rows that you may all change.", messages.ERROR)
            return
        try:
            with transaction.atomic(durable=True):
                for row in rows:
                    end(row, by=by, now=current_time())
        except (DowntimeError, NotFoundError) as error:
            self.message_user(request, f"Nothing was changed. {error}", messages.ERROR)
        else:
            self.message_user(request, f"Ended: {counted(len(rows), 'downtime')}.", messages.SUCCESS)

    @admin.display(description="place", ordering="site__name")
    def place(self, downtime: Downtime) -> str:
        """Return its site, computing element or queue, in words."""
        return full_name(downtime.level)


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

    list_display = ("job", "owner", "pilot", "host", "leased_at", "expires_at", "reported_at", "ended_at", "end_reason")
    list_display_links = ("leased_at",)
    list_select_related = ("job__owner", "pilot")
    list_filter = (EndFilter,)
    searched_exactly = ("job", "pilot")
    search_help_text = "Id of a job or of a pilot."
    # Those of the newest jobs first, by the index: there is none by time.
    ordering = ("-job_id", "-leased_at")
    sortable_by = ()

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the leases of the VOs' jobs."""
        return Q(job__vo__in=vos)

    @admin.display(description="owner")
    def owner(self, lease: Match) -> str:
        """Return the user name of the job's owner."""
        return lease.job.owner.username

    @admin.display(description="host")
    def host(self, lease: Match) -> str:
        """Return the host of the pilot."""
        return lease.pilot.host_name


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
