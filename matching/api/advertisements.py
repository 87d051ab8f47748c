"""POST /api/v1/sites/{name}/advertisements/: the advertisement of a site's job numbers (SAM)."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from matching.services.throttles import advertise
from resources.api.authentication import SiteCredential
from resources.domain import advertised_load
from resources.domain.advertisements import MOST_JOBS, Advertisement, of_classad, of_numbers
from resources.domain.classad import MAX_BYTES, ClassAdError
from resources.domain.enums import SiteTokenPurpose, ThrottlePolicy
from resources.models import Site
from resources.queries.throttles import ThrottleStanding
from wms.kernel.errors import NotFoundError
from wms.kernel.rest import Number, StrictSerializer, Text, WholeNumber, error_responses
from wms.kernel.rest.audience import Audience

#: Fields required without a ClassAd.
REQUIRED: Final = ("current_submitting_jobs", "current_gathering_output_jobs", "current_jobs")
#: Names of the fields in SAM's ClassAds.
NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "current_submitting_jobs": advertised_load.SUBMITTING,
        "current_gathering_output_jobs": advertised_load.GATHERING,
        "current_jobs": advertised_load.CURRENT,
        "cur_matches": advertised_load.CUR_MATCHES,
        **{field: name for name, field in advertised_load.FIELD_OF_MAXIMUM.items()},
    }
)
#: Length of the name of a gateway, which may be a host name.
MOST_CHARACTERS: Final = 255
#: Fields of the answer to an ignored advertisement only.
OF_IGNORED: Final = ("ignored", "why_ignored", "last_sequence", "sequence_forgotten_at")
_LONGEST_AGO_S: Final = 366 * 86_400
_NO_THROTTLE: Final = "none"


def _jobs(help_text: str) -> WholeNumber:
    return WholeNumber(min_value=0, max_value=MOST_JOBS, required=False, help_text=help_text)


class AdvertisementIn(StrictSerializer):
    """Body of POST /api/v1/sites/{name}/advertisements/: numbers, or a ClassAd."""

    current_submitting_jobs = _jobs("Jobs in submission to the batch system; required without a ClassAd.")
    current_gathering_output_jobs = _jobs("Jobs whose output is being fetched; required without a ClassAd.")
    current_jobs = _jobs("All jobs at the site; required without a ClassAd.")
    cur_matches = _jobs("Initial value of a custom expression's CurMatches; left out: 0.")
    max_matches = _jobs("Maximum of CurMatches; the smaller of this and the configured maximum applies.")
    max_submitting_jobs = _jobs("As max_matches, for jobs in submission.")
    max_submitting_and_output_gathering_jobs = _jobs(
        "As max_matches, for jobs in submission and jobs whose output is being fetched, together."
    )
    max_jobs = _jobs("As max_matches, for all jobs at the site.")
    gateway = Text(
        max_length=MOST_CHARACTERS,
        required=False,
        help_text="Name of the gateway that measured, unique at the site, such as its host name. "
        "Advertisements of several gateways are added up; each expires by itself. Left out: the "
        "gateway without a name.",
    )
    sequence = WholeNumber(
        min_value=0,
        required=False,
        help_text="Sequence number of the advertisement. One that is not above the last of its gateway is "
        "ignored. The last one is forgotten when its advertisement expires.",
    )
    measured_s_ago = Number(
        min_value=0,
        max_value=_LONGEST_AGO_S,
        required=False,
        help_text="Seconds between the measurement and this request; default 0. Matches since then are counted.",
    )
    classad = Text(
        max_length=MAX_BYTES,
        required=False,
        help_text="The numbers as a ClassAd with SAM's names, in place of the fields, with all attributes that "
        "a custom expression uses; a record, or one attribute per line. Its Requirements, if any, "
        "must be TRUE under every policy. Without CurMatches it is undefined, and a custom "
        "expression is closed.",
    )

    def validate(self, attrs: dict[str, object]) -> dict[str, object]:
        """Refuse a body with both forms, or neither."""
        if "classad" in attrs:
            beside = [name for name in NAMES if name in attrs]
            sentence = "Leave out this field or the ClassAd; the ClassAd has it under SAM's name."
        else:
            beside = [name for name in REQUIRED if name not in attrs]
            sentence = "This field is required, unless a ClassAd contains it."
        if beside:
            raise serializers.ValidationError({name: [sentence] for name in beside})
        return attrs

    @classmethod
    def parse(cls, data: object) -> Advertisement:
        """Return the advertisement."""
        fields = cls.checked(data)
        about = {
            "gateway": fields.get("gateway", ""),
            "sequence": fields.get("sequence"),
            "measured_s_ago": fields.get("measured_s_ago", 0.0),
        }
        if "classad" not in fields:
            return of_numbers({sam_name: fields[name] for name, sam_name in NAMES.items() if name in fields}, **about)
        try:
            return of_classad(fields["classad"], **about)
        except ClassAdError as error:
            raise serializers.ValidationError({"classad": [str(error)]}) from error


class ThrottleOut(serializers.Serializer[ThrottleStanding]):
    """State of the site's throttle after the advertisement."""

    policy = serializers.SerializerMethodField(
        help_text="Policy of the site's throttle; none: the site has no throttle, and nothing is stored."
    )
    cur_matches = serializers.IntegerField(
        allow_null=True, help_text="SAM's CurMatches; null: undefined (the throttle is closed), or no throttle."
    )
    accepting = serializers.BooleanField(
        help_text="Whether one more match is accepted; true if the expression depends on the job."
    )
    expires_at = serializers.DateTimeField(
        allow_null=True, help_text="Time before which the gateway must advertise again; null: no throttle."
    )
    ignored = serializers.BooleanField(
        required=False,
        help_text="Present, and true, only if the sequence is not above the last of the gateway: the "
        "advertisement was ignored. The next three fields are present only then.",
    )
    why_ignored = serializers.CharField(
        required=False, help_text="Reason why it was ignored, and what to do, in one sentence."
    )
    last_sequence = serializers.SerializerMethodField(
        help_text="Last accepted sequence of the gateway; the next one must exceed it; null: any is accepted."
    )
    sequence_forgotten_at = serializers.SerializerMethodField(
        help_text="Time at which the last accepted sequence is forgotten; null: there is none."
    )

    @extend_schema_field(serializers.ChoiceField(choices=[policy or _NO_THROTTLE for policy in ThrottlePolicy]))
    def get_policy(self, standing: ThrottleStanding) -> str:
        """Return the policy."""
        return standing.policy or _NO_THROTTLE

    def get_last_sequence(self, standing: ThrottleStanding) -> int | None:
        """Return the sequence that the next advertisement must exceed."""
        return None if standing.last_sequence is None else standing.last_sequence[0]

    def get_sequence_forgotten_at(self, standing: ThrottleStanding) -> datetime | None:
        """Return when any sequence is accepted again."""
        return None if standing.last_sequence is None else standing.last_sequence[1]

    def to_representation(self, standing: ThrottleStanding) -> dict[str, object]:
        """Return the answer."""
        answer = super().to_representation(standing)
        return answer if standing.ignored else {name: answer[name] for name in answer if name not in OF_IGNORED}


