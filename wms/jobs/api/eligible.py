"""GET /api/v1/submit-pools/eligible/: dry run of a requirements section (RFC7, getEligibleQueues)."""

from collections.abc import Mapping
from typing import Final, cast

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from resources.domain.parameters import canonical_name
from resources.domain.requirements import Misses, canonical, check, in_words, submit_pool_id
from resources.queries.eligible_queues import eligible_queues, ineligible_queues
from resources.queries.known_names import requirement_kinds, requirement_names, requirement_units
from resources.queries.queue_parameters import LEVELS, UnmetRequirement
from wms.accounts.api.permissions import IsUser, user_of
from wms.accounts.models import VO, User
from wms.jobs.domain.jdl import field_hint
from wms.kernel.errors import RejectedError
from wms.kernel.names import did_you_mean
from wms.kernel.rest import StrictSerializer, error_responses
from wms.kernel.rest.audience import Audience
from wms.kernel.rest.strict_json import InvalidJSONError, load_json

#: Ineligible queues in a response; those that miss the fewest requirements come first.
MOST_INELIGIBLE: Final = 200


class UnclearVOError(RejectedError):
    """The VO is not named, or the caller does not belong to it."""

    code = "unclear_vo"


class EligibleQuery(StrictSerializer):
    """Query string of the dry run."""

    requirements = serializers.CharField(
        max_length=16_384,
        help_text='The requirements section as a JSON object, such as {"Memory": 4000, "SoftwareTag": ["v1", "v2"]}.',
    )
    vo = serializers.CharField(
        required=False, max_length=64, help_text="Name of the VO; required from users with several VOs."
    )


class UnmetOut(serializers.Serializer[object]):
    """One requirement that a queue does not meet."""

    name = serializers.CharField(help_text="Name of the parameter, as in the request.")
    problem = serializers.ChoiceField(
        choices=[str(misses) for misses in Misses],
        help_text="Reason. not_described: the queue has no such parameter; too_small, not_a_number: the value "
        "of a capacity; not_among: of a set; other_value: of an exact value.",
    )
    asked = serializers.JSONField()
    offered = serializers.JSONField(allow_null=True, help_text="Value in force at the queue; null: none.")
    level = serializers.ChoiceField(
        choices=LEVELS, allow_null=True, help_text="Level at which the value in force is configured; null: none."
    )
    detail = serializers.CharField(help_text="Reason in words.")


class IneligibleQueueOut(serializers.Serializer[object]):
    """One queue that is not eligible."""

    site = serializers.CharField()
    ce = serializers.CharField()
    queue = serializers.CharField()
    unmet = UnmetOut(many=True, help_text="Requirements that it does not meet, all of them.")


class EligibleOut(serializers.Serializer[object]):
    """The queues that meet the requirements, and why the others do not."""

    vo = serializers.CharField()
    submit_pool = serializers.CharField(help_text="Id of the submit pool of jobs with these requirements.")
    requirements = serializers.DictField(help_text="Requirements in canonical form.")
    eligible_queues = serializers.IntegerField(help_text="Number of queues in the tree.")
    eligible = serializers.DictField(
        child=serializers.DictField(child=serializers.ListField(child=serializers.CharField())),
        help_text="Eligible queues as a tree: site → computing element → queues. Bans, throttles and limits "
        "are ignored.",
    )
    ineligible = IneligibleQueueOut(
        many=True,
        help_text=f"Other queues, those that miss the fewest requirements first; at most {MOST_INELIGIBLE}.",
    )


class EligibleView(APIView):
    """Dry run: the queues where jobs with some requirements could run."""

    permission_classes = (IsUser,)

    @extend_schema(
        operation_id="submit_pools_eligible",
        summary="Dry run of requirements: the tree of eligible queues, and why the others are not eligible",
        tags=[Audience.USERS],
        parameters=[EligibleQuery],
        responses={200: EligibleOut, **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Compare the requirements with every queue that serves the VO; nothing is stored (RFC7).

        Requirements that a submission would refuse are refused with the same sentences.
        """
        query = EligibleQuery.checked(request.query_params)
        stated = _section(query["requirements"])
        vo = _vo_of(user_of(request), query.get("vo"))
        kinds, units = requirement_kinds(vo), requirement_units(vo)
        check(stated, known=requirement_names(vo), kinds=kinds, units=units, hint=field_hint)
        required = canonical(stated)
        tree = eligible_queues(vo, required)
        spelled = {canonical_name(name): name for name in stated}
        return Response(
            {
                "vo": vo.name,
                "submit_pool": submit_pool_id(vo.name, required),
                "requirements": required,
                "eligible_queues": sum(len(queues) for ces in tree.values() for queues in ces.values()),
                "eligible": tree,
                "ineligible": [
                    {
                        "site": each.site,
                        "ce": each.ce,
                        "queue": each.queue,
                        "unmet": [_unmet(unmet, spelled=spelled, units=units) for unmet in each.unmet],
                    }
                    for each in ineligible_queues(vo, required, at_most=MOST_INELIGIBLE)
                ],
            }
        )


def _section(text: str) -> Mapping[str, object]:
    """Return the requirements section; ``check`` reports its faults."""
    try:
        section = load_json(text.encode("utf-8", "surrogatepass"))
    except InvalidJSONError as error:
        sentence = f'requirements must be a JSON object, such as {{"Memory": 4000}}. {error.detail}'
        sentence = sentence.replace("The body", "The text")
        raise InvalidJSONError(sentence, errors={"requirements": [sentence]}) from error
    canonical(section)
    return cast("Mapping[str, object]", section)  # canonical() has refused anything else


def _vo_of(user: User, name: str | None) -> VO:
    visible = VO.objects.visible_to(user)
    matches = list((visible if name is None else visible.filter(name=name)).order_by("name")[:2])
    if len(matches) != 1:
        names = sorted(visible.values_list("name", flat=True))
        sentence = (
            f"You have several VOs; name one of {', '.join(names)}."
            if matches
            else f"You have no such VO.{did_you_mean(name or '', names)}"
        )
        raise UnclearVOError(sentence, errors={"vo": [sentence]})
    return matches[0]


def _unmet(unmet: UnmetRequirement, *, spelled: Mapping[str, str], units: Mapping[str, str]) -> dict[str, object]:
    name, unit = spelled.get(unmet.name, unmet.name), units.get(unmet.name, "")
    there = "not described there" if unmet.offered is None else f"{in_words(unmet.offered, unit=unit)} there"
    return {
        "name": name,
        "problem": unmet.misses,
        "asked": unmet.asked,
        "offered": unmet.offered,
        "level": unmet.level,
        "detail": f"{name}: {there}, {in_words(unmet.asked, unit=unit)} required",
    }
