"""Admin pages of sites, CEs, queues, platforms and definitions; changes that matter refresh submit pools (RFC7)."""

from collections.abc import Iterable
from types import MappingProxyType
from typing import TypeVar

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count, Model, Prefetch, Q, QuerySet
from django.forms import ModelForm, ModelMultipleChoiceField
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from resources.admin.forms import CEForm, DefinitionForm, LevelForm
from resources.admin.states import PARAMETER_FIELDSET, STATE_ACTIONS, STATE_FIELDS, STATE_FIELDSET, StatesAdmin
from resources.domain.advertised_load import MAXIMA
from resources.domain.enums import SiteTokenPurpose
from resources.domain.parameters import names_in
from resources.domain.throttles import mistakes_in
from resources.models import ComputingElement, Platform, Queue, RequirementDefinition, Site, StorageElement
from resources.queries.nodes import contradiction, latest_reports
from resources.queries.rights import sites_serving, sites_serving_only
from resources.services.site_tokens import issue_site_token
from resources.services.states import full_name
from resources.services.throttles import COLUMNS, recompute
from taskqueues.services import classads, submit_pools
from taskqueues.services.consequences import of_job_types, of_parameters, of_served
from taskqueues.services.narrowing import COMPARED, of_platform, of_queue
from taskqueues.services.throttles import consequences_of
from taskqueues.tasks import refresh_soon
from wms.accounts.admin.rights import ServingVOsAdmin, VOLevelAdmin, VORights
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import VO
from wms.kernel.admin.columns import with_unit
from wms.kernel.admin.confirmation import ConfirmedForm
from wms.kernel.admin.pages import RowLevelAdmin
from wms.kernel.admin.rights import EVERYTHING, SeenRelatedFilter
from wms.kernel.clock import current_time
from wms.kernel.compression import without_compression
from wms.kernel.consequences import Consequence
from wms.kernel.db import database_now
from wms.kernel.time_texts import duration, to_the_second
from wms.wire.amounts import AMOUNT

M = TypeVar("M", bound=Model)
LevelT = TypeVar("LevelT", Site, ComputingElement, Queue)
#: Attribute of a displayed site: whether the user may add computing elements.
_ADDS_CES = "adds_ces"
#: Fields whose old and new values the history has.
_PARAMETERS = ("parameters", "vo_parameters")


class RefreshingAdmin(VORights, RowLevelAdmin[M]):
    """Base of the pages of rows that decide which queues satisfy which requirements."""

    managers_may = EVERYTHING

    def concerned(self, row: M) -> list[VO] | None:
        """Return the VOs whose jobs' eligibility depends on the row; None: of all."""
        raise NotImplementedError

    def save_related(self, request: HttpRequest, form: "ModelForm[M]", formsets: object, change: bool) -> None:  # noqa: FBT001 - Django's own
        """Save the related rows, and refresh the pools of the VOs concerned before and now."""
        before = self.concerned(form.instance)
        super().save_related(request, form, formsets, change)
        refresh_soon(before, self.concerned(form.instance))

    def delete_model(self, request: HttpRequest, obj: M) -> None:
        """Delete the row, and refresh the pools."""
        submit_pools.hold_refreshes()
        before = self.concerned(obj)
        super().delete_model(request, obj)
        refresh_soon(before)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[M]) -> None:
        """Delete the rows, and refresh the pools."""
        with transaction.atomic():
            submit_pools.hold_refreshes()
            before = [self.concerned(row) for row in queryset]
            super().delete_queryset(request, queryset)
            refresh_soon(*before)


def _served_by(site: Site) -> list[VO] | None:
    return list(site.vos.all()) or None


class PlaceForm(ConfirmedForm[LevelT], LevelForm[LevelT]):
    """A site, a computing element or a queue; parameters with names that are probably mistyped are confirmed."""

    def consequences(self) -> Iterable[Consequence]:
        """Yield names of new parameters that nothing reads."""
        if {*_PARAMETERS} & {*self.changed_data}:
            before = names_in(*(self.initial.get(name) for name in _PARAMETERS))
            names = names_in(self.instance.parameters, self.instance.vo_parameters) - before
            yield from of_parameters(names, vos=self._served())


class ComputingElementForm(PlaceForm[ComputingElement], CEForm):
    """A computing element."""


