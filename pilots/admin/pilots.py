"""Admin pages of pilots (read-only) and of directors."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from types import MappingProxyType

from django.contrib import admin, messages
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from pilots.domain.director_query import flaw_of
from pilots.domain.node_report import asked, checks, missed, properties
from pilots.models import Director, Pilot
from pilots.queries import stored_log
from pilots.services import exclusions
from pilots.tasks import serve_ce
from resources.queries.rights import sites_serving
from resources.services.setups import flaw_of_setup
from taskqueues.domain.conditions import CONDITIONS
from taskqueues.services.consequences import of_job_types
from wms.accounts.admin.rights import VOLevelAdmin, VOLevelLedger
from wms.accounts.models import VO
from wms.kernel.admin.actions import AT_ONCE, CONFIRMED, ReasonForm, ask
from wms.kernel.admin.columns import with_unit
from wms.kernel.admin.confirmation import ConfirmedForm
from wms.kernel.admin.rights import SeenRelatedFilter
from wms.kernel.after_commit import send_after_commit
from wms.kernel.clock import current_time
from wms.kernel.consequences import Consequence
from wms.kernel.names import counted, in_percent
from wms.kernel.time_texts import to_the_second

#: Characters of a log on a page; the portal shows more.
_NEWEST_LENGTH = 16 * 1024
#: Shown for a missing value; Django shows this in rows, but "None" on pages.
_NONE = "–"
_MOMENTS = {
    "submitted_at": "submitted",
    "stalled_at": "stalled",
    "started_at": "started",
    "matched_at": "first job",
    "nothing_at": "last empty match",
    "last_seen_at": "last request",
    "drained_at": "drained",
    "ended_at": "ended",
    "revoked_at": "revoked",
}


class PilotPlaceFilter(SeenRelatedFilter):
    """A filter by a site or a CE, also of the pilots that a site started: these are at no queue."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Pilot]) -> QuerySet[Pilot]:
        """Return the pilots there."""
        at_queues = super().queryset(request, queryset)
        place = self.lookup_val[-1] if self.lookup_val else ""
        if not place:
            return at_queues
        without_queue = self.lookup_kwarg.removeprefix("queue__ce__").removeprefix("queue__")
        return queryset.filter(Q(**{self.lookup_kwarg: place}) | Q(**{without_queue: place}, queue=None))


