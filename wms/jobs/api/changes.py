"""The stream of changes of jobs over REST, for portals and scripts that keep a copy."""

from datetime import UTC, datetime
from typing import Final

from django.conf import settings
from django.core import signing
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.accounts.api.permissions import IsUser, user_of
from wms.jobs.api.outputs import HistoryOut
from wms.jobs.queries.changes import Changes, Position, changes, now
from wms.kernel.clock import current_time
from wms.kernel.errors import GoneError, RejectedError
from wms.kernel.rest import StrictSerializer, error_responses
from wms.kernel.rest.audience import Audience
from wms.kernel.rest.pages import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE

_SALT: Final = "wms.jobs.changes"


class UnknownCursorError(RejectedError):
    """The cursor is none of this server."""

    code = "invalid_cursor"


class CursorExpiredError(GoneError):
    """The cursor is older than WMS_JOB_CHANGES_S, or the database was restored from before it."""

    code = "cursor_expired"


class ChangesIn(StrictSerializer):
    """Query string of GET /api/v1/jobs/changes/."""

    since = serializers.CharField(
        required=False, max_length=4000, help_text="Cursor of the previous answer; left out: begin now."
    )
    page_size = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_PAGE_SIZE,
        help_text=f"Changes per answer; default {DEFAULT_PAGE_SIZE}.",
    )


class ChangeOut(HistoryOut):
    """One change of one job."""

    job_id = serializers.IntegerField(help_text="Id of the job.")


class ChangesOut(serializers.Serializer[Changes]):
    """The next changes; those of a job in their order."""

    changes = ChangeOut(many=True, source="lines")
    cursor = serializers.SerializerMethodField(help_text="Position behind these changes, for the next request.")
    more = serializers.BooleanField(source="is_partial", help_text="Whether more changes may be there already.")

    def get_cursor(self, part: Changes) -> str:
        """Return the end of this part, with the present time."""
        end = part.end
        issued_at_s = int(current_time().timestamp())
        return signing.dumps((end.seen, end.until, end.line, issued_at_s), salt=_SALT, compress=True)


class JobChangesView(APIView):
    """Changes of jobs that the caller may see."""

    permission_classes = (IsUser,)

    @extend_schema(
        operation_id="jobs_changes",
        summary="Follow the changes of jobs",
        tags=[Audience.USERS],
        parameters=[ChangesIn],
        responses={200: ChangesOut, **error_responses(400, 401, 403, 410)},
    )
    def get(self, request: Request) -> Response:
        """Return every change of a job's status since the cursor, each exactly once, those of a job in their order.

        Begin without a cursor, read the list of jobs, then repeat with the cursor of each answer: at once while `more`
        is true, otherwise after some seconds. A cursor that is too old is 410: read the list again, and begin anew.
        """
        query = ChangesIn.checked(request.query_params)
        if "since" not in query:
            return Response(ChangesOut(Changes(lines=(), end=now(), is_partial=False)).data)
        since = _position(query["since"])
        part = changes(since, by=user_of(request), at_most=query.get("page_size", DEFAULT_PAGE_SIZE))
        return Response(ChangesOut(part).data)


def _position(cursor: str) -> Position:
    """Return the position that a cursor names.

    Raises:
        UnknownCursorError: it was not issued here.
        CursorExpiredError: it is too old, or of a later state of the database.
    """
    try:
        seen, until, line, issued_at_s = signing.loads(cursor, salt=_SALT)
    except signing.BadSignature as error:
        sentence = "This cursor is not valid; begin without one."
        raise UnknownCursorError(sentence, errors={"since": [sentence]}) from error
    position = Position(seen=seen, until=until, line=line)
    age_s = (current_time() - datetime.fromtimestamp(issued_at_s, tz=UTC)).total_seconds()
    if age_s > settings.WMS_JOB_CHANGES_S or position.end > now().end:
        raise CursorExpiredError(
            "This cursor is no longer kept; read the list of jobs again, and begin without a cursor."
        )
    return position
