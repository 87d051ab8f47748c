"""Admin page of the administrators of sites."""

from collections.abc import Mapping

from django import forms
from django.contrib import admin
from django.db.models import ForeignKey, Model, Q
from django.http import HttpRequest

from resources.models import SiteAdministrator
from resources.queries.rights import sites_serving_only
from resources.services.administrators import record_administrator
from wms.accounts.admin.rights import UserByNameField, VOLevelAdmin
from wms.accounts.models import User
from wms.kernel.admin.rights import Recorded, SeenRelatedFilter


@admin.register(SiteAdministrator)
class SiteAdministratorAdmin(VOLevelAdmin[SiteAdministrator]):
    """Administrators of sites, whom operators make (ADR 109); managers see those of sites that serve only their VOs."""

    operators_may = frozenset({"view", "add", "delete"})
    managers_may = frozenset({"view"})
    list_display = ("user", "site", "made_by", "made_at")
    list_select_related = ("user", "site", "made_by")
    list_filter = (("site", SeenRelatedFilter),)
    search_fields = ("user__username", "site__name")
    ordering = ("site__name", "user__username")
    fields = ("site", "user", "made_by", "made_at")
    readonly_fields = ("made_by", "made_at")

    def managed(self, vos: frozenset[int]) -> Q:
        """Return those of sites that serve no other VO."""
        return Q(site__in=sites_serving_only(vos))

    def formfield_for_foreignkey(
        self, db_field: "ForeignKey[Model, Model]", request: HttpRequest, **kwargs: object
    ) -> "forms.ModelChoiceField[Model] | None":
        """Return the form field of the user, who is typed, not chosen among all users of the system."""
        if db_field.name == "user":
            sentence = "There is no user of exactly this name; letter case counts."
            return UserByNameField(User.objects.all(), invalid=sentence)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def save_model(
        self,
        request: HttpRequest,
        obj: SiteAdministrator,
        form: "forms.ModelForm[SiteAdministrator]",
        change: bool,  # noqa: FBT001 - Django's own
    ) -> None:
        """Save the role, with who gave it."""
        obj.made_by = request.user if isinstance(request.user, User) else None
        super().save_model(request, obj, form, change)

    def record(
        self,
        request: HttpRequest,
        row: Model,
        what: Recorded,
        changes: Mapping[str, object],  # noqa: ARG002 - the whole row is the change
    ) -> None:
        """Write the role to the history of its site."""
        by = request.user if isinstance(request.user, User) else None
        if isinstance(row, SiteAdministrator):
            record_administrator(row.site, f"{'-' if what == 'deleted' else '+'}{row.user}", by=by)
