"""POST /api/v1/jobs/rehearsal/: the answer that a submission would get, and the queues that its jobs fit."""

from base64 import b64decode
from collections.abc import Mapping
from typing import Final

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from matching.domain.findings import Exclusion, Fit
from matching.domain.sentences import fit_in_words
from matching.services.rehearsal import KindOfJobs, Rehearsal, rehearse
from wms.accounts.api.permissions import IsUser, user_of
from wms.accounts.domain import TokenScope
from wms.jobs.api.bodies import SubmissionBody
from wms.jobs.api.outputs import FindingOut
from wms.jobs.domain.archives import flaw_of_name
from wms.jobs.domain.description import InvalidDescriptionError
from wms.jobs.domain.request import parse_submission
from wms.jobs.services.sandboxes import DIGEST, NamedSandbox, coming
from wms.jobs.services.submission_limits import submission_in_flight
from wms.kernel.clock import current_time
from wms.kernel.rest import error_responses
from wms.kernel.rest.audience import Audience
from wms.wire.executables import HEAD_BYTES
from wms.wire.protocol import SANDBOX_PREFIX

#: Files that a rehearsal may name before they are uploaded.
MOST_FILES: Final = 1000
#: Fields of its body beside those of a submission.
_OF_FILES: Final = ("coming_files", "coming_contents")


class ComingContentBody(serializers.Serializer[object]):
    """The size and the beginning of a file that is not uploaded yet."""

    size_bytes = serializers.IntegerField(min_value=0, required=False, help_text="Its size.")
    head = serializers.CharField(
        required=False, allow_blank=True, help_text=f"Its first {HEAD_BYTES} bytes, or all of fewer, in Base64."
    )


class RehearsalBody(SubmissionBody):
    """Body of a submission, and the files that are not uploaded yet."""

    coming_files = serializers.DictField(
        child=serializers.CharField(max_length=255),
        required=False,
        help_text="{sha256:…: file name} of sandboxes that are uploaded only with the submission.",
    )
    coming_contents = serializers.DictField(
        child=ComingContentBody(),
        required=False,
        help_text="{sha256:…: size and beginning} of these files, by which they are checked as uploaded ones are.",
    )


class ExclusionOut(serializers.Serializer[Exclusion]):
    """One condition that excludes queues."""

    condition = serializers.CharField(
        help_text="Name of the condition of the match; grid_middlewares; or closed: the queue takes no jobs at present."
    )
    queues = serializers.IntegerField(help_text="Number of queues that fail it.")
    sites = serializers.ListField(
        child=serializers.CharField(), help_text="Sites of which every queue fails it, sorted."
    )
    detail = serializers.CharField(help_text="Its requirement, and what the queues offer; may be empty.")
    why = serializers.CharField(help_text="The same, or why the queues are closed or of another middleware.")


class FitOut(serializers.Serializer[Fit]):
    """The queues that jobs fit by the present configuration; throttles and limits are left out."""

    queues = serializers.IntegerField(help_text="Queues at the sites that serve the VO.")
    fitting = serializers.IntegerField(help_text="Those that would take the jobs.")
    closed = serializers.IntegerField(help_text="Those that they fit, but that take no jobs at present.")
    sites = serializers.ListField(
        child=serializers.CharField(), help_text="Sites with queues that would take the jobs, sorted."
    )
    exclusions = ExclusionOut(many=True, help_text="Conditions that exclude queues, those with most queues first.")
    never = serializers.CharField(help_text="Why no pilot gets the jobs anywhere; empty: some may.")


class KindOfJobsOut(serializers.Serializer[KindOfJobs]):
    """Jobs that would enter the same task queue."""

    jobs = serializers.SerializerMethodField(help_text="Number of these jobs.")
    first = serializers.SerializerMethodField(help_text="Position of the first of them in the request, from 0.")
    summary = serializers.SerializerMethodField(
        help_text='The queues that they fit, as the end of a sentence: "fit 2 of 3 queues, at LCG.CERN.ch".'
    )
    fit = FitOut(
        allow_null=True,
        help_text="The queues that they fit; null: they would be Checking, because no site where they may run holds "
        "their input data.",
    )

    def get_jobs(self, kind: KindOfJobs) -> int:
        """Return the number of the jobs."""
        return len(kind.positions)

    def get_summary(self, kind: KindOfJobs) -> str:
        """Return which queues they fit."""
        return fit_in_words(kind.fit, jobs=len(kind.positions))

    def get_first(self, kind: KindOfJobs) -> int:
        """Return the position of the first."""
        return kind.positions[0]


