"""Permissions for work on a lease."""

from typing import TYPE_CHECKING
from uuid import UUID

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from matching.api.authentication import JobCredential
from matching.models import Match
from pilots.api.authentication import PilotCredential
from wms.kernel.errors import NotFoundError

if TYPE_CHECKING:
    from rest_framework.views import APIView  # NB: a cycle at run time, because the settings name our authentication

_NO_SUCH_LEASE = "There is no such lease for this token."


class IsLeaseHolder(BasePermission):
    """The token of the match, or of the pilot that holds it; users get 403, other pilots 404."""

    message = "This address is for the pilot that holds the lease."

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return whether the caller is a pilot or a lease.

        Raises:
            NotFoundError: it is, but the lease is another's.
        """
        if not isinstance(request.auth, JobCredential | PilotCredential):
            return False
        if not is_holder(request.auth, view.kwargs["match_id"]):
            raise NotFoundError(_NO_SUCH_LEASE)
        return True


class IsJobOfLease(BasePermission):
    """Only the token of the match: sandboxes are the user's, not the pilot's (PIL §3.1)."""

    message = "Use the token of the match at this address."

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return whether the caller is a lease.

        Raises:
            NotFoundError: it is another lease.
        """
        if not isinstance(request.auth, JobCredential):
            return False
        if request.auth.match_id != view.kwargs["match_id"]:
            raise NotFoundError(_NO_SUCH_LEASE)
        return True


def is_holder(credential: JobCredential | PilotCredential, match_id: UUID) -> bool:
    """Return whether the token is that of the lease, or of a pilot that holds or held it."""
    if isinstance(credential, JobCredential):
        return credential.match_id == match_id
    return Match.objects.filter(pk=match_id, pilot=credential.pilot_id).exists()
