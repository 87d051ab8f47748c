"""POST /api/v1/jobs/yaml/: descriptions in YAML as JSON, for clients that read no YAML."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.accounts.api.permissions import IsUser, user_of
from wms.accounts.domain import TokenScope
from wms.jobs.api.bodies import SubmissionBody
from wms.jobs.domain.yaml_descriptions import MOST_CHARACTERS, body_of_yaml
from wms.jobs.services.submission_limits import submission_in_flight
from wms.kernel.rest import StrictSerializer, error_responses
from wms.kernel.rest.audience import Audience


class YamlIn(StrictSerializer):
    """A text in YAML."""

    yaml = serializers.CharField(
        trim_whitespace=False,
        help_text="One description, with the names of the fields of a submission, or a list of them.",
    )


class YamlView(APIView):
    """Descriptions in YAML."""

    #: Bytes: JSON writes a character as up to twelve.
    most_body_bytes = 12 * MOST_CHARACTERS
    permission_classes = (IsUser,)
    token_scope = TokenScope.SUBMIT

    @extend_schema(
        operation_id="jobs_read_yaml",
        summary="Return the body of a submission that a YAML text means",
        tags=[Audience.USERS],
        request=YamlIn,
        responses={200: SubmissionBody, **error_responses(400, 401, 403, 413, 415, 429)},
    )
    def post(self, request: Request) -> Response:
        """Read the text and store nothing; fields are not checked, as a submission does that."""
        with submission_in_flight(user_of(request), spared=1):
            return Response(body_of_yaml(YamlIn.checked(request.data)["yaml"]))
