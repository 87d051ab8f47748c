"""Permissions of endpoints about sites."""

from typing import TYPE_CHECKING

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from resources.queries.rights import oversees_sites
from wms.accounts.models import User

if TYPE_CHECKING:
    from rest_framework.views import APIView


class OverseesSites(BasePermission):
    """Administrators of at least one site, managers of at least one VO, and operators."""

    message = "Only administrators of a site, managers of a VO and operators may do this."

    def has_permission(self, request: Request, _view: "APIView") -> bool:
        """Return whether the caller oversees a site."""
        return isinstance(request.user, User) and oversees_sites(request.user)
