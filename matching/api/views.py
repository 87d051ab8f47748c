"""Matches, previews of matches, and reports on leases."""

import re
from http import HTTPStatus
from random import SystemRandom
from time import monotonic
from typing import Any, TypeAlias
from uuid import UUID

from drf_spectacular.utils import OpenApiResponse, PolymorphicProxySerializer, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from matching.api.authentication import JobCredential, JobTokenAuthentication, renewed_token
from matching.api.permissions import IsLeaseHolder, pilot_of
from matching.api.serializers import (
    AnswerOut,
    FinishedOut,
    FinishIn,
    HeartbeatIn,
    LeaseOut,
    LeasesOut,
    OfferIn,
    PreviewIn,
    PreviewOut,
    StatusIn,
    UsageIn,
    answer_out,
    lease_out,
    preview_out,
    tails_of,
)
from matching.queries.preview import preview
from matching.services import imagined_offers, leases
from matching.services.data import data_of
from matching.services.match import match, why_narrowed
from matching.services.retry_after import seconds_to_wait
from pilots.api.authentication import PilotCredential, PilotTokenAuthentication
from pilots.api.permissions import IsPilot
from wms.accounts.api.permissions import IsManager, user_of
from wms.jobs.domain.lifecycle import JobStatus
from wms.kernel.clock import current_time
from wms.kernel.db import database_now
from wms.kernel.fast.views import FastAnswer, FastView
from wms.kernel.rest import error_responses
from wms.kernel.rest.audience import Audience
from wms.wire.protocol import API_V1, FAULT_OF_JOB, FAULT_OF_SUPERVISOR, WHY_HEADER

#: The credentials of reports on a lease.
LeaseCredential: TypeAlias = JobCredential | PilotCredential
#: Of a report with the last lines of two streams: 16 Ki characters each, each written as two escapes (``\uXXXX``).
_BYTES_WITH_TAILS = 512 * 1024
#: Random numbers of the draws: unpredictable, and different in forked processes.
CHANCE = SystemRandom()


class MatchesView(FastView):
    """Matches for pilots."""

    #: Bytes: four lists of 1000 names.
    most_body_bytes = 1024 * 1024
    callers = (PilotTokenAuthentication(),)
    permission_classes = (IsPilot,)
    fast_path = re.compile(rf"{API_V1}matches/")
    fast_body = OfferIn

    @extend_schema(
        operation_id="matches_create",
        summary="Offer a slot and lease the job that fits it best",
        tags=[Audience.PILOTS],
        request=OfferIn,
        responses={
            HTTPStatus.CREATED: PolymorphicProxySerializer(
                component_name="Leased", serializers=[LeaseOut, LeasesOut], resource_type_field_name=None
            ),
            HTTPStatus.NO_CONTENT: OpenApiResponse(
                description="No job fits; Retry-After: seconds to wait. If the pilot's queue is unknown, or its slots "
                f"are smaller than the offer, {WHY_HEADER} explains how this narrows the offer."
            ),
            **error_responses(400, 401, 403, 415, 503),
        },
    )
    def post(self, request: Request) -> Response:
        """Lease the job that fits this offer best; with max_jobs, up to so many.

        A repeated request_id of the same pilot returns the same leases.
        """
        return self.respond(request)

    @staticmethod
    def fast_answer(credential: PilotCredential, values: dict[str, Any]) -> FastAnswer:
        """Match; a repeated request gets the leases of the first."""
        leases = match(
            OfferIn.offer_of(values),
            request_id=values["request_id"],
            pilot_id=credential.pilot_id,
            max_jobs=values.get("max_jobs", 1),
            chance=CHANCE,
        )
        if not leases:
            wait_s = seconds_to_wait(credential.pilot_id, now=monotonic(), chance=CHANCE)
            headers = [("Retry-After", str(wait_s))]
            if why := why_narrowed(OfferIn.offer_of(values), pilot_id=credential.pilot_id):
                # A header contains no other characters.
                headers.append((WHY_HEADER, why.encode("ascii", "replace").decode()))
            return FastAnswer(None, "204 No Content", headers)
        data = data_of(leases)
        out = [lease_out(lease, data=data.get(lease.match_id), now=current_time()) for lease in leases]
        return FastAnswer({"leases": out} if "max_jobs" in values else out[0], "201 Created")


