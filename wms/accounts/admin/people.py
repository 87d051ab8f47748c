"""Admin pages of users and their tokens."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from allauth.account.models import EmailAddress, EmailConfirmation
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django import forms
from django.contrib import admin, messages
from django.contrib.admin.filters import EmptyFieldListFilter
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.forms import UserChangeForm as DjangoUserChangeForm
from django.contrib.auth.models import Group as DjangoGroup
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Model, Prefetch, Q, QuerySet
from django.forms import BaseInlineFormSet, ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from wms.accounts.admin.rights import VOLevelAdmin, VOLevelInline, VOLevelLedger
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import VO, ApiToken, Group, Membership, User, UserDN
from wms.accounts.queries import HistoryEntry, history_of_person, is_above, is_in, is_member, is_only_in
from wms.accounts.services import SuspendedError, issue_password_link, revoke_token
from wms.accounts.services.members import record_member
from wms.accounts.services.second_factors import has_second_factor, reset_second_factors
from wms.kernel.admin.actions import say
from wms.kernel.admin.forms import GenericModelForm
from wms.kernel.admin.rights import EVERYTHING, Recorded, What
from wms.kernel.clock import current_time
from wms.kernel.compression import without_compression
from wms.kernel.names import counted

if TYPE_CHECKING:
    from django.contrib.admin.options import InlineModelAdmin, _DisplayT, _FieldOpts, _FieldsetSpec, _ListFilterT
    from django.utils.datastructures import _ListOrTuple

    StockUserAdmin = DjangoUserAdmin[User]
    UserChangeForm = DjangoUserChangeForm[User]
else:
    StockUserAdmin = DjangoUserAdmin
    UserChangeForm = DjangoUserChangeForm

M = TypeVar("M", bound=Model)

#: Newest changes on the page of a person's history.
_MOST_CHANGES = 1000

# Groups of Django's permissions, which are not used here, would be confused with ours.
admin.site.unregister(DjangoGroup)
# Of allauth's tables: second factors are reset on the page of users, and users disconnect accounts.
for table in (Authenticator, EmailAddress, EmailConfirmation, SocialAccount, SocialApp, SocialToken):
    if admin.site.is_registered(table):
        admin.site.unregister(table)
admin.site.index_title = "Administration"  # not "Site administration": a site is a laboratory's here


class DNInline(VOLevelInline[UserDN]):
    """The distinguished names of a user's certificates; for operators, as a certificate gives access to the account."""

    model = UserDN
    # In capitals "DNs" would be read as the DNS.
    verbose_name_plural = "distinguished names"


class MembershipInline(VOLevelInline[Membership]):
    """The groups in which a user may act; a manager sees and changes none of other VOs.

    A manager adds a user only to further groups of a VO that the user is already in; others are invited to the VO.
    """

    model = Membership
    operators_may = EVERYTHING - {"change"}
    managers_may = EVERYTHING - {"change"}
    choose_managed = frozenset({"group"})
    readonly_fields = ("confirmed_at",)
    autocomplete_fields = ("group",)
    verbose_name_plural = "groups"

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the memberships of the VOs' groups."""
        return Q(group__vo__in=vos)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Membership]:
        """Return the rows with their groups and users."""
        return super().get_queryset(request).select_related("group", "user")

    def get_formset(
        self,
        request: HttpRequest,
        obj: Model | None = None,
        **kwargs: object,
    ) -> "type[BaseInlineFormSet[Membership, Model, ModelForm[Membership]]]":
        """Return the table, in which a manager chooses among users and groups already in the VO."""
        formset = super().get_formset(request, obj, **kwargs)
        if not self.sees_all(request):
            self.narrow(formset.form.base_fields, obj)
        return formset

    def narrow(self, fields: "dict[str, forms.Field]", page: Model | None) -> None:
        """Keep the groups of the VOs that the user of the page is in."""
        groups = fields["group"]
        if isinstance(groups, forms.ModelChoiceField) and groups.queryset is not None:
            vos = Membership.objects.filter(user=page.pk if page else None).values("group__vo")
            groups.queryset = groups.queryset.filter(vo__in=vos)