class RehearsalOut(serializers.Serializer[Rehearsal]):
    """The answer that a submission would get."""

    jobs = serializers.IntegerField(help_text="Number of jobs.")
    warnings = serializers.ListField(child=serializers.CharField(), help_text="Those that the submission would get.")
    findings = FindingOut(many=True, help_text="Those of the warnings that have a place in a description or a file.")
    kinds = KindOfJobsOut(many=True, help_text="Jobs with the same requirements; those with most jobs first.")
    uncompared = serializers.SerializerMethodField(
        help_text="Number of jobs that were not compared with the queues, because their requirements are so many."
    )

    def get_uncompared(self, rehearsal: Rehearsal) -> int:
        """Return the number of jobs of all kinds that were not compared."""
        return sum(rehearsal.uncompared)


class RehearsalView(APIView):
    """Rehearsal of a submission."""

    #: Bytes: as a submission.
    most_body_bytes = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    permission_classes = (IsUser,)
    token_scope = TokenScope.SUBMIT

    @extend_schema(
        operation_id="jobs_rehearse",
        summary="Show what a submission would be answered, and the queues that its jobs fit",
        tags=[Audience.USERS],
        request=RehearsalBody,
        responses={200: RehearsalOut, **error_responses(400, 401, 403, 413, 415, 429)},
    )
    def post(self, request: Request) -> Response:
        """Check the body of a submission and store nothing; what a submission would refuse is refused alike.

        Quotas are not compared.
        """
        user, body = user_of(request), request.data
        with submission_in_flight(user, spared=1):
            files: Mapping[str, NamedSandbox] = {}
            if isinstance(body, Mapping) and ("coming_files" in body or "coming_contents" in body):
                files = _coming_files(body.get("coming_files", {}), body.get("coming_contents", {}))
                body = {name: value for name, value in body.items() if name not in _OF_FILES}
            rehearsal = rehearse(parse_submission(body), owner=user, coming_files=files, now=current_time())
        if rehearsal.errors:
            raise InvalidDescriptionError({field: list(sentences) for field, sentences in rehearsal.errors.items()})
        return Response(RehearsalOut(rehearsal).data)


def _coming_files(given: object, contents: object) -> Mapping[str, NamedSandbox]:
    """Return {reference: file that is not uploaded yet}.

    Raises:
        InvalidDescriptionError: these are no such mappings.
    """
    if not isinstance(contents, Mapping):
        raise InvalidDescriptionError({"coming_contents": ["coming_contents must be an object."]})
    if not isinstance(given, Mapping) or len(given) > MOST_FILES:
        sentence = f"coming_files must be an object of at most {MOST_FILES} file names by sha256:…."
        raise InvalidDescriptionError({"coming_files": [sentence]})
    files = {}
    for reference, name in given.items():
        if not DIGEST.match(str(reference).removeprefix(SANDBOX_PREFIX)) or not isinstance(name, str):
            sentence = f"Name each file by {SANDBOX_PREFIX} and 64 hexadecimal digits, and its name as text."
            raise InvalidDescriptionError({"coming_files": [sentence]})
        if flaw := flaw_of_name(name):
            raise InvalidDescriptionError({"coming_files": [f"The name of a file {flaw}."]})
        size_bytes, head = _content(contents.get(reference, {}))
        files[str(reference)] = coming(name, size_bytes=size_bytes, head=head)
    return files


def _content(given: object) -> tuple[int | None, bytes | None]:
    """Return size and first bytes of a file that is not uploaded yet; None: not given.

    Raises:
        InvalidDescriptionError: they are no number and no Base64.
    """
    size_bytes, head = (given.get("size_bytes"), given.get("head")) if isinstance(given, Mapping) else ("", None)
    try:
        if (size_bytes is None or (type(size_bytes) is int and size_bytes >= 0)) and isinstance(head, str | None):
            return size_bytes, None if head is None else b64decode(head, validate=True)[:HEAD_BYTES]
    except ValueError:  # binascii.Error is one
        pass
    sentence = "Give size_bytes as a whole number, and head as Base64."
    raise InvalidDescriptionError({"coming_contents": [sentence]})
