"""The admin page of limits and quotas."""

from collections.abc import Iterable, Sequence
from types import MappingProxyType

from django import forms
from django.contrib import admin
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest

from taskqueues.domain.limits import BOUNDS, LARGEST_BURST, LONGEST_DELAY_S, SCOPE, WAITING_AT_A_PLACE, WITHOUT_BOUND
from taskqueues.models import Limit
from taskqueues.queries import limit_in_words, room_in_words, with_counts
from taskqueues.services.consequences import of_limit
from taskqueues.services.limits import lock_limits, managed_by, mistakes_in, name_of
from wms.accounts.admin.rights import VOLevelAdmin
from wms.kernel.admin.columns import with_unit
from wms.kernel.admin.confirmation import ConfirmedForm
from wms.kernel.admin.rights import EVERYTHING, SeenRelatedFilter
from wms.kernel.consequences import Consequence
from wms.kernel.db import DatabaseNow
from wms.kernel.time_texts import duration


class LimitForm(ConfirmedForm[Limit]):
    """A limit; a manager's must be on a VO, a group or a site that the manager manages."""

    #: VOs of the manager; None: an operator, who may limit anybody.
    managed_vos: frozenset[int] | None = None

    def clean(self) -> None:
        """Refuse a limit with mistakes, also one that the manager may not set."""
        super().clean()
        fields = self.cleaned_data
        values = {name: fields.get(name) for name in (*SCOPE, *BOUNDS)}
        tried = Limit(pk=self.instance.pk, **{**values, "job_type": values["job_type"] or ""})
        if not self.errors:
            lock_limits()
            for field, sentence in list(mistakes_in(tried, managed_vos=self.managed_vos)):
                self.add_error(field or None, sentence)

    def consequences(self) -> Iterable[Consequence]:
        """Return what the limit stops."""
        return of_limit(self.instance)


@admin.register(Limit)
class LimitAdmin(VOLevelAdmin[Limit]):
    """Limits: a manager limits the own VO, its groups, or sites that serve no other VO."""

    form = LimitForm
    logged_values = frozenset(BOUNDS)
    managers_may = EVERYTHING
    constraint_words = MappingProxyType(
        {
            "limit_limits_something": WITHOUT_BOUND,
            "limit_on_waiting_names_no_place": WAITING_AT_A_PLACE,
            "limit_delay_is_at_most_a_day": ("delay_s", f"Give 0 to {LONGEST_DELAY_S} seconds."),
            "limit_burst_is_at_least_one_and_not_endless": ("burst", f"Give 1 to {LARGEST_BURST} matches."),
        }
    )
    choose_managed = frozenset({"vo", "group"})
    list_display = (
        *("id", "is_on", "room_now", "running", "waiting"),
        with_unit("cpu_s_per_day", duration, description="CPU time per day"),
        with_unit("delay_s", duration, description="delay"),
    )
    readonly_fields = ("room_now",)
    list_select_related = ("vo", "site", "ce", "group", "user")
    list_filter = tuple((name, SeenRelatedFilter) for name in ("vo", "site", "ce", "group", "user"))
    search_fields = ("vo__name", "site__name", "ce__name", "group__name", "user__username", "job_type")
    search_help_text = "Part of the name of a VO, site, CE, group or user, or of the job type."
    ordering = ("id",)
    autocomplete_fields = ("vo", "site", "ce", "group", "user")
    fieldsets = (
        (
            "Scope",
            {
                "fields": SCOPE,
                "description": "The limit is on jobs to which all selected fields apply; empty fields apply to all.",
            },
        ),
        ("Limits", {"fields": BOUNDS}),
        ("At present", {"fields": ("room_now",)}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Limit]:
        """Return the limits with their usage, and the clock by which it is measured."""
        return with_counts(super().get_queryset(request)).annotate(right_now=DatabaseNow())

    @admin.display(description="limits jobs of")
    def is_on(self, limit: Limit) -> str:
        """Return the scope."""
        return limit_in_words(limit)

    @admin.display(description="room")
    def room_now(self, limit: Limit) -> str:
        """Return the room, or why there is none."""
        # A new limit has no annotations.
        return room_in_words(limit, now=vars(limit)["right_now"]) if "right_now" in vars(limit) else ""

    def get_deleted_objects(
        self, objs: QuerySet[Limit] | Sequence[Limit], request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Return what a deletion includes: the limits, each with the jobs that it limits."""
        _, counts, lacking, protected = super().get_deleted_objects(objs, request)
        return [name_of(limit) for limit in objs], counts, lacking, protected

    def full_name(self, row: Model) -> str:
        """Return the name in the history, with the jobs that it limits."""
        return name_of(row) if isinstance(row, Limit) else super().full_name(row)

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the limits that concern only the VOs."""
        return managed_by(vos)

    def get_form(
        self,
        request: HttpRequest,
        obj: Limit | None = None,
        change: bool = False,  # noqa: FBT001, FBT002 - Django's own
        **kwargs: object,
    ) -> "type[forms.ModelForm[Limit]]":
        """Return the form, with the VOs of the manager."""
        form = super().get_form(request, obj, change, **kwargs)
        vos = None if self.sees_all(request) else self.managed_vos(request)
        return type(form.__name__, (form,), {"managed_vos": vos})