class QueueForm(PlaceForm[Queue]):
    """A queue; job types that no waiting job has are confirmed, and values that leave jobs without a queue."""

    def consequences(self) -> Iterable[Consequence]:
        """Yield types that no job has, and jobs that fit nowhere else; and parameters as for every place."""
        yield from super().consequences()
        if "job_types" in self.changed_data:
            queue = self.instance
            yield from of_job_types(queue.job_types, whose=f"the queue {queue.name}", site=queue.ce.site)
        if self.instance.pk and COMPARED & {*self.changed_data}:
            yield from of_queue(self.instance, now=database_now())


class LevelAdmin(StatesAdmin[LevelT], RefreshingAdmin[LevelT]):
    """Base of the pages of sites, computing elements and queues."""

    form = PlaceForm

    def full_name(self, row: Model) -> str:
        """Return the name in the security log, with the levels above."""
        return full_name(row) if isinstance(row, Site | ComputingElement | Queue) else super().full_name(row)


class SiteForm(PlaceForm[Site]):
    """A site, with the settings that its throttle policy needs, and storage elements that serve its VOs."""

    def clean(self) -> None:
        """Check rules on several fields."""
        super().clean()
        self._check_storage_elements()
        settings = {name: self.cleaned_data.get(column) for name, column in COLUMNS.items()}
        for name, sentence in mistakes_in(settings):
            if COLUMNS[name] in self.fields:
                self.add_error(COLUMNS[name], f"{capfirst(sentence)}.")

    def consequences(self) -> Iterable[Consequence]:
        """Yield what the settings of the throttle stop, and other VOs; and parameters as for every place."""
        yield from super().consequences()
        yield from consequences_of(self.instance)
        if self.instance.pk and "vos" in self.changed_data:
            yield from of_served(self.instance, before=self.instance.vos.all(), after=self.cleaned_data["vos"])

    def _check_storage_elements(self) -> None:
        """Refuse new ones that serve none of the site's VOs, and keep those that the user cannot see."""
        fields = self.cleaned_data
        if "storage_elements" not in fields:
            return
        site = self.instance
        attached = StorageElement.objects.filter(sites=site.pk) if site.pk else StorageElement.objects.none()
        before = frozenset(attached.values_list("pk", flat=True))
        vos = frozenset(vo.pk for vo in fields.get("vos", site.vos.all() if site.pk else ()))
        chosen = StorageElement.objects.filter(pk__in=fields["storage_elements"]).prefetch_related("vos")
        for element in chosen.order_by("name"):
            served = frozenset(vo.pk for vo in element.vos.all())
            if element.pk not in before and (served.isdisjoint(vos) if vos else not served):
                sentence = f"{element} serves no VO of this site; an operator names its VOs on its own page."
                self.add_error("storage_elements", sentence)
        offered = self.fields["storage_elements"]
        if isinstance(offered, ModelMultipleChoiceField) and offered.queryset is not None:
            hidden = attached.exclude(pk__in=offered.queryset.values("pk"))
            ids = [*chosen.values_list("pk", flat=True), *hidden.values_list("pk", flat=True)]
            fields["storage_elements"] = StorageElement.objects.filter(pk__in=ids)


