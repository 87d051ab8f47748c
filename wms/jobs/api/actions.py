"""Actions on one job over REST."""

from typing import ClassVar

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.accounts.api.permissions import IsUser, user_of
from wms.accounts.domain import TokenScope
from wms.accounts.models import User
from wms.jobs import queries
from wms.jobs.api.inputs import HoldIn, NothingIn
from wms.jobs.api.outputs import JobOut
from wms.jobs.domain.lifecycle import Action
from wms.jobs.models import Job
from wms.jobs.services import control
from wms.kernel.clock import current_time
from wms.kernel.rest import StrictSerializer, error_responses
from wms.kernel.rest.audience import Audience


def visible_job(user: User, pk: int) -> Job:
    """Return the job with all rows for a response, or raise Http404."""
    return get_object_or_404(queries.with_surroundings(Job.objects.visible_to(user)), pk=pk)


class JobActionView(APIView):
    """Base of the actions on one job."""

    permission_classes = (IsUser,)
    token_scope = TokenScope.SUBMIT
    action: ClassVar[Action]
    body: ClassVar[type[StrictSerializer]] = NothingIn

    def post(self, request: Request, pk: int) -> Response:
        """Perform the action, and return the job in its new state."""
        body = self.body.checked(request.data)
        user = user_of(request)
        control.apply_to_one(self.action, pk, by=user, now=current_time(), reason=body.get("reason", ""))
        return Response(JobOut(visible_job(user, pk)).data)


def action_view(action: Action, *, summary: str, body: type[StrictSerializer] = NothingIn) -> type[JobActionView]:
    """Return the view of one action."""
    view = type(f"Job{action.title()}View", (JobActionView,), {"action": action, "body": body, "__doc__": summary})
    # NB: on the method: the documentation of a class would apply to all of its methods.
    document = extend_schema(
        operation_id=f"jobs_{action}",
        summary=summary,
        tags=[Audience.USERS],
        request=None if body is NothingIn else body,
        responses={200: JobOut, **error_responses(400, 401, 403, 404, 409, 415, 429)},
    )
    return extend_schema_view(post=document)(view)


JobKillView = action_view(Action.KILL, summary="Kill a job; a pilot that runs it stops it")
JobRescheduleView = action_view(Action.RESCHEDULE, summary="Return a job that ran, or runs, to its task queue")
JobDeleteView = action_view(Action.DELETE, summary="Delete a job without a lease; lists omit it")
JobHoldView = action_view(Action.HOLD, summary="Take a job out of its task queue until it is released", body=HoldIn)
JobReleaseView = action_view(Action.RELEASE, summary="Return a held job to its task queue")
