"""The configuration as a file over REST: the part that the caller may change, compared and applied."""

from typing import Any, Final

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.accounts.api.authentication import UserCredential
from wms.accounts.api.permissions import IsManager, user_of
from wms.accounts.domain import TokenScope
from wms.accounts.services.second_factors import is_fresh, last_log_in
from wms.configuration.document import MAX_BYTES
from wms.configuration.uploads import apply, compare, part_of
from wms.kernel.clock import current_time
from wms.kernel.rest import Flag, StrictSerializer, Text, error_responses
from wms.kernel.rest.audience import Audience

#: Sentences that one file confirms.
_MOST_CONFIRMED: Final = 10_000


class ConfigurationFileIn(StrictSerializer):
    """A configuration file."""

    file = Text(max_length=MAX_BYTES, allow_blank=True, help_text="The file: YAML, as docs/configuration.md says.")


class ConfigurationChangeIn(ConfigurationFileIn):
    """A configuration file that was compared, and what is meant by it."""

    version = Text(max_length=64, help_text="`version` of the comparison.")
    delete = Flag(default=False, help_text="Whether all of `deletions` are meant.")
    confirmed = serializers.ListField(
        child=Text(max_length=500),
        max_length=_MOST_CONFIRMED,
        default=list,
        help_text="Those of `consequences` that are meant.",
    )


class ConfigurationFileOut(serializers.Serializer[Any]):
    """The part of the configuration that the caller may change."""

    file = serializers.CharField(help_text="The file, in YAML; sent back unchanged it changes nothing.")


class FieldDifferenceOut(serializers.Serializer[Any]):
    """Another value of one key."""

    name = serializers.CharField(help_text="Key.")
    before = serializers.CharField(help_text="Present value, in YAML; empty: a new row.")
    after = serializers.CharField(help_text="Value by the file, in YAML.")


class DifferenceOut(serializers.Serializer[Any]):
    """What the file changes in one row."""

    sign = serializers.CharField(help_text="`+` added, `~` changed, `-` removed.")
    row = serializers.CharField(help_text='Kind and name, such as "group lhcb_user"; of a limit its content.')
    changes = FieldDifferenceOut(
        source="fields", many=True, help_text="What is different; of a new row what the file gives."
    )


class ConsequenceOut(serializers.Serializer[Any]):
    """One thing that a file stops."""

    sentence = serializers.CharField(help_text="What it stops; `confirmed` has it if it is meant.")
    extent = serializers.CharField(help_text="How much that concerns now.")


class ComparisonOut(serializers.Serializer[Any]):
    """What a file changes."""

    version = serializers.CharField(help_text="Of the file, and of the configuration that it was compared with.")
    differences = DifferenceOut(many=True, help_text="By row; none: the file changes nothing.")
    deletions = serializers.ListField(
        child=serializers.CharField(), help_text="Limits that are deleted, and people who lose a right."
    )
    consequences = ConsequenceOut(many=True, help_text="What stops jobs.")
    warnings = serializers.ListField(child=serializers.CharField(), help_text="What else is remarkable, by line.")
    needs_fresh_log_in = serializers.BooleanField(
        source="changes_people", help_text="Whether rights of people change, which needs a fresh log-in."
    )


class ConfigurationFileView(APIView):
    """The part of the configuration that the caller may change, as a file."""

    permission_classes = (IsManager,)

    @extend_schema(
        operation_id="configuration_get",
        summary="Export the configuration that the caller may change, without secrets and what CEs run",
        tags=[Audience.MANAGERS],
        responses={200: ConfigurationFileOut, **error_responses(401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Return the file: of a manager what concerns only the VOs of the manager, of an operator all."""
        return Response(ConfigurationFileOut({"file": part_of(user_of(request))}).data)


class ConfigurationPreviewView(APIView):
    """The comparison of a file with the configuration."""

    permission_classes = (IsManager,)
    token_scope = TokenScope.ADMINISTER

    @extend_schema(
        operation_id="configuration_preview",
        summary="Compare a configuration file with the configuration, and change nothing",
        tags=[Audience.MANAGERS],
        request=ConfigurationFileIn,
        responses={200: ComparisonOut, **error_responses(400, 401, 403, 415, 429)},
    )
    def post(self, request: Request) -> Response:
        """Return what the file would change. All that is wrong with it is in `errors.file`, by line."""
        values = ConfigurationFileIn.checked(request.data)
        return Response(ComparisonOut(compare(values["file"].encode(), user=user_of(request), now=current_time())).data)


class ConfigurationApplyView(APIView):
    """The changes by a file."""

    permission_classes = (IsManager,)
    token_scope = TokenScope.ADMINISTER

    @extend_schema(
        operation_id="configuration_apply",
        summary="Apply a configuration file that was compared",
        tags=[Audience.MANAGERS],
        request=ConfigurationChangeIn,
        responses={200: ComparisonOut, **error_responses(400, 401, 403, 409, 415, 429)},
    )
    def post(self, request: Request) -> Response:
        """Make all changes, or none if the configuration or the file has changed since the comparison.

        Rows that the file does not name stay as they are, but for limits: a file that has limits has all.
        """
        values, user, now = ConfigurationChangeIn.checked(request.data), user_of(request), current_time()
        token = request.auth
        logged_in_at = token.issued_at if isinstance(token, UserCredential) else last_log_in(request, user)
        applied = apply(
            values["file"].encode(),
            user=user,
            now=now,
            version=values["version"],
            confirmed=values["confirmed"],
            deletions_confirmed=values["delete"],
            is_log_in_fresh=is_fresh(logged_in_at, now=now),
        )
        return Response(ComparisonOut(applied).data)