class SiteAdmin(ServingVOsAdmin[Site], LevelAdmin[Site]):
    """Sites: a manager edits those that serve the own VO only; only operators may edit shared sites.

    This page and those of CEs and queues are registered with what runs there (``matching.admin``).
    """

    form = SiteForm
    kinds_of_fields = MappingProxyType({"storage_elements": SecurityEventKind.STORAGE_ELEMENT_CHANGED})
    logged_values = frozenset({*_PARAMETERS, *COLUMNS.values()})
    managers_may = EVERYTHING - {"delete"}  # banning is enough, and jobs keep the name of their site
    fixed_after_creation = ("name",)
    list_display = ("name", "state", "state_reason", "state_until", "vo_names", "ce_count", "throttle_policy")
    list_filter = ("state", ("vos", SeenRelatedFilter), "throttle_policy")
    search_fields = ("name",)
    ordering = ("name",)
    readonly_fields = (*STATE_FIELDS, "ce_links", "throttle_now")
    filter_horizontal = ("storage_elements",)
    autocomplete_fields = ("vos",)
    actions = (*STATE_ACTIONS, "issue_registration_token", "issue_advertisement_token")
    row_actions = MappingProxyType(
        {
            **StatesAdmin.row_actions,
            "issue_registration_token": "Issue a token for registration",
            "issue_advertisement_token": "Issue a token for advertisements",
        }
    )
    fieldsets = (
        (None, {"fields": ("name", "vos", "ce_links", "storage_elements", "containers_provide_platforms")}),
        PARAMETER_FIELDSET,
        (
            "Throttle",
            {
                "fields": (
                    ("throttle_policy", "throttle_when_expired", "throttle_advertisement_s"),
                    ("max_matches", "max_submitting_jobs"),
                    ("max_submitting_and_output_gathering_jobs", "max_jobs"),
                    "throttle_requirements",
                    "throttle_now",
                ),
                "description": "An expression may use what the site advertises, CurMatches, the maxima under SAM's "
                f"names ({', '.join(MAXIMA)}) and the requirements of the job: {', '.join(classads.NAMES)}. A name is "
                "looked up in the advertisement first, then in the job; TARGET.name is the job's. Unknown attributes "
                "are undefined, and an expression that is not TRUE closes the site.",
            },
        ),
        STATE_FIELDSET,
    )

    def concerned(self, row: Site) -> list[VO] | None:
        """Return the VOs that it serves."""
        return _served_by(row)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Site]:
        """Return the sites with their VOs and the number of their CEs."""
        sites = super().get_queryset(request).prefetch_related("vos").annotate(ce_count=Count("ces"))
        if self.sees_all(request):
            return sites
        # Managers do not see even the names of storage elements that do not serve their VOs.
        page = self.admin_site.get_model_admin(StorageElement)
        return sites.prefetch_related(Prefetch("storage_elements", page.get_queryset(request)))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Site | None:
        """Return the site, with the attribute whether the user may add computing elements."""
        site = super().get_object(request, object_id, from_field)
        if site is not None:
            vars(site)[_ADDS_CES] = self.sees_all(request)
        return site

    def save_model(self, request: HttpRequest, obj: Site, form: SiteForm, change: bool) -> None:  # noqa: FBT001 - Django's own
        """Save the site, and apply its throttle to the last advertisement."""
        super().save_model(request, obj, form, change)
        recompute(obj)

    @admin.display(description="VOs")
    def vo_names(self, site: Site) -> str:
        """Return the VOs that it serves."""
        return ", ".join(sorted(vo.name for vo in site.vos.all())) or "all"

    @admin.display(description="CEs", ordering="ce_count")
    def ce_count(self, site: Site) -> int:
        """Return the annotated number."""
        count: int = vars(site)["ce_count"]
        return count

    @admin.display(description="computing elements")
    def ce_links(self, site: Site) -> SafeString:
        """Return links to its computing elements and their queues."""
        if not site.name:
            return format_html("{}", "Save the site first.")
        ces = site.ces.order_by("name").annotate(queue_count=Count("queues"))
        link = '<a href="{}">{}</a> (queues: {}, {})'
        rows = (
            (
                reverse("admin:resources_computingelement_change", args=[ce.pk]),
                ce.name,
                vars(ce)["queue_count"],
                ce.state,
            )
            for ce in ces
        )
        add = reverse("admin:resources_computingelement_add")
        more = format_html('<a href="{}?site={}">Add one</a>', add, site.pk)
        if not vars(site).get(_ADDS_CES):
            more = format_html("{}", "operators add more")
        return format_html("{}{}", format_html_join("", f"{link}, ", rows), more)

    @admin.display(description="now")
    def throttle_now(self, site: Site) -> SafeString:
        """Return a link to the state of its throttle."""
        if not site.pk or not site.throttle_policy:
            return format_html("{}", "There is no throttle yet." if site.pk else "Save the site first.")
        page = reverse("admin:resources_sitethrottle_change", args=[site.pk])
        return format_html('<a href="{}">State of the throttle</a>', page)

    @admin.action(description="Issue a token for registration of pilots", permissions=["change"])
    def issue_registration_token(self, request: HttpRequest, queryset: QuerySet[Site]) -> HttpResponse | None:
        """Show a new registration token for the site's pilots."""
        return self._issue(request, queryset, SiteTokenPurpose.REGISTER)

    @admin.action(description="Issue a token for advertisements", permissions=["change"])
    def issue_advertisement_token(self, request: HttpRequest, queryset: QuerySet[Site]) -> HttpResponse | None:
        """Show a new advertisement token of the site."""
        return self._issue(request, queryset, SiteTokenPurpose.ADVERTISE)

    def _issue(self, request: HttpRequest, queryset: QuerySet[Site], purpose: SiteTokenPurpose) -> HttpResponse | None:
        allowed = list(self.changeable(request, queryset).order_by("pk")[:2])
        if len(allowed) != 1 or queryset.count() != 1:
            self.message_user(request, "Choose one site that you may change.", messages.ERROR)
            return None
        (site,) = allowed
        token = issue_site_token(site, purpose=purpose, now=current_time())
        self.log_change(request, site, f"Token issued: {purpose}.")
        context = {
            **self.admin_site.each_context(request),
            "title": f"New token of {site}",
            "opts": self.opts,
            "purpose": purpose,
            "token": token,
        }
        return without_compression(TemplateResponse(request, "admin/site_token.html", context))