class MayAdvertise(BasePermission):
    """The advertisement token of a site, for that site; other sites do not exist (404)."""

    message = "Use the advertisement token of the site at this address."

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Return whether the caller has an advertisement token.

        Raises:
            NotFoundError: it has, but of another site.
        """
        if not isinstance(request.auth, SiteCredential) or request.auth.purpose != SiteTokenPurpose.ADVERTISE:
            return False
        if request.auth.site_name != view.kwargs["name"]:
            raise NotFoundError("There is no such site for this token.")
        return True


class AdvertisementsView(APIView):
    """Advertisements of sites."""

    #: Bytes: a ClassAd of 64 Ki characters, each written as two escapes.
    most_body_bytes = 1024 * 1024
    permission_classes = (MayAdvertise,)

    @extend_schema(
        operation_id="sites_advertise",
        summary="Advertise the numbers of jobs at a site, as a new state of its throttle",
        tags=[Audience.SITES],
        request=AdvertisementIn,
        responses={200: ThrottleOut, **error_responses(400, 401, 403, 404, 409, 415)},
    )
    def post(self, request: Request, name: str) -> Response:  # noqa: ARG002 - MayAdvertise has compared it
        """Begin a new state of the site's throttle, and return it."""
        advertisement = AdvertisementIn.parse(request.data)
        assert isinstance(request.auth, SiteCredential)  # noqa: S101 - checked by MayAdvertise; for the type checker
        try:
            standing = advertise(request.auth.site_id, advertisement)
        except Site.DoesNotExist as error:
            raise NotFoundError("This site was removed; stop advertising it.") from error
        return Response(ThrottleOut(standing).data)
