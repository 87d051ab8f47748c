"""The page of one job, and the files that it links to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from django.contrib.auth.decorators import login_required
from django.db.models import prefetch_related_objects
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from matching.domain.sentences import summary
from matching.queries.explain.explanation import state_of
from matching.queries.leases import leases_of_job
from pilots.models import Pilot, PilotLog
from pilots.queries import pilot_of_job, stored_log
from wms.accounts.models import User
from wms.jobs import queries
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.models import InputSandbox, Job, JobHistory, Sandbox
from wms.jobs.queries.retention import removed_of
from wms.jobs.services import sandbox_contents, sandboxes
from wms.jobs.sql.revisions import JobRevision
from wms.kernel.clock import current_time
from wms.kernel.errors import NotFoundError, UnsatisfiableRangeError, WmsError
from wms.kernel.file_answers import file_answer
from wms.portal import revisions
from wms.portal.live import live
from wms.portal.pages import LARGEST_ID, refusals_as_404, show, signed_in
from wms.portal.presentation.job_files import (
    MOST_SHOWN_BYTES,
    Archive,
    ArchiveView,
    archive_view,
    files_view,
    input_of,
    no_output,
    output_of,
    shown_file,
)
from wms.portal.presentation.job_output import output_view
from wms.portal.presentation.job_page import description_view, history_rows, job_view, pilot_log_view
from wms.portal.presentation.job_sentence import sentence_of
from wms.portal.presentation.job_tabs import Tab, tab_named
from wms.portal.presentation.job_timeline import timeline_of
from wms.portal.presentation.job_usage import usage_view
from wms.portal.presentation.pilots import pilot_fact
from wms.portal.presentation.statuses import Fact
from wms.portal.presentation.why import WhyView
from wms.portal.views.waiting import revision_of_waiting, why_of

#: Changes of one job that are read, the newest; a job that stalls again and again has many.
MOST_CHANGES: Final = 500
MOST_INPUTS: Final = 200
#: Characters of a pilot's log, whose page links to the whole.
LOG_LENGTH: Final = 32 * 1024
_WAITS: Final = frozenset({JobStatus.CHECKING, JobStatus.WAITING})
#: Seconds for which a page holds whose job has not changed: the time for which it runs, or is held back, has.
_TIMES_HOLD_S: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The data from which the tabs are read."""

    request: HttpRequest
    user: User
    job: Job
    history: Sequence[JobHistory]
    #: None: it is neither Waiting nor Checking.
    why: WhyView | None
    pilot: Fact


def revision_of_job(request: HttpRequest, pk: int) -> Sequence[object]:
    """Return values that change with the page of a job: one row, by its key.

    Heartbeats bring last lines of output and samples of usage with their time. A job that waits does so for reasons
    that others change.

    Raises:
        Http404: the user may not see the job.
    """
    user = signed_in(request)
    row = JobRevision.of(pk) if pk <= LARGEST_ID else None
    if row is None or not _is_seen_by(user, row, pk=pk):
        raise Http404
    period = int(current_time().timestamp()) // _TIMES_HOLD_S if row.status in _WAITS | LEASED else 0
    if row.status in _WAITS:
        return (*row, *revision_of_waiting(user), period)
    of_pilot: Sequence[object] = ()
    if row.pilot_id is not None and request.GET.get("tab") == Tab.PILOT:
        of_pilot = PilotLog.objects.filter(pk=row.pilot_id).values_list("received", "changed_at").first() or ()
    return (*row, *of_pilot, period)


def _is_seen_by(user: User, row: JobRevision, *, pk: int) -> bool:
    """Return whether the user may see the job; by its groups as of a moment ago first, which costs no statement."""
    return revisions.sees(user, row) or Job.objects.visible_to(user).filter(pk=pk).exists()