@admin.register(Pilot)
class PilotAdmin(VOLevelLedger[Pilot]):
    """Pilots: where they are, and why they failed; for operators and managers."""

    list_display = (
        "id",
        "vo",
        "pilot_type",
        "status",
        "status_reason",
        "place",
        "host_name",
        "last_seen_at",
        "got_nothing_at",
    )
    list_select_related = ("vo", "queue__ce__site", "site", "ce")
    list_filter = (
        "status",
        ("vo", SeenRelatedFilter),
        ("queue__ce__site", PilotPlaceFilter),
        ("queue__ce", PilotPlaceFilter),
        ("drained_at", admin.EmptyFieldListFilter),
        ("black_hole", admin.EmptyFieldListFilter),
    )
    searched_exactly = ("id", "host_name")
    search_help_text = "Id of the pilot, or name of its host. The portal finds pilots by their stamp."
    ordering = ("-id",)
    actions = ("drain", "kill")
    row_actions = MappingProxyType({"drain": "Drain …", "kill": "Kill …"})
    fieldsets = (
        (None, {"fields": ("status", "status_reason", "vo", "owner", "group", "setup", "cut_usage")}),
        ("Place", {"fields": ("queue", "site", "ce", "host_name")}),
        ("Gets no jobs", {"fields": ("drain_reason", "black_hole")}),
        ("Batch system", {"fields": ("stamp", "batch_id", "asked_for")}),
        ("Life", {"fields": ("times",)}),
        ("Last empty match", {"fields": ("left_by_condition",)}),
        ("Node", {"fields": ("checked", "node_properties", "missed_there")}),
        ("Log", {"fields": ("newest_lines", "batch_output")}),
    )
    readonly_fields = (
        "times",
        "left_by_condition",
        "asked_for",
        "checked",
        "node_properties",
        "missed_there",
        "newest_lines",
        "batch_output",
    )

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the pilots of the VOs."""
        return Q(vo__in=vos)

    def offers(self, action: str, row: Pilot) -> bool:
        """Return whether the action could change the pilot."""
        return row.ended_at is None and (row.drained_at if action == "drain" else row.revoked_at) is None

    @admin.action(description="Drain selected pilots: no new jobs …")
    def drain(self, request: HttpRequest, queryset: QuerySet[Pilot]) -> HttpResponse | None:
        """Drain the pilots: they end after the jobs that they have."""
        return self._act(request, queryset, title="Drain")

    @admin.action(description="Kill selected pilots: revoke them, and end them in the batch system …")
    def kill(self, request: HttpRequest, queryset: QuerySet[Pilot]) -> HttpResponse | None:
        """Revoke the pilots' credentials; their jobs wait again when the pilots have ended."""
        return self._act(request, queryset, title="Kill")

    def _act(self, request: HttpRequest, queryset: QuerySet[Pilot], *, title: str) -> HttpResponse | None:
        pilots = list(self.changeable(request, queryset).order_by("pk")[:AT_ONCE])
        if len(pilots) != queryset.count():
            sentence = f"Nothing was changed; choose at most {AT_ONCE} pilots, all of which you may change."
            self.message_user(request, sentence, messages.ERROR)
            return None
        form = ReasonForm(request.POST if CONFIRMED in request.POST else None)
        if not form.is_valid():
            statuses = Counter(pilot.status for pilot in pilots)
            facts = [", ".join(f"{number:,} {status}" for status, number in sorted(statuses.items()))]
            return ask(self, request, pilots, form=form, title=title, facts=facts)
        rows, by = Pilot.objects.filter(pk__in=[pilot.pk for pilot in pilots]), str(request.user)
        reason, now = form.cleaned_data["reason"], current_time()
        if title == "Drain":
            done = exclusions.drain(rows, reason=f"drained by {by}: {reason}", now=now)
            what = "drained; they end after their running jobs"
        else:
            revoked = exclusions.revoke(rows, by=f"{by}: {reason}", now=now)
            for ce_id in sorted(revoked.ce_ids):
                send_after_commit(serve_ce, ce_id=ce_id)
            done, what = revoked.pilots, "revoked; they are being killed in their batch systems"
        others = f" The other {len(pilots) - done:,} were already, or have ended." if done < len(pilots) else ""
        self.message_user(request, f"{done:,} of {counted(len(pilots), 'pilot')} {what}.{others}")
        return None

    @admin.display(description="place")
    def place(self, pilot: Pilot) -> str:
        """Return site / CE / queue."""
        queue = pilot.queue
        levels = (queue.ce.site, queue.ce, queue) if queue else (pilot.site, pilot.ce)
        return " / ".join(str(level) for level in levels if level) or "–"

    @admin.display(description="last empty match", ordering="nothing_at", empty_value="–")
    def got_nothing_at(self, pilot: Pilot) -> datetime | None:
        """Return the time of its last request for a job that got none."""
        return pilot.nothing_at

    @admin.display(description="task queues left after each condition")
    def left_by_condition(self, pilot: Pilot) -> SafeString | str:
        """Return how many task queues each condition left at that request, in order: a fall to 0 is the cause."""
        left = pilot.nothing_left or {}
        # The database sorts the names by itself; a condition added later was not counted then.
        counts = [(name, left[name]) for name in CONDITIONS if name in left]
        return format_html_join("\n", "<div>{}: {}</div>", counts) or _NONE

    @admin.display(description="times")
    def times(self, pilot: Pilot) -> SafeString | str:
        """Return the times of a pilot's life, in their usual order."""
        moments = {name: getattr(pilot, name) for name in _MOMENTS}
        return _table((_MOMENTS[name], to_the_second(at)) for name, at in moments.items() if at is not None)

    @admin.display(description="requested")
    def asked_for(self, pilot: Pilot) -> SafeString | str:
        """Return what was requested from the batch system."""
        return _table(asked(pilot.slot))

    @admin.display(description="checks")
    def checked(self, pilot: Pilot) -> SafeString | str:
        """Return the items of the node check, made before the first job (PIL §2.1)."""
        return _table((name, "fit" if fit else "not fit", detail) for name, fit, detail in checks(pilot.node))

    @admin.display(description="properties")
    def node_properties(self, pilot: Pilot) -> SafeString | str:
        """Return the other properties of the node."""
        return _table((label, value or _NONE) for label, value in properties(pilot.node))

    @admin.display(description="not found by jobs")
    def missed_there(self, pilot: Pilot) -> SafeString | str:
        """Return what jobs did not find on the node, with times."""
        return _table((f"{at} UTC", name, detail) for name, detail, at in missed(pilot.node))

    @admin.display(description="newest lines")
    def newest_lines(self, pilot: Pilot) -> SafeString | str:
        """Return the end of the log."""
        return _lines(stored_log(pilot, newest=_NEWEST_LENGTH).text)

    @admin.display(description="output in the batch system")
    def batch_output(self, pilot: Pilot) -> SafeString | str:
        """Return the output that the batch system kept of a pilot that could not send its log."""
        return _lines(stored_log(pilot, newest=0).batch_output)


