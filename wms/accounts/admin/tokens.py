"""The admin page of users' tokens: to list and to revoke them."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from wms.accounts.admin.rights import VOLevelLedger
from wms.accounts.models import ApiToken
from wms.accounts.services import revoke_token


@admin.register(ApiToken)
class ApiTokenAdmin(VOLevelLedger[ApiToken]):
    """For operators, who see the list, never the tokens themselves, and revoke leaked ones."""

    operators_may = frozenset({"view", "delete"})  # deleted with their user
    managers_may = frozenset()
    list_display = ("id", "user", "name", "scope", "created_at", "expires_at", "last_used_at", "revoked_at")
    list_select_related = ("user",)
    list_filter = ("scope", "expires_at", "revoked_at")
    search_fields = ("user__username",)
    ordering = ("-id",)
    fields = ("user", "name", "scope", "created_at", "expires_at", "last_used_at", "revoked_at")
    actions = ("revoke",)

    @admin.action(description="Revoke selected tokens", permissions=["view"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        """Revoke the tokens."""
        now = timezone.now()
        tokens = list(queryset.filter(revoked_at__isnull=True).order_by("pk"))
        for token in tokens:
            revoke_token(token_id=token.pk, now=now)
            self.log_change(request, token, "Revoked.")
        self.message_user(request, f"{len(tokens)} tokens revoked.", messages.SUCCESS)
