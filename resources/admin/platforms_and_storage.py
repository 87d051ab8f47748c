"""Admin pages of storage elements, replicas and the tokens of sites."""

from types import MappingProxyType

from django import forms
from django.contrib import admin
from django.core.validators import RegexValidator
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest

from resources.domain.files import BEARER, BEARER_HINT, STORAGE_URL, STORAGE_URL_HINT, canonical_lfn
from resources.models import Replica, SiteToken, StorageElement
from resources.queries.rights import sites_serving_only
from resources.services.ce_rules import refusal_of_url_over_http
from resources.services.site_tokens import revoke_site_token
from wms.accounts.admin.rights import VOLevelAdmin, VOLevelLedger
from wms.accounts.domain import SecurityEventKind
from wms.kernel.admin.actions import say
from wms.kernel.admin.forms import GenericModelForm
from wms.kernel.admin.rights import SeenRelatedFilter
from wms.kernel.clock import current_time
from wms.kernel.secrets import encrypt


class StorageElementForm(GenericModelForm[StorageElement]):
    """Form of a storage element; its credential is write-only."""

    credential = forms.CharField(
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        strip=False,
        validators=[RegexValidator(BEARER, f"This cannot be sent; {BEARER_HINT}.")],
        help_text="Credential, stored encrypted and never shown; empty: unchanged.",
    )

    def clean_url(self) -> str:
        """Refuse URLs that pilots could not use, or that contain a password."""
        url: str = self.cleaned_data["url"]
        if not STORAGE_URL.match(url):
            raise forms.ValidationError(f"This is not an address of a storage element; {STORAGE_URL_HINT}.")
        if refused := refusal_of_url_over_http(self.instance.url, url):
            raise forms.ValidationError(refused)
        return url


@admin.register(StorageElement)
class StorageElementAdmin(VOLevelAdmin[StorageElement]):
    """Storage elements; operators edit them, managers see those that serve their VO."""

    managers_may = frozenset({"view"})
    fixed_after_creation = ("name",)
    form = StorageElementForm
    kind = SecurityEventKind.STORAGE_ELEMENT_CHANGED
    search_fields = ("name",)
    ordering = ("name",)
    autocomplete_fields = ("vos",)

    def seen(self, vos: frozenset[int]) -> Q:
        """Return those that serve one of the VOs."""
        served = StorageElement.vos.through.objects.filter(storageelement_id=OuterRef("pk"), vo__in=vos)
        return Q(Exists(served))

    def get_queryset(self, request: HttpRequest) -> QuerySet[StorageElement]:
        """Return the storage elements with their VOs."""
        return super().get_queryset(request).prefetch_related("vos")

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        """Return the columns; managers do not see which other VOs an element serves."""
        return ("name", "url", "vo_names", "credential_for_pilots") if self.sees_all(request) else ("name", "url")

    def get_fields(self, request: HttpRequest, obj: StorageElement | None = None) -> tuple[str, ...]:  # noqa: ARG002
        """Return the fields; only operators see VOs and credential."""
        for_operators = ("vos", "credential", "credential_for_pilots")
        return ("name", "url", *(for_operators if self.sees_all(request) else ()))

    @admin.display(description="VOs")
    def vo_names(self, element: StorageElement) -> str:
        """Return the VOs that it serves."""
        return ", ".join(sorted(vo.name for vo in element.vos.all())) or "nobody"

    def has_delete_permission(self, request: HttpRequest, obj: StorageElement | None = None) -> bool:
        """Refuse to delete one with replicas, because the record of these files would be lost."""
        allowed = super().has_delete_permission(request, obj)
        return allowed and (obj is None or not Replica.objects.filter(storage_element=obj).exists())

    def save_model(self, request: HttpRequest, obj: StorageElement, form: StorageElementForm, change: bool) -> None:  # noqa: FBT001 - Django's own
        """Save it, with a new credential encrypted."""
        if plain := form.cleaned_data.get("credential"):
            obj.credential_encrypted = encrypt(plain)
        super().save_model(request, obj, form, change)


@admin.register(Replica)
class ReplicaAdmin(VOLevelLedger[Replica]):
    """Replicas by name; they are registered and removed over REST and by `load_replicas`."""

    list_display = ("lfn", "vo", "storage_element", "size_bytes", "checksum")
    list_select_related = ("vo", "storage_element")
    list_filter = (("vo", SeenRelatedFilter), ("storage_element", SeenRelatedFilter))
    # By a prefix of the exact name, which the index on VO and name serves.
    search_fields = ("lfn__startswith",)
    search_help_text = "Beginning of the logical file name; letter case counts."
    ordering = ("-id",)

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002 - Django's signature
        queryset: QuerySet[Replica],
        search_term: str,
    ) -> tuple[QuerySet[Replica], bool]:
        """Search for a prefix of a name, including blanks; Django would search for words."""
        return (queryset.filter(lfn__startswith=canonical_lfn(search_term)) if search_term else queryset), False

    def seen(self, vos: frozenset[int]) -> Q:
        """Return the files of these VOs."""
        return Q(vo__in=vos)


@admin.register(SiteToken)
class SiteTokenAdmin(VOLevelLedger[SiteToken]):
    """Tokens of sites, without their text; new ones are issued on the page of sites."""

    operators_may = frozenset({"view", "delete"})  # to be deleted with their site
    list_display = ("id", "site", "purpose", "configured", "created_at", "expires_at", "registrations", "revoked_at")
    list_select_related = ("site",)
    list_filter = ("purpose", ("site", SeenRelatedFilter))
    search_fields = ("site__name",)
    search_help_text = "Part of the name of a site."
    ordering = ("-id",)
    fields = (
        "site", "purpose", "configured", "setup", "created_at", "expires_at", "registrations", "registered_at",
        "revoked_at",
    )  # fmt: skip
    actions = ("revoke",)
    row_actions = MappingProxyType({"revoke": "Revoke"})

    def managed(self, vos: frozenset[int]) -> Q:
        """Return those of sites that serve only these VOs."""
        return Q(site__in=sites_serving_only(vos))

    @admin.action(description="Revoke selected tokens", permissions=["view"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[SiteToken]) -> None:
        """Revoke the tokens."""
        now, chosen = current_time(), queryset.count()  # before: the list may be filtered by what changes
        tokens = list(self.changeable(request, queryset).filter(revoked_at__isnull=True).order_by("pk"))
        for token in tokens:
            revoke_site_token(token_id=token.pk, now=now)
            self.log_change(request, token, "Revoked.")
        say(self, request, done=len(tokens), of=chosen, thing="token", verb="revoked")

    def offers(self, action: str, row: SiteToken) -> bool:  # noqa: ARG002 - there is one action
        """Return whether the token can still be revoked."""
        return row.revoked_at is None
