"""The admin page of VOs: the correction of shares affects priorities, so each change marks the VO's groups."""

from collections.abc import Sequence
from types import MappingProxyType

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.text import capfirst

from resources.queries.rights import definitions_of_only, sites_serving_only
from taskqueues.services.priorities import mark_groups_of
from taskqueues.tasks import recalculate_changed_groups
from wms.accounts.admin.rights import VOLevelAdmin
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import VO
from wms.kernel.admin.columns import with_unit
from wms.kernel.admin.forms import GenericModelForm
from wms.kernel.admin.pages import MOST_PROTECTING
from wms.kernel.after_commit import send_after_commit
from wms.kernel.clock import current_time
from wms.kernel.names import in_percent


class VOForm(GenericModelForm[VO]):
    """The columns of a VO; a fraction left empty is 0."""

    def clean_any_segment_fraction(self) -> float:
        """Return the fraction."""
        return self.cleaned_data["any_segment_fraction"] or 0.0


@admin.register(VO)
class VOAdmin(VOLevelAdmin[VO]):
    """VOs: operators add them and choose their managers; a manager changes the own VO's setups and its sharing."""

    form = VOForm
    constraint_words = MappingProxyType(
        {
            "vo_default_setup_is_one_of_its_setups": (
                "setup",
                "It must be one of the VO's setups; add it to them.",
            ),
            "vo_pause_has_a_reason": ("pause_reason", "Give a reason: everybody whose jobs wait is shown it."),
            "vo_any_segment_fraction_is_0_to_1": ("any_segment_fraction", "Give a number from 0 to 1."),
            "vo_stalled_cpu_fraction_is_0_to_1": ("stalled_cpu_fraction", "Give a number from 0 to 1."),
        }
    )
    kinds_of_fields = MappingProxyType({"managers": SecurityEventKind.RIGHTS_CHANGED})
    logged_values = frozenset(
        {
            *("setup", "any_segment_fraction", "paused_until", "pause_reason"),
            *("stalled_s", "stalled_cpu_fraction", "max_stalled_s", "outputs_for_sites"),
            *("keep_done_days", "keep_failed_days", "keep_killed_days", "keep_deleted_days"),
        }
    )
    managers_may = frozenset({"view", "change"})
    fixed_after_creation = ("name",)
    for_operators = ("name", "managers")
    list_display = (
        *("name", "setup", "setups", "history_fair_share"),
        with_unit("any_segment_fraction", in_percent, description="drawn from any segment"),
    )
    search_fields = ("name",)
    ordering = ("name",)
    autocomplete_fields = ("managers",)
    fieldsets = (
        (None, {"fields": ("name", "setup", "setups")}),
        ("Sharing", {"fields": ("history_fair_share", "any_segment_fraction")}),
        ("Pause", {"fields": ("paused_until", "pause_reason")}),
        (
            "Stalled payloads",
            {
                "fields": ("stalled_s", "stalled_cpu_fraction", "max_stalled_s"),
                "description": "A job may set values of its own, within the longest window.",
            },
        ),
        ("Sites", {"fields": ("outputs_for_sites",)}),
        (
            "Removal of ended jobs",
            {
                "fields": ("keep_done_days", "keep_failed_days", "keep_killed_days", "keep_deleted_days"),
                "description": "A shorter age than an operator has seen in `wms-server retention` takes effect when an "
                "operator allows it.",
            },
        ),
        (
            "Managers",
            {"fields": ("managers",), "description": "To come here, a manager needs the staff status of a user, too."},
        ),
    )

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the VOs themselves."""
        return Q(pk__in=vos)

    def save_model(self, request: HttpRequest, obj: VO, form: VOForm, change: bool) -> None:  # noqa: FBT001 - Django's own
        """Save it, and mark the priorities of its task queues for recalculation."""
        super().save_model(request, obj, form, change)
        mark_groups_of(vo_id=obj.pk, now=current_time())
        send_after_commit(recalculate_changed_groups)

    def get_deleted_objects(
        self, objs: QuerySet[VO] | Sequence[VO], request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Return what a deletion includes, and what prevents it: rows only for these VOs would then serve all."""
        rows, counts, lacking, protected = super().get_deleted_objects(objs, request)
        vos = frozenset(vo.pk for vo in objs)
        alone = [*sites_serving_only(vos).order_by("name"), *definitions_of_only(vos).order_by("name")]
        protected += [
            f"{capfirst(row._meta.verbose_name)}: {row} would serve all VOs without this one. "
            "Delete it, or choose another VO for it, first."
            for row in alone[:MOST_PROTECTING]
        ]
        return rows, counts, lacking, protected
