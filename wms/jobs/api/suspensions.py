"""The suspension of a person over REST, with the jobs that it concerns."""

from typing import Any

from django.db import transaction
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.accounts.api.permissions import IsManager, user_of
from wms.accounts.domain import TokenScope
from wms.accounts.models import User
from wms.accounts.queries import managed_vos_of, people_seen_by
from wms.accounts.services.members import MAX_REASON_LENGTH, require_changeable
from wms.jobs.queries.amounts import leased_and_waiting
from wms.jobs.services.suspensions import restore, suspend
from wms.kernel.clock import current_time
from wms.kernel.rest import ChangeIn, DeletionIn, ReasonText, error_responses
from wms.kernel.rest.audience import Audience


class SuspensionIn(ChangeIn):
    """A suspension."""

    reason = ReasonText(
        max_length=MAX_REASON_LENGTH, default="", allow_blank=True, help_text="Reason, which the security log keeps."
    )


class SuspensionOut(serializers.Serializer[Any]):
    """Whether a person is suspended, and the jobs that this concerns, as far as the caller may see them."""

    username = serializers.CharField(help_text="User name.")
    suspended = serializers.BooleanField(
        help_text="Whether the person may not log in; tokens and sessions have ended then."
    )
    running_jobs = serializers.IntegerField(help_text="Jobs that pilots hold; a suspension kills them.")
    waiting_jobs = serializers.IntegerField(
        help_text="Jobs that wait, and are held or checked; none is matched while the person is suspended."
    )


class SuspendedOut(SuspensionOut):
    """A suspended person, and the jobs that the suspension killed."""

    killed_jobs = serializers.IntegerField(help_text="Jobs that pilots held, and that this request killed.")


class SuspensionView(APIView):
    """The suspension of a person, for those who may change the person in the administration."""

    permission_classes = (IsManager,)
    token_scope = TokenScope.ADMINISTER
    needs_fresh_log_in = True

    @extend_schema(
        operation_id="users_suspension",
        summary="Show whether a person is suspended",
        tags=[Audience.MANAGERS],
        responses={200: SuspensionOut, **error_responses(401, 403, 404)},
    )
    def get(self, request: Request, username: str) -> Response:
        """Return whether a person whom the caller may suspend is suspended."""
        user = user_of(request)
        return Response(SuspensionOut(_facts(_person(user, username), seen_by=user)).data)

    @extend_schema(
        operation_id="users_suspension_set",
        summary="Suspend a person: tokens, sessions and payloads end, and waiting jobs are not matched",
        tags=[Audience.MANAGERS],
        request=SuspensionIn,
        responses={200: SuspendedOut, **error_responses(400, 401, 403, 404, 415, 429)},
    )
    def put(self, request: Request, username: str) -> Response:
        """Suspend a member who is in no other VO and has no privileges; repeated, it kills what pilots hold by then.

        Operators suspend everybody but superusers. Jobs that pilots hold are Killed, with the minor status "Owner
        suspended", and are not started again; those that wait stay, and are matched after the end of the suspension.
        """
        values, user = SuspensionIn.checked(request.data), user_of(request)
        person = _person(user, username)
        with transaction.atomic(durable=True):
            result = suspend([person], reason=values["reason"], by=user, now=current_time())
            answer = SuspendedOut({**_facts(person, seen_by=user), "killed_jobs": result.killed}).data
            transaction.set_rollback(values["dry_run"])
        return Response(answer)

    @extend_schema(
        operation_id="users_suspension_end",
        summary="End the suspension of a person",
        tags=[Audience.MANAGERS],
        parameters=[DeletionIn],
        responses={204: None, **error_responses(400, 401, 403, 404, 429)},
    )
    def delete(self, request: Request, username: str) -> Response:
        """Let the person log in again, and waiting jobs be matched; tokens stay revoked."""
        values, user = DeletionIn.checked(request.query_params), user_of(request)
        person = _person(user, username)
        with transaction.atomic(durable=True):
            restore([person], reason="", by=user)
            transaction.set_rollback(values["dry_run"])
        return Response(status=204)


def _person(user: User, username: str) -> User:
    person = get_object_or_404(people_seen_by(user), username=username)
    require_changeable(person, by=user, vos=managed_vos_of(user))
    return person


def _facts(person: User, *, seen_by: User) -> dict[str, object]:
    running, waiting = leased_and_waiting([person], seen_by=seen_by)
    values = {"username": person.username, "suspended": not person.is_active}
    return {**values, "running_jobs": running, "waiting_jobs": waiting}
