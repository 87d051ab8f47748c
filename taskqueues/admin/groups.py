"""The admin page of groups: their priority is their share, so each change marks the group for recalculation."""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.admin.widgets import AdminTextInputWidget
from django.db.models import Count, ForeignKey, Model, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html

from taskqueues.admin.shares import NOT_A_PRIORITY, shares_beside
from taskqueues.services.consequences import of_priority
from taskqueues.services.priorities import mark_changed, share_in_words
from taskqueues.tasks import recalculate_changed_groups
from wms.accounts import services
from wms.accounts.admin.people import MembershipInline
from wms.accounts.admin.rights import UserByNameField, VOLevelAdmin, VOLevelInline
from wms.accounts.domain import GroupProperty, SecurityEventKind
from wms.accounts.models import Group, Invitation, Membership, User
from wms.accounts.queries import to_add
from wms.kernel.admin.confirmation import ConfirmedForm
from wms.kernel.admin.forms import ChoiceListField, Column, GenericModelForm
from wms.kernel.admin.rights import EVERYTHING, SeenRelatedFilter
from wms.kernel.after_commit import send_after_commit
from wms.kernel.clock import current_time
from wms.kernel.consequences import Consequence
from wms.kernel.names import change_in_words, in_full, in_percent

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
            users.queryset = to_add(page, by_operator=False)


class InvitationForm(GenericModelForm[Invitation]):
    """An invitation by name; only whether it is a member's is looked up."""

    def clean_username(self) -> str:
        """Refuse the name of a member, and more invitations than allowed."""
        username: str = User.normalize_username(self.cleaned_data["username"])
        group = self.instance.group
        if Membership.objects.filter(group=group, user__username=username).exists():
            raise forms.ValidationError("This user is already a member of the group.")
        try:
            services.require_room(group, now=current_time())
        except services.TooManyInvitationsError as error:
            raise forms.ValidationError(error.detail) from error
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


class GroupForm(ConfirmedForm[Group]):
    """The columns of a group, and why its priority changes."""

    reason = forms.CharField(
        label="Reason",
        max_length=200,
        required=False,
        widget=AdminTextInputWidget,
        help_text="Why the priority changes; the history keeps it.",
    )

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - Django's own
        super().__init__(*arguments, **named)
        #: What the change of the priority does, after it was saved.
        self.effects: dict[str, object] = {}

    def clean(self) -> None:
        """Require a reason for another priority."""
        super().clean()
        changed = {*self.changed_data} & self.cleaned_data.keys()
        if self.instance.pk and "priority" in changed and not self.cleaned_data.get("reason"):
            self.add_error("reason", "Say why the priority changes: the history keeps it.")

    def consequences(self) -> Iterable[Consequence]:
        """Return what another priority stops."""
        return of_priority(self.instance) if self.instance.pk and "priority" in self.changed_data else ()


