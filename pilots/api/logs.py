"""Logs of pilots: sent by pilots, read by people."""

from http import HTTPStatus

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pilots.api.permissions import IsPilot, pilot_of
from pilots.domain.logs import LINES_AROUND, LONGEST_LINE, MOST_FOUND, FoundLines, LogLine, LogPart
from pilots.models import Pilot
from pilots.queries import MOST_SOUGHT, KeptLog, found_in, stored_log
from pilots.services import logs
from wms.accounts.api.permissions import IsUser, user_of
from wms.kernel.clock import current_time
from wms.kernel.rest import StrictSerializer, Text, WholeNumber, error_responses
from wms.kernel.rest.audience import Audience
from wms.wire.protocol import MAX_LOG_CHUNK

#: Largest offset: a log of so many characters takes years, so a larger offset is a mistake.
MAX_OFFSET = 10**12


class ChunkIn(StrictSerializer):
    """Body of POST /api/v1/pilots/log/."""

    offset = WholeNumber(
        min_value=0, max_value=MAX_OFFSET, help_text="Characters of the log before this chunk, sent or not."
    )
    text = Text(
        max_length=MAX_LOG_CHUNK,
        allow_blank=True,
        help_text=f"The next lines, at most {MAX_LOG_CHUNK} characters; empty: the request only reads how much "
        "was received.",
    )

    @classmethod
    def parse(cls, data: object) -> LogPart:
        """Return the chunk."""
        return LogPart(**cls.checked(data))


class ReceivedOut(serializers.Serializer[int]):
    """The received part of a log."""

    received = serializers.IntegerField(help_text="Characters received; the offset of the next chunk.")


class LogSearchIn(StrictSerializer):
    """Query string of GET /api/v1/pilots/{id}/log/."""

    contains = Text(
        max_length=MOST_SOUGHT,
        required=False,
        help_text="Return only the lines that contain this text, in any letter case, with their numbers and the lines "
        "around them.",
    )


class LogLineOut(serializers.Serializer[LogLine]):
    """One line of the stored log."""

    number = serializers.IntegerField(help_text="Number of the line in the stored log, from 1 on.")
    text = serializers.CharField(help_text=f"The line; of a long one {LONGEST_LINE} characters.")
    is_match = serializers.BooleanField(help_text="Whether it contains the text; false: a line beside one that does.")


class FoundLinesOut(serializers.Serializer[FoundLines]):
    """The lines that contain a text."""

    matches = serializers.IntegerField(help_text="Number of the lines that contain it.")
    lines = LogLineOut(
        many=True, help_text=f"The first {MOST_FOUND} of these, with {LINES_AROUND} lines before and after each."
    )


class LogOut(serializers.Serializer[KeptLog]):
    """The stored log of a pilot."""

    pilot = serializers.IntegerField(source="pilot_id", help_text="Id of the pilot.")
    received = serializers.IntegerField(help_text="Characters received from the pilot.")
    changed_at = serializers.DateTimeField(allow_null=True, help_text="Time of the last addition; null: never.")
    text = serializers.CharField(
        help_text="Stored lines; a line in brackets replaces omitted lines. Empty with `contains`."
    )
    batch_output = serializers.CharField(
        help_text="Output of the pilot kept by its batch system, if it was fetched. Empty with `contains`."
    )


class SearchedLogOut(LogOut):
    """The stored log of a pilot, or the lines of it that contain a text."""

    found = FoundLinesOut(
        required=False,
        help_text="With `contains` only: lines of the stored log, or of the output if there is no log.",
    )


class LogView(APIView):
    """The log of a pilot: lines of its standard error, in chunks."""

    #: 64 Ki characters, each of which may be written as two escapes.
    most_body_bytes = 1024 * 1024
    permission_classes = (IsPilot,)

    @extend_schema(
        operation_id="pilots_log",
        summary="Send the next lines of the pilot's log",
        tags=[Audience.PILOTS],
        request=ChunkIn,
        responses={HTTPStatus.OK: ReceivedOut, **error_responses(400, 401, 403, 415)},
    )
    def post(self, request: Request) -> Response:
        """Store the new part of the chunk; a repeated chunk changes nothing."""
        pilot_id = pilot_of(request).pilot_id
        received = logs.append(ChunkIn.parse(request.data), pilot_id=pilot_id, now=current_time())
        return Response({"received": received})


class PilotLogView(APIView):
    """The log of one pilot, for people."""

    permission_classes = (IsUser,)

    @extend_schema(
        operation_id="pilots_log_read",
        summary="Read the log of a pilot: managers of its VO, administrators of its site, owners of private ones",
        tags=[Audience.USERS],
        parameters=[LogSearchIn],
        responses={HTTPStatus.OK: SearchedLogOut, **error_responses(400, 401, 403, 404)},
    )
    def get(self, request: Request, pk: int) -> Response:
        """Return the log, or the lines of it that contain a text; pilots that the caller may not see give 404."""
        pilot = get_object_or_404(Pilot.objects.visible_to(user_of(request)), pk=pk)
        words = LogSearchIn.checked(request.query_params).get("contains")
        log = stored_log(pilot)
        return Response(LogOut(log).data if words is None else SearchedLogOut(found_in(log, words)).data)