class ComputingElementAdmin(LevelAdmin[ComputingElement]):
    """Computing elements: a manager changes states and parameters of those at the own sites.

    Options that decide which program the server runs, where and as whom, are for operators; so are adding a CE, and
    deleting what only they could add again.
    """

    form = ComputingElementForm
    kind = SecurityEventKind.COMPUTING_ELEMENT_CHANGED
    logged_values = frozenset({*_PARAMETERS, "middleware", "setup"})
    managers_may = EVERYTHING - {"add", "delete"}
    for_operators = ("type", "options", "identity")
    fixed_after_creation = ("site", "name")
    list_display = ("name", "site", "type", "state", "state_reason", "state_until", "queue_count")
    list_select_related = ("site",)
    list_filter = ("state", "type", ("site", SeenRelatedFilter))
    autocomplete_fields = ("site",)
    search_fields = ("name", "site__name")
    ordering = ("site__name", "name")
    readonly_fields = STATE_FIELDS
    actions = STATE_ACTIONS
    fieldsets = (
        (None, {"fields": ("site", "name", "type", "middleware", "options", "pilot_types", "identity", "setup")}),
        PARAMETER_FIELDSET,
        STATE_FIELDSET,
    )

    def concerned(self, row: ComputingElement) -> list[VO] | None:
        """Return the VOs that its site serves."""
        return _served_by(row.site)

    def seen(self, vos: frozenset[int]) -> Q:
        """Return the CEs of the sites that serve the VOs."""
        return Q(site__in=sites_serving(vos))

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the CEs of the sites that serve no other VO."""
        return Q(site__in=sites_serving_only(vos))

    def get_queryset(self, request: HttpRequest) -> QuerySet[ComputingElement]:
        """Return the CEs with the number of their queues."""
        return super().get_queryset(request).annotate(queue_count=Count("queues"))

    @admin.display(description="queues", ordering="queue_count")
    def queue_count(self, ce: ComputingElement) -> int:
        """Return the annotated number."""
        count: int = vars(ce)["queue_count"]
        return count


class QueueAdmin(LevelAdmin[Queue]):
    """Queues: a manager edits those of the own sites."""

    form = QueueForm
    constraint_words = MappingProxyType(
        {
            "queue_required_tags_are_among_its_tags": (
                "required_tags",
                "Each required tag must also be among the tags; add it to them.",
            ),
            "queue_stalled_cpu_fraction_is_0_to_1": ("stalled_cpu_fraction", "Give a number from 0 to 1."),
        }
    )

    logged_values = frozenset(
        {
            *(*_PARAMETERS, "cpu_time_s", *AMOUNT, "setup", "max_waiting_pilots", "max_pilots"),
            *("stalled_s", "stalled_cpu_fraction", "max_stalled_s"),
        }
    )
    fixed_after_creation = ("ce", "name")
    choose_managed = frozenset({"ce"})
    list_display = (
        "name",
        "site",
        "ce",
        "state",
        "state_reason",
        with_unit("cpu_time_s", duration, description="CPU time"),
        "processors",
        with_unit("memory_mb", "{:,} MB".format, description="memory"),
        "max_pilots",
    )
    list_select_related = ("ce__site",)
    list_filter = ("state", ("ce__site", SeenRelatedFilter), ("ce", SeenRelatedFilter))
    autocomplete_fields = ("ce",)
    search_fields = ("name", "ce__name", "ce__site__name")
    ordering = ("ce__site__name", "ce__name", "name")
    readonly_fields = (*STATE_FIELDS, "nodes_report")
    actions = STATE_ACTIONS
    fieldsets = (
        (None, {"fields": ("ce", "name")}),
        (
            "A slot offers",
            {"fields": (*("cpu_time_s", *AMOUNT, "container", "platforms", "nodes_report"),)},
        ),
        ("Takes", {"fields": ("job_types", "tags", "required_tags")}),
        ("Pilots", {"fields": ("max_waiting_pilots", "max_pilots", "setup")}),
        (
            "Stalled payloads",
            {
                "fields": ("stalled_s", "stalled_cpu_fraction", "max_stalled_s"),
                "description": "A job may set values of its own, within the longest window.",
            },
        ),
        PARAMETER_FIELDSET,
        STATE_FIELDSET,
    )

    def concerned(self, row: Queue) -> list[VO] | None:
        """Return the VOs that its site serves."""
        return _served_by(row.ce.site)

    def seen(self, vos: frozenset[int]) -> Q:
        """Return the queues of the sites that serve the VOs."""
        return Q(ce__site__in=sites_serving(vos))

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the queues of the sites that serve no other VO."""
        return Q(ce__site__in=sites_serving_only(vos))

    @admin.display(description="site", ordering="ce__site__name")
    def site(self, queue: Queue) -> str:
        """Return its site."""
        return queue.ce.site.name

    @admin.display(description="platforms of its nodes")
    def nodes_report(self, queue: Queue) -> SafeString:
        """Return the platforms reported by nodes, the times, and whether they contradict the configuration."""
        if not queue.pk:
            return format_html("{}", "Save the queue first.")
        rows = (
            (
                report.platform,
                f"{report.host_name}, {to_the_second(report.seen_at)}",
                contradiction(queue, report.platform, has_containers=queue.container),
            )
            for report in latest_reports(queue)
        )
        return format_html_join("", "<div>{} ({}) {}</div>", rows) or format_html("{}", "No node has reported any yet.")


