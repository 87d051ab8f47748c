"""Permissions for work on a lease."""

from typing import TYPE_CHECKING
from uuid import UUID

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from matching.api.authentication import JobCredential
from matching.models import Match
from matching.services.leases import NoSuchLeaseError
from pilots.api.authentication import PilotCredential

if TYPE_CHECKING:
    from rest_framework.views import APIView  # NB: a cycle at run time, because the settings name our authentication


class IsLeaseHolder(BasePermission):
    """The token of the match, or of the pilot that holds it; users get 403, other pilots 404."""

    message = "This address is for the pilot that holds the lease."

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return whether the caller is a pilot or a lease.

        Raises:
            NoSuchLeaseError: it is, but the lease is another's.
        """
        if not isinstance(request.auth, JobCredential | PilotCredential):
            return False
        match_id = view.kwargs["match_id"]
        pilot_id = pilot_of(request.auth, match_id)
        if pilot_id is not None and not Match.objects.filter(pk=match_id, pilot=pilot_id).exists():
            raise NoSuchLeaseError
        return True


class IsJobOfLease(BasePermission):
    """Only the token of the match: sandboxes are the user's, not the pilot's (PIL §3.1)."""

    message = "Use the token of the match at this address."

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return whether the caller is a lease.

        Raises:
            NoSuchLeaseError: it is another lease.
        """
        if not isinstance(request.auth, JobCredential):
            return False
        pilot_of(request.auth, view.kwargs["match_id"])
        return True


def pilot_of(credential: JobCredential | PilotCredential, match_id: UUID) -> int | None:
    """Return the pilot that must hold the lease, or have held it; None: the token is that of the lease.

    Raises:
        NoSuchLeaseError: the token is that of another lease.
    """
    if isinstance(credential, PilotCredential):
        return credential.pilot_id
    if credential.match_id != match_id:
        raise NoSuchLeaseError
    return None
