"""The admin page of groups: their priority is their share, so each change marks the group for recalculation."""

from types import MappingProxyType
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import ForeignKey, Model, Q
from django.http import HttpRequest

from taskqueues.services.priorities import mark_changed
from taskqueues.tasks import recalculate_changed_groups
from wms.accounts import services
from wms.accounts.admin.people import MembershipInline
from wms.accounts.admin.rights import UserByNameField, VOLevelAdmin, VOLevelInline
from wms.accounts.domain import MAX_OPEN_INVITATIONS, GroupProperty, SecurityEventKind
from wms.accounts.models import Group, Invitation, Membership, User
from wms.kernel.admin.forms import ChoiceListField, Column, GenericModelForm
from wms.kernel.admin.rights import EVERYTHING, SeenRelatedFilter
from wms.kernel.after_commit import send_after_commit
from wms.kernel.clock import current_time

#: Properties that managers neither give nor take.
_GIVEN_BY_OPERATORS = frozenset({GroupProperty.PRODUCTION.value})


class MemberInline(MembershipInline):
    """Members of the group; new members are named exactly, by a manager only users who are in the VO already."""

    verbose_name = "member"
    verbose_name_plural = "members"

    def formfield_for_dbfield(self, db_field: Column, request: HttpRequest, **kwargs: object) -> forms.Field | None:
        """Return the form field of a column; a user is typed, not chosen among all users of the system."""
        if isinstance(db_field, ForeignKey) and db_field.name == "user":
            if self.sees_all(request):
                sentence = "There is no user of exactly this name; letter case counts."
                return UserByNameField(User.objects.all(), invalid=sentence)
            # The same sentence for an unknown name and for a user of other VOs.
            sentence = "The VO has no user of exactly this name; invite a user who is not in it yet."
            return UserByNameField(User.objects.none(), invalid=sentence)
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def narrow(self, fields: "dict[str, forms.Field]", page: Model | None) -> None:
        """Keep the users who are in the VO of the page's group."""
        users = fields["user"]
        if isinstance(users, forms.ModelChoiceField) and isinstance(page, Group):
            users.queryset = User.objects.filter(memberships__group__vo=page.vo_id).distinct()


class InvitationForm(GenericModelForm[Invitation]):
    """An invitation by name; only whether it is a member's is looked up."""

    def clean_username(self) -> str:
        """Refuse the name of a member, and more invitations than allowed."""
        username: str = User.normalize_username(self.cleaned_data["username"])
        group, now = self.instance.group, current_time()
        if Membership.objects.filter(group=group, user__username=username).exists():
            raise forms.ValidationError("This user is already a member of the group.")
        if Invitation.objects.filter(group=group, expires_at__gt=now).count() >= MAX_OPEN_INVITATIONS:
            sentence = f"The group has {MAX_OPEN_INVITATIONS} open invitations; withdraw some first."
            raise forms.ValidationError(sentence)
        return username


class InvitationInline(VOLevelInline[Invitation]):
    """Open invitations of managers into the group; the answers are not shown."""

    model = Invitation
    form = InvitationForm
    operators_may = EVERYTHING - {"change"}
    managers_may = EVERYTHING - {"change"}
    fields = ("username", "invited_by", "created_at", "expires_at")
    readonly_fields = ("invited_by", "created_at", "expires_at")

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the invitations into groups of the VOs."""
        return Q(group__vo__in=vos)


@admin.register(Group)
class GroupAdmin(VOLevelAdmin[Group]):
    """Groups: a manager sets the shares of the VO's groups, invites users into them, and ends memberships."""

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
    inlines = (MemberInline, InvitationInline)

    def get_inlines(self, request: HttpRequest, obj: Group | None) -> tuple[type[MemberInline | InvitationInline], ...]:
        """Return the tables; a new group has no VO yet, so no users."""
        if obj is not None:
            return (MemberInline, InvitationInline)
        return (MemberInline,) if self.sees_all(request) else ()

    def save_formset(self, request: HttpRequest, form: "forms.ModelForm[Group]", formset: Any, change: bool) -> None:  # noqa: ANN401, FBT001 - Django's own
        """Save a table; invitations are sent and withdrawn by their services."""
        if formset.model is not Invitation or not isinstance(request.user, User):
            super().save_formset(request, form, formset, change)
            return
        for invitation in formset.save(commit=False):
            services.invite(invitation.group, invitation.username, by=request.user, now=current_time())
        for invitation in formset.deleted_objects:
            services.withdraw(invitation)

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the groups of the VOs."""
        return Q(vo__in=vos)

    def formfield_for_dbfield(self, db_field: Column, request: HttpRequest, **kwargs: object) -> forms.Field | None:
        """Return the form field of a column; managers are not offered properties that lift a limit."""
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if isinstance(field, ChoiceListField) and db_field.name == "properties" and not self.sees_all(request):
            field.choices = [(each, each) for each in GroupProperty if each not in _GIVEN_BY_OPERATORS]
        return field

    def save_model(self, request: HttpRequest, obj: Group, form: "forms.ModelForm[Group]", change: bool) -> None:  # noqa: FBT001 - Django's own
        """Save the group with what the form did not offer, and mark its priorities for recalculation."""
        if not self.sees_all(request):
            before = form.initial.get("properties") or ()
            obj.properties = sorted({*obj.properties, *(_GIVEN_BY_OPERATORS & set(before))})
        super().save_model(request, obj, form, change)
        mark_changed(group_id=obj.pk, now=current_time())
        send_after_commit(recalculate_changed_groups)