def _lines(text: str) -> SafeString | str:
    if not text:
        return _NONE
    return format_html('<div class="pilot-log" tabindex="0" role="region" aria-label="Lines"><pre>{}</pre></div>', text)


def _table(rows: Iterable[tuple[str, ...]]) -> SafeString | str:
    lines = [(format_html_join("", "<td>{}</td>", ((cell,) for cell in row)),) for row in rows]
    if not lines:
        return _NONE
    return format_html('<table class="facts">{}</table>', format_html_join("\n", "<tr>{}</tr>", lines))


class DirectorForm(ConfirmedForm[Director]):
    """Form of a director; its requirements must be an expression over task queues, and some VO must have its setup."""

    def clean(self) -> None:
        """Refuse requirements that no task queue could meet because of a mistake, and a setup that no VO has."""
        super().clean()
        requirements, setup = (self.cleaned_data.get(name, "") for name in ("requirements", "setup"))
        if requirements and (flaw := flaw_of(requirements)):
            self.add_error("requirements", f"{flaw[0].upper()}{flaw[1:]}")
        if setup and (flaw := flaw_of_setup(setup, {vo.name: vo.setups for vo in VO.objects.all()})):
            self.add_error("setup", flaw)

    def consequences(self) -> Iterable[Consequence]:
        """Return that it sends no pilots, for no waiting job has one of its types."""
        if "job_types" not in self.changed_data:
            return ()
        return of_job_types(self.instance.job_types, whose=f"the director {self.instance.name}")


@admin.register(Director)
class DirectorAdmin(VOLevelAdmin[Director]):
    """Directors: operators edit them, managers only see them."""

    constraint_words = MappingProxyType(
        {"director_private_fraction_is_0_to_1": ("private_fraction", "Give a number from 0 to 1.")}
    )
    managers_may = frozenset({"view"})
    logged_values = frozenset({"kind", "requirements", "setup", "pilots_per_cycle", "private_fraction"})
    fixed_after_creation = ("name",)
    form = DirectorForm
    list_display = (
        "name",
        "kind",
        "site_names",
        "job_types",
        "requirements",
        "setup",
        "pilots_per_cycle",
        with_unit("private_fraction", in_percent, description="private pilots"),
    )
    search_fields = ("name",)
    ordering = ("name",)
    autocomplete_fields = ("sites",)
    fields = (
        *("name", "kind", "sites", "job_types", "requirements", "setup"),
        *("pilots_per_cycle", "private_fraction"),
    )

    def seen(self, vos: frozenset[int]) -> Q:
        """Return those with a site that serves the VOs, and those for all sites."""
        chosen = Director.sites.through.objects.filter(director=OuterRef("pk"))
        return Q(Exists(chosen.filter(site__in=sites_serving(vos))) | ~Exists(chosen))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Director]:
        """Return the directors with their sites."""
        return super().get_queryset(request).prefetch_related("sites")

    @admin.display(description="sites")
    def site_names(self, director: Director) -> str:
        """Return the sites of the director."""
        return ", ".join(sorted(site.name for site in director.sites.all())) or "all"