class _MembersFilter(admin.SimpleListFilter):
    """A filter by membership in one of the rows that the reader manages; operators choose among all."""

    #: Of ``memberships``, the column that is compared.
    column: str

    def lookups(self, request: HttpRequest, model_admin: "admin.ModelAdmin[User]") -> list[tuple[str, str]]:
        """Return the rows, by name."""
        groups = Group.objects.order_by("vo__name", "name")
        if isinstance(model_admin, VOLevelAdmin) and not model_admin.sees_all(request):
            groups = groups.filter(vo__in=model_admin.managed_vos(request))
        return list(dict.fromkeys((str(row.pk), row.name) for row in self.rows(groups)))

    def rows(self, groups: QuerySet[Group]) -> Iterable[Group | VO]:
        """Return the rows that these groups stand for."""
        raise NotImplementedError

    def queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> QuerySet[User]:  # noqa: ARG002 - Django's own
        """Return the members of the chosen row; a row that is not among the choices narrows nothing."""
        value = self.value()
        if value not in {key for key, _ in self.lookup_choices}:
            return queryset
        return queryset.filter(pk__in=Membership.objects.filter(**{self.column: value}).values("user"))


class OfVOFilter(_MembersFilter):
    """The members of a VO."""

    title, parameter_name, column = "VO", "vo", "group__vo"

    def rows(self, groups: QuerySet[Group]) -> Iterable[VO]:
        """Return the VOs of the groups."""
        return (group.vo for group in groups.select_related("vo"))


class OfGroupFilter(_MembersFilter):
    """The members of a group."""

    title, parameter_name, column = "group", "group", "group"

    def rows(self, groups: QuerySet[Group]) -> Iterable[Group]:
        """Return the groups."""
        return groups


class UserForm(UserChangeForm):
    """A user; the default group is one of the user's groups."""

    def clean_default_group(self) -> Group | None:
        """Refuse a group that the user is not in; an unchanged one that the user has left is kept."""
        group: Group | None = self.cleaned_data["default_group"]
        if group is None or "default_group" not in self.changed_data or is_member(self.instance, group):
            return group
        raise ValidationError(f"{self.instance} is not a member of {group}; save the membership first.")


class NewUserForm(GenericModelForm[User]):
    """The new user sets a password by a one-time link, which the next page shows."""

    class Meta:
        model = User
        fields = ("username",)

    def save(self, commit: bool = True) -> User:  # noqa: FBT001, FBT002 - Django's own
        """Make the account, without a usable password."""
        self.instance.set_unusable_password()
        user: User = super().save(commit=commit)
        return user


