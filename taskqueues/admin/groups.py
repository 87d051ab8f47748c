"""The page of groups: their priority is their share, so that each change marks the group (STYLE 32)."""

from types import MappingProxyType
from typing import Any

from django.contrib import admin
from django.db.models import Field, ForeignKey, Q
from django.http import HttpRequest
from django.utils import timezone

from taskqueues.services.priorities import mark_changed
from taskqueues.tasks import recalculate_changed_groups
from wms.accounts.admin.people import MembershipInline
from wms.accounts.admin.rights import UserByNameField, VOLevelAdmin
from wms.accounts.domain import GroupProperty, SecurityEventKind
from wms.accounts.models import Group
from wms.kernel.admin import EVERYTHING, SeenRelatedFilter
from wms.kernel.nudge import nudge

#: A manager neither gives nor takes these.
_GIVEN_BY_OPERATORS = frozenset({GroupProperty.PRODUCTION.value})


class MemberInline(MembershipInline):
    """Who may act in the group; new members are named exactly."""

    verbose_name = "member"
    verbose_name_plural = "members"

    def formfield_for_dbfield(self, db_field: "Field[Any, Any]", request: HttpRequest, **kwargs: Any) -> Any:  # noqa: ANN401 - Django's own
        """Return the form field of a column; a user is typed, not chosen among all users of the system."""
        if isinstance(db_field, ForeignKey) and db_field.name == "user":
            return UserByNameField()
        return super().formfield_for_dbfield(db_field, request, **kwargs)


@admin.register(Group)
class GroupAdmin(VOLevelAdmin[Group]):
    """A manager sets the shares of the VO's groups, and who is in them."""

    constraint_words = MappingProxyType(
        {"group_priority_is_finite_and_not_negative": ("priority", "Give a number from 0 to 1e12.")}
    )
    kinds_of_fields = MappingProxyType(
        dict.fromkeys(("properties", "memberships"), SecurityEventKind.RIGHTS_CHANGED),
    )
    managers_may = EVERYTHING
    choose_managed = frozenset({"vo"})
    fixed_after_creation = ("name", "vo")
    list_display = ("name", "vo", "priority", "properties")
    list_select_related = ("vo",)
    list_filter = (("vo", SeenRelatedFilter),)
    search_fields = ("name",)
    ordering = ("name",)
    fields = ("name", "vo", "priority", "properties")
    inlines = (MemberInline,)

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the groups of the VOs."""
        return Q(vo__in=vos)

    def formfield_for_dbfield(self, db_field: "Field[Any, Any]", request: HttpRequest, **kwargs: Any) -> Any:  # noqa: ANN401 - Django's own
        """Return the form field of a column; to a manager no property is offered that lifts a limit."""
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if db_field.name == "properties" and not self.sees_all(request):
            field.choices = [choice for choice in field.choices if choice[0] not in _GIVEN_BY_OPERATORS]
        return field

    def save_model(self, request: HttpRequest, obj: Group, form: Any, change: bool) -> None:  # noqa: ANN401, FBT001 - Django's own
        """Save it with what the form did not offer, and have its queues' priorities computed again within a second."""
        if not self.sees_all(request):
            before = form.initial.get("properties") or ()
            obj.properties = sorted({*obj.properties, *(_GIVEN_BY_OPERATORS & set(before))})
        super().save_model(request, obj, form, change)
        mark_changed(group_id=obj.pk, now=timezone.now())
        nudge(recalculate_changed_groups)