@admin.register(RequirementDefinition)
class RequirementDefinitionAdmin(ServingVOsAdmin[RequirementDefinition], RefreshingAdmin[RequirementDefinition]):
    """Requirement definitions: comparison of names in jobs' requirements with resource parameters; by VO."""

    constraint_words = MappingProxyType(
        {
            "requirement_name_is_unique_ignoring_case": (
                "name",
                "This name is already in use (letter case is ignored); choose another.",
            )
        }
    )

    form = DefinitionForm
    logged_values = frozenset({"kind", "unit"})
    fixed_after_creation = ("name",)
    list_display = ("name", "kind", "unit", "vo_names")
    list_filter = ("kind", ("vos", SeenRelatedFilter))
    autocomplete_fields = ("vos",)
    search_fields = ("name",)
    ordering = ("name",)

    def concerned(self, row: RequirementDefinition) -> list[VO] | None:
        """Return the VOs to which it applies."""
        return list(row.vos.all()) or None

    def get_queryset(self, request: HttpRequest) -> QuerySet[RequirementDefinition]:
        """Return the definitions with their VOs."""
        return super().get_queryset(request).prefetch_related("vos")

    @admin.display(description="VOs")
    def vo_names(self, definition: RequirementDefinition) -> str:
        """Return the names of the VOs to which it applies."""
        return ", ".join(sorted(vo.name for vo in definition.vos.all())) or "all"


class PlatformForm(ConfirmedForm[Platform]):
    """A platform; it is confirmed that jobs fit no queue any more."""

    def consequences(self) -> Iterable[Consequence]:
        """Return jobs that fit nowhere else."""
        return of_platform(self.instance, now=database_now()) if self.instance.pk and self.has_changed() else ()


@admin.register(Platform)
class PlatformAdmin(VOLevelAdmin[Platform]):
    """Platforms of nodes and the job platforms that they run, for all VOs; operators edit them, managers see them."""

    form = PlatformForm
    fields = ("name", "runs")
    managers_may = frozenset({"view"})
    fixed_after_creation = ("name",)
    list_display = ("name", "runs")
    search_fields = ("name",)
    ordering = ("name",)

    def seen(self, vos: frozenset[int]) -> Q:  # noqa: ARG002 - every VO's
        """Return all."""
        return Q()