class UserAdmin(VOLevelAdmin[User], StockUserAdmin):
    """Operators manage all users; a manager sees the members of their VOs, and changes those in no other VO.

    Suspensions concern jobs: the page is registered with them (``wms.jobs.admin``).

    Only operators grant privileges (staff, operator, superuser, passwords, certificates); only superusers change
    superusers. Only operators add accounts, as adding one shows which names exist.
    """

    constraint_words = MappingProxyType(
        {"user_mail_when_is_known": ("mail_when", "Choose when the user gets mail: never, ended or failed.")}
    )
    managers_may = frozenset({"view", "change"})
    form = UserForm
    kinds_of_rows = MappingProxyType(
        {"added": SecurityEventKind.USER_ADDED, "deleted": SecurityEventKind.USER_REMOVED},
    )
    kinds_of_fields = MappingProxyType(
        dict.fromkeys(("operator", "is_staff", "is_superuser", "memberships", "DNs"), SecurityEventKind.RIGHTS_CHANGED),
    )
    fixed_after_creation = ("username",)
    list_display = (
        "username",
        "email",
        "person_name",
        "group_names",
        "last_login",
        "operator",
        "is_staff",
        "is_active",
    )
    of_managers = ("username", "email", "first_name", "last_name", "is_active")
    list_filter = (
        *(OfVOFilter, OfGroupFilter),
        *("is_active", "is_staff", "operator", "is_superuser", ("waits_since", EmptyFieldListFilter)),
    )
    search_fields = ("^username", "^first_name", "^last_name", "^email")
    search_help_text = "Beginning of the user name, of a name or of the mail address."
    ordering = ("username",)
    autocomplete_fields = ("default_group",)
    # A suspension ends payloads: it has actions of its own, which say how many and keep a reason (ADR 111).
    readonly_fields = ("is_active", "last_login", "date_joined", "password_state", "waits_since")
    filter_horizontal = ()
    actions: tuple[str, ...] = ("reset_second_factor",)
    row_actions = MappingProxyType({"reset_second_factor": "Reset the second factor"})
    of_people = (
        "username",
        "first_name",
        "last_name",
        "email",
        "is_active",
        "default_group",
        "last_login",
        "date_joined",
    )
    of_operators = ("password_state", "waits_since", "operator", "is_staff", "is_superuser")
    add_form = NewUserForm
    add_fieldsets = ((None, {"fields": ("username",), "description": NewUserForm.__doc__}),)

    def seen(self, vos: frozenset[int]) -> Q:
        """Return the members of the VOs' groups."""
        return is_in(vos)

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the members in no other VO and without privileges."""
        return is_only_in(vos)

    def may(self, what: What, request: HttpRequest, row: Model | None = None) -> bool:
        """Return whether the user may do it; only superusers change superusers."""
        user = request.user
        if isinstance(row, User) and isinstance(user, User) and what in {"change", "delete"} and is_above(row, user):
            return False
        return super().may(what, request, row)

    def changeable(self, request: HttpRequest, rows: QuerySet[M]) -> QuerySet[M]:
        """Return the users that the user may change."""
        rows = super().changeable(request, rows)
        return rows if _is_superuser(request) else rows.filter(is_superuser=False)

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> "_FieldsetSpec":
        """Return the fields: the name for a new user, and the privileges for operators."""
        if obj is None:
            return super().get_fieldsets(request, obj)
        if self.sees_all(request):
            everybody: tuple[None, _FieldOpts] = (None, {"fields": self.of_people})
            return (everybody, ("Operators only", {"fields": self.of_operators}))
        # The default group of a member who is in other VOs too may be one of theirs.
        default_group = ("default_group",) if self.has_change_permission(request, obj) else ()
        return ((None, {"fields": (*self.of_managers, *default_group)}),)

    def get_list_display(self, request: HttpRequest) -> "_ListOrTuple[_DisplayT[User]]":
        """Return the columns, which are also the only ones to order by."""
        if self.sees_all(request):
            return super().get_list_display(request)
        return ("username", "email", "person_name", "group_names", "is_active")

    def get_list_filter(self, request: HttpRequest) -> "_ListOrTuple[_ListFilterT]":
        """Return the filters."""
        return super().get_list_filter(request) if self.sees_all(request) else (OfGroupFilter, "is_active")

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        """Return the users with those of their groups that the reader sees."""
        memberships = Membership.objects.select_related("group").order_by("group__name")
        if not self.sees_all(request):
            memberships = memberships.filter(group__vo__in=self.managed_vos(request))
        return super().get_queryset(request).prefetch_related(Prefetch("memberships", memberships, to_attr="seen_in"))

    @admin.display(description="name", ordering="last_name")
    def person_name(self, user: User) -> str:
        """Return first and last name."""
        return user.get_full_name()

    @admin.display(description="groups")
    def group_names(self, user: User) -> str:
        """Return the names of the groups."""
        return ", ".join(membership.group.name for membership in vars(user)["seen_in"])

    def offers(self, action: str, row: User) -> bool:
        """Return whether the action could change the user."""
        if action == "reset_second_factor":
            return has_second_factor(row)
        return super().offers(action, row)

    def get_search_fields(self, request: HttpRequest) -> "_ListOrTuple[str]":
        """Return the searched fields: for managers those that they see."""
        names = super().get_search_fields(request)
        return names if self.sees_all(request) else [name for name in names if name[1:] in self.of_managers]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[User], search_term: str
    ) -> tuple[QuerySet[User], bool]:
        """Return the users that are found; operators find them by a complete DN, too, which begins with a slash."""
        if search_term.startswith("/") and self.sees_all(request):
            return queryset.filter(dns__dn=search_term.strip()), False
        return super().get_search_results(request, queryset, search_term)

    def history_view(
        self,
        request: HttpRequest,
        object_id: str,
        extra_context: dict[str, object] | None = None,
    ) -> HttpResponse:
        """Show the history; to managers without what Django noted, which names certificates and groups of all VOs."""
        without = {} if self.sees_all(request) else {"earlier": ()}
        return super().history_view(request, object_id, {**(extra_context or {}), **without})

    def history_of(self, request: HttpRequest, row: Model) -> Sequence[HistoryEntry]:
        """Return the changes of a person, for a manager those that concern the managed VOs."""
        if not (isinstance(row, User) and isinstance(request.user, User)):
            return []
        return history_of_person(row, user=request.user, most=_MOST_CHANGES)

    def record(self, request: HttpRequest, row: Model, what: Recorded, changes: Mapping[str, object]) -> None:
        """Write the action to the security log, and memberships to the history of their groups."""
        super().record(request, row, what, changes)
        memberships = changes.get("memberships")
        for membership in memberships if isinstance(memberships, list) else ():
            user, _, group = str(membership).rpartition(" in ")
            record_member(Group.objects.get(name=group), user)

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> list[str]:
        """Return the read-only fields."""
        names = super().get_readonly_fields(request, obj)
        return names if _is_superuser(request) else [*names, "is_superuser"]

    def get_inlines(self, request: HttpRequest, obj: User | None) -> "list[type[InlineModelAdmin[Any, Any]]]":
        """Return the tables; for a new user only the groups."""
        return [MembershipInline, DNInline] if obj is not None and self.sees_all(request) else [MembershipInline]

    @admin.action(description="Reset the second factors of selected users", permissions=["reset_second_factor"])
    def reset_second_factor(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Remove the users' second factors: they log in by password alone until they set up new ones."""
        # Not one's own: that is asked for on the page of second factors, with a code; here a stolen session would do.
        users = list(self.changeable(request, queryset).exclude(pk=request.user.pk or 0).order_by("pk"))
        reset = reset_second_factors(users)
        if reset:
            self.message_user(request, f"{counted(reset, 'second factor')} reset.", messages.SUCCESS)
        else:
            sentence = "Nothing was changed: no chosen user, other than yourself, has a second factor."
            self.message_user(request, sentence, messages.WARNING)

    def has_reset_second_factor_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may reset second factors of others; only operators may."""
        return self.sees_all(request)

    @admin.display(description="password")
    def password_state(self, user: User) -> SafeString:
        """Return whether the user has a password, with a link to issue a new one."""
        state = "Set." if user.has_usable_password() else "Not set: no log-in by password."
        address = reverse("admin:auth_user_password_change", args=[user.pk])
        return format_html('{} <a href="{}">Issue a one-time link</a>', state, address)

    def response_add(self, request: HttpRequest, obj: User, _post_url_continue: str | None = None) -> HttpResponse:
        """Show the link by which the new user sets a password."""
        return self._show_new_link(request, obj)

    def user_change_password(self, request: HttpRequest, id: str, _form_url: str = "") -> HttpResponse:  # noqa: A002 - Django's
        """Issue a one-time link; only operators may, as its holder can act as that user."""
        user = self.get_object(request, unquote(id))
        if not self.sees_all(request) or user is None or not self.has_change_permission(request, user):
            raise PermissionDenied
        if request.method == "POST":
            return self._show_new_link(request, user)
        context = {**self.admin_site.each_context(request), "title": f"One-time link for {user}", "opts": self.opts}
        return TemplateResponse(request, "admin/password_link.html", context)

    def _show_new_link(self, request: HttpRequest, user: User) -> HttpResponse:
        try:
            link = issue_password_link(user, now=current_time())
        except SuspendedError as error:
            self.message_user(request, error.detail, messages.ERROR)
            return HttpResponseRedirect(reverse("admin:accounts_user_change", args=[user.pk]))
        self.log_change(request, user, "One-time link for a password issued.")
        address = request.build_absolute_uri(reverse("portal:password-link", args=[link.secret]))
        context = {
            **self.admin_site.each_context(request),
            "title": f"One-time link for {user}",
            "opts": self.opts,
            "link": address,
            "expires_at": link.expires_at,
        }
        return without_compression(TemplateResponse(request, "admin/password_link.html", context))


@admin.register(ApiToken)
class ApiTokenAdmin(VOLevelLedger[ApiToken]):
    """For operators, who see the list, never the tokens themselves, and revoke leaked ones."""

    operators_may = frozenset({"view", "delete"})  # deleted with their user
    managers_may = frozenset()
    list_display = ("id", "user", "name", "scope", "created_at", "expires_at", "last_used_at", "revoked_at")
    list_select_related = ("user",)
    list_filter = ("scope", "expires_at", "revoked_at")
    search_fields = ("^user__username",)
    ordering = ("-id",)
    fields = ("user", "name", "scope", "created_at", "expires_at", "last_used_at", "revoked_at")
    actions = ("revoke",)
    row_actions = MappingProxyType({"revoke": "Revoke"})

    @admin.action(description="Revoke selected tokens", permissions=["view"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        """Revoke the tokens."""
        now, chosen = current_time(), queryset.count()  # before: the list may be filtered by what changes
        tokens = list(queryset.filter(revoked_at__isnull=True).order_by("pk"))
        for token in tokens:
            revoke_token(token_id=token.pk, now=now)
            self.log_change(request, token, "Revoked.")
        say(self, request, done=len(tokens), of=chosen, thing="token", verb="revoked")

    def offers(self, action: str, row: ApiToken) -> bool:  # noqa: ARG002 - there is one action
        """Return whether the token can still be revoked."""
        return row.revoked_at is None


def _is_superuser(request: HttpRequest) -> bool:
    return isinstance(request.user, User) and request.user.is_superuser
