"""Parameters of sites, computing elements and queues over REST: what jobs may require there."""

from collections.abc import Callable, Mapping
from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from resources.models import ComputingElement, Queue, Site
from resources.queries.places import level_at, site_of
from resources.queries.rights import require_may_configure
from resources.services.parameters import FIELDS, set_parameters
from resources.services.states import full_name
from taskqueues.tasks import refresh_soon
from wms.accounts.api.permissions import IsManager, user_of
from wms.accounts.domain import TokenScope
from wms.kernel.rest import ExplainedIn, error_responses, transaction_of
from wms.kernel.rest.audience import Audience

_OF_ALL = "For all VOs: {name: value or list of values}."
_BY_VO = "By VO: {VO: {name: value or list of values}}; only VOs that the site serves."


class ParametersIn(ExplainedIn):
    """All parameters of a site, a computing element or a queue; what is left out is removed."""

    parameters = serializers.DictField(help_text=_OF_ALL)
    vo_parameters = serializers.DictField(child=serializers.DictField(), help_text=_BY_VO)


class ParametersOut(serializers.Serializer[Any]):
    """The parameters of a site, a computing element or a queue."""

    place = serializers.CharField(help_text='Which, in words, such as "computing element ce01 at site LCG.CERN.ch".')
    parameters = serializers.DictField(help_text=_OF_ALL)
    vo_parameters = serializers.DictField(child=serializers.DictField(), help_text=_BY_VO)


class _ParametersView(APIView):
    """Base of the parameters of the three levels."""

    permission_classes = (IsManager,)
    token_scope = TokenScope.ADMINISTER

    def get(self, request: Request, site: str, ce: str = "", queue: str = "") -> Response:
        """Return the level's own parameters, without those that it inherits."""
        return Response(_answer(_level(request, site, ce, queue)))

    def put(self, request: Request, site: str, ce: str = "", queue: str = "") -> Response:
        """Set all parameters of the level; with the same values again nothing changes.

        Managers may do this at sites that serve only their VOs, and operators everywhere. Parameters of VOs that the
        site does not serve are refused, and values that are not comparable with requirements.
        """
        values, level = ParametersIn.checked(request.data), _level(request, site, ce, queue)
        with transaction_of(values):
            of_level = {name: values[name] for name in FIELDS}
            if set_parameters(level, **of_level, reason=values["reason"], by=user_of(request)):
                refresh_soon(list(site_of(level).vos.all()) or None)
        return Response(_answer(level))


def _level(request: Request, site: str, ce: str, queue: str) -> Site | ComputingElement | Queue:
    """Return a level of a site that the caller configures.

    Raises:
        Http404, NotFoundError: there is none of these names that the caller sees.
        ForbiddenError: the caller does not configure the site.
    """
    user = user_of(request)
    row = get_object_or_404(Site.objects.visible_to(user), name=site)
    require_may_configure(row, user)
    return level_at(row, ce=ce, queue=queue)


def _answer(level: Site | ComputingElement | Queue) -> Mapping[str, Any]:
    return ParametersOut({"place": full_name(level), **{name: getattr(level, name) for name in FIELDS}}).data


def _documented(level: str, words: str) -> Callable[[type[_ParametersView]], type[_ParametersView]]:
    shown = extend_schema(
        operation_id=f"{level}_parameters",
        summary=f"Show the parameters of {words}",
        tags=[Audience.MANAGERS],
        responses={200: ParametersOut, **error_responses(401, 403, 404)},
    )
    is_set = extend_schema(
        operation_id=f"{level}_parameters_set",
        summary=f"Set the parameters of {words}",
        tags=[Audience.MANAGERS],
        request=ParametersIn,
        responses={200: ParametersOut, **error_responses(400, 401, 403, 404, 415, 429)},
    )
    return extend_schema_view(get=shown, put=is_set)


@_documented("sites", "a site")
class SiteParametersView(_ParametersView):
    """The parameters of a site."""


@_documented("ces", "a computing element")
class CEParametersView(_ParametersView):
    """The parameters of a computing element."""


@_documented("queues", "a queue")
class QueueParametersView(_ParametersView):
    """The parameters of a queue."""
