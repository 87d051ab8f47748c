"""Permissions for the addresses of pilots."""

from typing import TYPE_CHECKING

from rest_framework.exceptions import NotAuthenticated
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from pilots.domain.pilot import PilotCredential, SecretCredential
from resources.api.authentication import SiteCredential
from resources.domain.enums import SiteTokenPurpose

if TYPE_CHECKING:
    from rest_framework.views import APIView  # NB: at run time a cycle, because the settings name our authentication


class IsPilot(BasePermission):
    """Pilots only; people, jobs and sites get 403."""

    message = "This address is for pilots; no other token opens it."

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return whether the caller is a pilot."""
        return isinstance(request.auth, PilotCredential)


class MayRegisterPilots(BasePermission):
    """Callers with the registration token of a site, or the single-use secret of a director."""

    message = "This address opens only with the registration token of a site or the secret of a director."

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return whether the caller may register pilots."""
        if isinstance(request.auth, SecretCredential):
            return True
        return isinstance(request.auth, SiteCredential) and request.auth.purpose == SiteTokenPurpose.REGISTER


def pilot_of(request: Request) -> PilotCredential:
    """Return the credential of the calling pilot, in a view that IsPilot guards.

    Raises:
        NotAuthenticated: another caller; only in a view without that guard.
    """
    if not isinstance(request.auth, PilotCredential):
        raise NotAuthenticated
    return request.auth


def registrar_of(request: Request) -> SiteCredential | SecretCredential:
    """Return the credential of a registration, in a view that MayRegisterPilots guards.

    Raises:
        NotAuthenticated: another caller; only in a view without that guard.
    """
    if not isinstance(request.auth, SiteCredential | SecretCredential):
        raise NotAuthenticated
    return request.auth