@login_required
@require_safe
@live(revision_of_job)
def job_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one job with one of its tabs; 404 if the user may not see it."""
    user, now = signed_in(request), current_time()
    job = get_object_or_404(queries.with_retries(queries.in_list(Job.objects.visible_to(user))), pk=pk)
    if job.status == JobStatus.FAILED:
        prefetch_related_objects([job], "output_tails")
    tab = tab_named(request.GET.get("tab", ""), job=job)
    task_queue_id: int | None = vars(job)["task_queue_id"]  # an annotation
    why = why_of(request, job, task_queue_id=task_queue_id)
    # Uses index: jobs_jobhistory_pkey
    history = list(queries.history(job).reverse()[:MOST_CHANGES])[::-1]
    pilot = pilot_fact(pilot_of_job(job.pilot_id, actor=user))
    sentence = sentence_of(job, why=why.text.summary if why and tab is not Tab.WHY else "", now=now)
    if sentence.see is Tab.ERRORS:
        sentence = replace(sentence, see=tab_named("", job=job))
    view = job_view(
        job,
        task_queue_id=task_queue_id,
        pilot=pilot,
        sentence=sentence,
        timeline=timeline_of(job, history=history, leases=leases_of_job(job), now=now),
        removed_after_days=removed_of(job.vo_id) if job.ended_at else {},
        tab=tab,
    )
    reading = _Reading(request=request, user=user, job=job, history=history, why=why, pilot=pilot)
    context = {"job": view, "tab": tab, "tab_template": f"portal/job_tabs/{_TEMPLATES[tab]}.html"}
    return show(request, "portal/job.html", {**context, **_READERS[tab](reading)})


# ---- the tabs --------------------------------------------------------------------------------------------------------


def _output(reading: _Reading) -> Mapping[str, object]:
    return {"output": output_view(reading.job, tails=queries.outputs_of(reading.job), tab=Tab.OUTPUT)}


def _errors(reading: _Reading) -> Mapping[str, object]:
    return {"output": output_view(reading.job, tails=queries.outputs_of(reading.job), tab=Tab.ERRORS)}


def _files(reading: _Reading) -> Mapping[str, object]:
    job, query = reading.job, reading.request.GET
    name, reference = query.get("file", ""), query.get("input", "")
    output = ArchiveView(name="the output", problem=no_output(job))
    if job.output_sandbox is not None:
        output = _browsed(output_of(job), job.output_sandbox, name="" if reference else name)
    browsed = _browsed_input(job, reference=reference, name=name) if reference else None
    inputs = InputSandbox.objects.filter(job=job).select_related("sandbox").order_by("file_name", "pk")[:MOST_INPUTS]
    return {"files": files_view(output=output, inputs=list(inputs), browsed=browsed)}


def _browsed_input(job: Job, *, reference: str, name: str) -> ArchiveView:
    try:
        row = sandboxes.input_archive_of(job, digest=reference)
    except NotFoundError as error:
        return ArchiveView(name="the input", problem=error.detail)
    return _browsed(input_of(row), row.sandbox, name=name)


def _browsed(archive: Archive, sandbox: Sandbox, *, name: str) -> ArchiveView:
    """Return the files of an archive, with the one of this name in place."""
    try:
        contents = sandbox_contents.contents_of(sandbox)
    except WmsError as error:
        return ArchiveView(name=archive.name, problem=error.detail)
    shown, not_shown = None, ""
    if name:
        try:
            file = sandbox_contents.file_named(sandbox, name=name)
            start = sandbox_contents.start_of(sandbox, file=file, most_bytes=MOST_SHOWN_BYTES)
            shown = shown_file(archive, file=file, start=start)
        except NotFoundError as error:
            not_shown = error.detail
    return archive_view(archive, contents=contents, shown=shown, not_shown=not_shown)


def _why(reading: _Reading) -> Mapping[str, object]:
    return {"why": reading.why, "not_waiting": "" if reading.why else summary(state_of(reading.job))}


def _resources(reading: _Reading) -> Mapping[str, object]:
    return {"usage": usage_view(reading.job, samples=queries.samples_of(reading.job))}


def _description(reading: _Reading) -> Mapping[str, object]:
    return {"description": description_view(reading.job)}


def _history(reading: _Reading) -> Mapping[str, object]:
    is_cut = len(reading.history) == MOST_CHANGES
    return {"history": history_rows(reading.history), "newest_changes": MOST_CHANGES if is_cut else None}


def _pilot(reading: _Reading) -> Mapping[str, object]:
    visible = Pilot.objects.visible_to(reading.user)
    pilot = None if reading.job.pilot_id is None else visible.filter(pk=reading.job.pilot_id).first()
    log = None if pilot is None else stored_log(pilot, newest=LOG_LENGTH)
    return {"pilot_log": pilot_log_view(reading.pilot, log=log)}


_READERS: Final[Mapping[Tab, Callable[[_Reading], Mapping[str, object]]]] = MappingProxyType(
    {
        Tab.OUTPUT: _output,
        Tab.ERRORS: _errors,
        Tab.FILES: _files,
        Tab.WHY: _why,
        Tab.RESOURCES: _resources,
        Tab.DESCRIPTION: _description,
        Tab.HISTORY: _history,
        Tab.PILOT: _pilot,
    }
)
#: {tab: its template}.
_TEMPLATES: Final[Mapping[Tab, str]] = MappingProxyType({**{tab: str(tab) for tab in Tab}, Tab.ERRORS: "output"})


# ---- files -----------------------------------------------------------------------------------------------------------


@login_required
@require_safe
def job_file(request: HttpRequest, pk: int, name: str) -> HttpResponseBase:
    """Download one file of the output; 404 if there is none of that name, or the user may not see the job."""
    visible = Job.objects.visible_to(signed_in(request)).select_related("output_sandbox")
    job = get_object_or_404(visible, pk=pk)
    with refusals_as_404():
        return _file_in(sandboxes.output_to_fetch(job), name=name)


@login_required
@require_safe
def job_input_file(request: HttpRequest, pk: int, digest: str, name: str) -> HttpResponseBase:
    """Download one file of an input that is an archive; 404 as ``job_file`` and ``job_input``."""
    job = get_object_or_404(Job.objects.visible_to(signed_in(request)), pk=pk)
    with refusals_as_404():
        return _file_in(sandboxes.input_archive_of(job, digest=digest).sandbox, name=name)


@login_required
@require_safe
def job_input(request: HttpRequest, pk: int, digest: str) -> HttpResponseBase:
    """Download one input sandbox, by its digest; 404 if it is none of the job's, or the user may not see the job."""
    job = get_object_or_404(Job.objects.visible_to(signed_in(request)), pk=pk)
    try:
        row = sandboxes.input_sandbox_of(job, digest=digest)
        content = sandboxes.open_content(row.sandbox)
    except (WmsError, FileNotFoundError) as error:
        raise Http404("The job has no such input, or it is no longer stored.") from error
    try:
        answer = file_answer(request, content, version=row.sandbox.digest, size_bytes=row.sandbox.size_bytes)
    except UnsatisfiableRangeError as error:
        headers = {"Content-Range": f"bytes */{error.size_bytes}"}
        return HttpResponse(status=HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers=headers)
    return _as_attachment(answer, name=row.file_name)


def _file_in(sandbox: Sandbox, *, name: str) -> HttpResponseBase:
    """Return the download of one file of an archive.

    Raises:
        WmsError: there is none of that name, or the archive cannot be read safely.
    """
    file = sandbox_contents.file_named(sandbox, name=name)
    response = StreamingHttpResponse(sandbox_contents.FileStream(sandbox, file=file))
    response.headers["Content-Length"] = str(file.size_bytes)
    return _as_attachment(response, name=file.name.rpartition("/")[2])


def _as_attachment(response: HttpResponseBase, *, name: str) -> HttpResponseBase:
    """Make browsers save a payload's content whatever it is; shown in our origin, it could act as the user."""
    response.headers["Content-Type"] = "application/octet-stream"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response.headers["Content-Disposition"] = (
        content_disposition_header(as_attachment=True, filename=name) or "attachment"
    )
    return response