@admin.register(Group)
class GroupAdmin(VOLevelAdmin[Group]):
    """Groups: a manager sets the shares of the VO's groups, invites users into them, and ends memberships."""

    constraint_words = MappingProxyType({"group_priority_is_finite_and_not_negative": ("priority", NOT_A_PRIORITY)})
    kinds_of_fields = MappingProxyType(
        dict.fromkeys(("properties", "memberships"), SecurityEventKind.RIGHTS_CHANGED),
    )
    logged_values = frozenset({"priority"})
    managers_may = EVERYTHING
    choose_managed = frozenset({"vo"})
    fixed_after_creation = ("name", "vo")
    list_display = ("name", "vo", "share", "part", "members", "properties")
    list_select_related = ("vo",)
    list_filter = (("vo", SeenRelatedFilter),)
    search_fields = ("name",)
    autocomplete_fields = ("vo",)
    ordering = ("name",)
    form = GroupForm
    fields = ("name", "vo", "priority", "reason", "properties")
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

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        """Return the groups, each with the sum of the priorities of its VO."""
        of_vo = Group.objects.filter(vo=OuterRef("vo")).order_by().values("vo").annotate(sum=Sum("priority"))
        members = Membership.objects.filter(group=OuterRef("pk")).order_by().values("group").annotate(count=Count("pk"))
        return (
            super()
            .get_queryset(request)
            .annotate(
                all_priorities=Subquery(of_vo.values("sum")),
                member_count=Coalesce(Subquery(members.values("count")), Value(0)),
            )
        )

    @admin.display(description="members", ordering="member_count")
    def members(self, group: Group) -> int:
        """Return the number of its members."""
        return int(vars(group)["member_count"])

    @admin.display(description="priority", ordering="priority")
    def share(self, group: Group) -> str:
        """Return the priority as it was configured."""
        return in_full(group.priority)

    @admin.display(description="of its VO")
    def part(self, group: Group) -> str:
        """Return the configured part of the VO."""
        return in_percent(group.priority / (vars(group)["all_priorities"] or 1.0))

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the groups of the VOs."""
        return Q(vo__in=vos)

    def formfield_for_dbfield(self, db_field: Column, request: HttpRequest, **kwargs: object) -> forms.Field | None:
        """Return the form field of a column; managers are not offered properties that lift a limit."""
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if isinstance(field, ChoiceListField) and db_field.name == "properties" and not self.sees_all(request):
            field.choices = [(each, each) for each in GroupProperty if each not in _GIVEN_BY_OPERATORS]
        return field

    def get_fields(self, request: HttpRequest, obj: Group | None = None) -> tuple[str, ...]:
        """Return the fields; a reason is given for a change."""
        may_change = obj is not None and self.has_change_permission(request, obj)
        return tuple(name for name in self.fields if name != "reason" or may_change)

    def get_urls(self) -> list[URLPattern]:
        """Return the addresses, with that of the shares beside the priority."""
        shares = self.admin_site.admin_view(self.shares_view)
        return [path("<path:object_id>/shares/", shares, name="accounts_group_shares"), *super().get_urls()]

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,  # noqa: FBT001, FBT002 - Django's own
        change: bool = False,  # noqa: FBT001, FBT002 - Django's own
        form_url: str = "",
        obj: Group | None = None,
    ) -> HttpResponse:
        """Show the form, with the shares of all groups of the VO."""
        if obj is not None:
            context["shares"] = shares_beside(obj, typed=request.POST.get("priority", ""))
        return super().render_change_form(request, context, add, change, form_url, obj)

    def shares_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show what each group of the VO would get if this one had the priority of the query string.

        Raises:
            Http404: there is no such group that the user sees.
        """
        group = self.get_object(request, unquote(object_id))
        if group is None or not self.has_view_permission(request, group):
            raise Http404
        shares = shares_beside(group, typed=request.GET.get("priority", ""))
        return render(request, "admin/accounts/group/shares.html", {"shares": shares})

    def save_model(self, request: HttpRequest, obj: Group, form: "forms.ModelForm[Group]", change: bool) -> None:  # noqa: FBT001 - Django's own
        """Save the group with what the form did not offer, and mark its priorities for recalculation."""
        if not self.sees_all(request):
            before = form.initial.get("properties") or ()
            obj.properties = sorted({*obj.properties, *(_GIVEN_BY_OPERATORS & set(before))})
        super().save_model(request, obj, form, change)
        if isinstance(form, GroupForm) and change and "priority" in form.changed_data:
            before = form.initial["priority"]
            share = form.effects["share"] = share_in_words(obj, before=before)
            link = format_html('<a href="{}">Shares</a>', reverse("portal:shares"))
            sentence = "Priority of {}: {}, its share {}; takes effect within a second. {}"
            self.message_user(request, format_html(sentence, obj, change_in_words(before, obj.priority), share, link))
        mark_changed(group_id=obj.pk, now=current_time())
        send_after_commit(recalculate_changed_groups)
