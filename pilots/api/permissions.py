"""Who may call the addresses of pilots."""

from typing import TYPE_CHECKING

from rest_framework.exceptions import NotAuthenticated
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from pilots.domain import PilotCredential
from resources.api.authentication import SiteCredential
from resources.domain.words import SiteTokenPurpose

if TYPE_CHECKING:
    from rest_framework.views import APIView  # NB: at run time a cycle, for the settings name our authentication


class IsPilot(BasePermission):
    """Pilots; people, jobs and sites are refused (403)."""

    message = "This address is for pilots; no other token opens it."

    def has_permission(self, request: Request, view: "APIView") -> bool:  # noqa: ARG002 - the framework's signature
        """Return whether the caller is a pilot."""
        return isinstance(request.auth, PilotCredential)


class MayRegisterPilots(BasePermission):
    """The registration token of a site. A director's single-use secret will be the other way in."""

    message = "This address opens only with the registration token of a site."

    def has_permission(self, request: Request, view: "APIView") -> bool:  # noqa: ARG002 - the framework's signature
        """Return whether the caller may register pilots."""
        return isinstance(request.auth, SiteCredential) and request.auth.purpose == SiteTokenPurpose.REGISTER


def pilot_of(request: Request) -> PilotCredential:
    """Return the credential of the pilot that calls, in a view that IsPilot guards.

    Raises:
        NotAuthenticated: somebody else; only in a view that forgot its guard.
    """
    if not isinstance(request.auth, PilotCredential):
        raise NotAuthenticated
    return request.auth


def registering_site_of(request: Request) -> int:
    """Return the id of the site whose token it is, in a view that MayRegisterPilots guards.

    Raises:
        NotAuthenticated: somebody else; only in a view that forgot its guard.
    """
    if not isinstance(request.auth, SiteCredential):
        raise NotAuthenticated
    return request.auth.site_id
