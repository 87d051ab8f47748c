"""Input and output of the accounts endpoints."""

from collections.abc import Mapping

from rest_framework import serializers

from wms.accounts.domain import TokenScope
from wms.accounts.models import ApiToken, Group
from wms.accounts.oidc.configuration import OIDCProvider
from wms.accounts.queries import Profile
from wms.accounts.services import IssuedToken
from wms.accounts.services.device_log_ins import BegunLogIn, UnfinishedLogIn
from wms.kernel.rest import Name, StrictSerializer, Text, WholeNumber


class _TokenChoices(StrictSerializer):
    """Scope, name and lifetime of a new token."""

    scope = serializers.ChoiceField(
        choices=list(TokenScope),
        default=TokenScope.MANAGE,
        help_text="Scope of the token. read: everything that the user may see; submit: also submit jobs and "
        "act on the user's own jobs; manage: everything that the user may do, but for the configuration; administer: "
        "that too.",
    )
    name = Text(max_length=100, required=False, help_text="Name of the token, such as that of a computer.")
    days = WholeNumber(
        min_value=1,
        required=False,
        help_text="Lifetime in days; at most WMS_USER_TOKEN_S, which is also the default.",
    )


class TokenIn(_TokenChoices):
    """Body of POST /api/v1/auth/token/."""

    username = Name(max_length=150, help_text="User name, as configured.")
    password = Text(max_length=1024, help_text="Password of the user.", style={"input_type": "password"})
    code = Text(max_length=40, required=False, help_text="Code of the second factor, if any, or a recovery code.")


class DeviceTokenIn(_TokenChoices):
    """Body of POST /api/v1/auth/oidc/{provider}/token/."""

    handle = Text(max_length=4096, help_text="Handle of the log-in, from the last answer.")
    code = Text(max_length=40, required=False, help_text="Code of the second factor, when it is needed.")


class ProviderOut(serializers.Serializer[OIDCProvider]):
    """One provider of OpenID Connect."""

    id = serializers.CharField(help_text="Id of the provider, in addresses.")
    name = serializers.CharField(help_text="Its name for people.")


class ProvidersOut(serializers.Serializer[Mapping[str, list[OIDCProvider]]]):
    """The providers by which people log in."""

    providers = ProviderOut(many=True, help_text="The configured providers.")


class DeviceLogInOut(serializers.Serializer[BegunLogIn]):
    """A log-in that its person confirms in a browser."""

    handle = serializers.CharField(help_text="Handle of the log-in, to ask for its token; a secret of the client.")
    user_code = serializers.CharField(source="instructions.user_code", help_text="Code to type on the page.")
    verification_uri = serializers.CharField(source="instructions.url", help_text="Page of the provider to open.")
    verification_uri_complete = serializers.CharField(
        source="instructions.whole_url", help_text="The same page with the code; may be empty."
    )
    interval_s = serializers.IntegerField(
        source="instructions.interval_s", help_text="Seconds to wait before each request for the token."
    )
    expires_at = serializers.DateTimeField(help_text="End of the time to confirm it.")


class UnfinishedLogInOut(serializers.Serializer[UnfinishedLogIn]):
    """A log-in that is not complete yet."""

    handle = serializers.CharField(help_text="Handle for the next request.")
    slow_down = serializers.BooleanField(help_text="Wait 5 seconds longer between requests from now on.")
    code_needed = serializers.BooleanField(help_text="Send the code of the second factor with the next request.")
    expires_at = serializers.DateTimeField(help_text="End of the time to complete it.")


class TokenOut(serializers.Serializer[IssuedToken]):
    """A new token; it is shown this once."""

    token = serializers.CharField(help_text="Token, to be sent as `Authorization: Bearer <token>`.")
    expires_at = serializers.DateTimeField(help_text="End of its validity.")


class ListedTokenOut(serializers.Serializer[ApiToken]):
    """One token of the caller, without the token itself, of which only a digest is stored."""

    id = serializers.IntegerField(help_text="Id of the token, by which it is revoked.")
    name = serializers.CharField(help_text="Name chosen by its owner; may be empty.")
    scope = serializers.ChoiceField(choices=list(TokenScope), help_text="Scope of the token.")
    created_at = serializers.DateTimeField(help_text="Time of issue.")
    expires_at = serializers.DateTimeField(help_text="End of its validity.")
    last_used_at = serializers.DateTimeField(
        allow_null=True, help_text="Last use, with a delay of up to ten minutes; null: never used."
    )


class GroupOut(serializers.Serializer[Group]):
    """One group."""

    name = serializers.CharField(help_text="Name of the group, unique over all VOs.")
    vo = serializers.CharField(source="vo.name", help_text="Its VO.")
    priority = serializers.FloatField(
        help_text="Share of the group, relative to other groups; 0: its jobs are never matched."
    )
    properties = serializers.ListField(
        child=serializers.CharField(),
        help_text="Properties of the group. JOB_SHARING: members see and manage each other's jobs; PRODUCTION: "
        "any number of jobs may wait.",
    )


class ProfileOut(serializers.Serializer[Profile]):
    """The caller's own account."""

    username = serializers.CharField(help_text="User name, to which jobs belong.")
    dns = serializers.ListField(
        child=serializers.CharField(), help_text="Distinguished names of the user's certificates."
    )
    groups = GroupOut(many=True, help_text="Groups in which the user may act.")
    default_group = serializers.CharField(allow_null=True, help_text="Group of requests without a group.")
    managed_vos = serializers.ListField(child=serializers.CharField(), help_text="VOs that the user manages.")
    roles = serializers.ListField(
        child=serializers.ChoiceField(choices=["operator", "manager"]), help_text="Roles beyond those of every user."
    )