class PreviewView(APIView):
    """Previews of matches, for managers."""

    #: Bytes: an offer.
    most_body_bytes = 1024 * 1024
    permission_classes = (IsManager,)

    @extend_schema(
        operation_id="matches_preview",
        summary="Show which task queues would get an offer, and with which chance",
        tags=[Audience.MANAGERS],
        request=PreviewIn,
        responses={HTTPStatus.OK: PreviewOut, **error_responses(400, 401, 403, 415)},
    )
    def post(self, request: Request) -> Response:
        """Return the task queues that fit an offer, the probability of each, and how many each condition leaves.

        Nothing is claimed. Conditions on site, ce, queue or platforms are not compared if these are left out.
        """
        values = PreviewIn.checked(request.data)
        offer, place = imagined_offers.of_preview(
            PreviewIn.offer_of(values),
            owner=values.get("owner"),
            group=values.get("group"),
            actor=user_of(request),
            now=database_now(),
        )
        return Response(preview_out(preview(offer, place=place)))


class _LeaseView(FastView):
    """Base of the reports on a lease."""

    callers = (JobTokenAuthentication(), PilotTokenAuthentication())
    permission_classes = (IsLeaseHolder,)


def _path_of(report: str) -> re.Pattern[str]:
    return re.compile(rf"{API_V1}matches/([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})/{report}/")


class LeaseStatusView(_LeaseView):
    """Status reports of jobs."""

    fast_path = _path_of("status")
    fast_body = StatusIn

    @extend_schema(
        operation_id="matches_status",
        summary="Report that a leased job runs or completes",
        tags=[Audience.PILOTS],
        request=StatusIn,
        responses={HTTPStatus.OK: AnswerOut, **error_responses(400, 401, 403, 404, 409, 415)},
    )
    def post(self, request: Request, match_id: UUID) -> Response:
        """Report Running or Completing; renews the lease."""
        return self.respond(request, str(match_id))

    @staticmethod
    def fast_answer(credential: LeaseCredential, values: dict[str, Any], match_id: str) -> FastAnswer:
        """Process the report."""
        lease = UUID(match_id)
        answer = leases.report_status(
            lease,
            of=pilot_of(credential, lease),
            status=JobStatus(values["status"]),
            minor=values.get("minor_status"),
            application=values.get("application_status"),
        )
        return FastAnswer(answer_out(answer, token=renewed_token(credential, lease)))


class HeartbeatView(_LeaseView):
    """Heartbeats of payloads."""

    most_body_bytes = _BYTES_WITH_TAILS
    fast_path = _path_of("heartbeat")
    fast_body = HeartbeatIn

    @extend_schema(
        operation_id="matches_heartbeat",
        summary="Renew a lease and fetch commands",
        tags=[Audience.PILOTS],
        request=HeartbeatIn,
        responses={HTTPStatus.OK: AnswerOut, **error_responses(400, 401, 403, 404, 409, 415)},
    )
    def post(self, request: Request, match_id: UUID) -> Response:
        """Renew the lease, report usage, and return commands such as kill, which are repeated until acknowledged."""
        return self.respond(request, str(match_id))

    @staticmethod
    def fast_answer(credential: LeaseCredential, values: dict[str, Any], match_id: str) -> FastAnswer:
        """Process the heartbeat."""
        lease = UUID(match_id)
        answer = leases.heartbeat(
            lease,
            of=pilot_of(credential, lease),
            usage=UsageIn.usage_of(values),
            tails=tails_of(values),
            acknowledged=values.get("acknowledged", ()),
        )
        return FastAnswer(answer_out(answer, token=renewed_token(credential, lease)))


class FinishView(_LeaseView):
    """Final reports on leases."""

    most_body_bytes = _BYTES_WITH_TAILS
    fast_path = _path_of("finish")
    fast_body = FinishIn

    @extend_schema(
        operation_id="matches_finish",
        summary="End a lease with the exit code of the job",
        tags=[Audience.PILOTS],
        request=FinishIn,
        responses={HTTPStatus.OK: FinishedOut, **error_responses(400, 401, 403, 404, 409, 415)},
    )
    def post(self, request: Request, match_id: UUID) -> Response:
        """End the lease: exit code 0 makes the job Done, 222 returns it to its task queue, any other fails it.

        Repeating it is harmless.
        """
        return self.respond(request, str(match_id))

    @staticmethod
    def fast_answer(credential: LeaseCredential, values: dict[str, Any], match_id: str) -> FastAnswer:
        """Process the end."""
        lease = UUID(match_id)
        status = leases.finish(
            lease,
            of=pilot_of(credential, lease),
            exit_code=values["exit_code"],
            minor=values.get("minor_status"),
            usage=UsageIn.usage_of(values["usage"]),
            output_sandbox=values.get("output_sandbox"),
            output_lost=bool(values.get("output_lost")),
            tails=tails_of(values),
            job_at_fault=values.get("fault") == FAULT_OF_JOB,
            supervisor_died=values.get("fault") == FAULT_OF_SUPERVISOR,
        )
        return FastAnswer({"status": status})
