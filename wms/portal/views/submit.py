"""Submission of jobs: by a form, or by a JDL text."""

from collections.abc import Callable
from functools import wraps
from http import HTTPStatus

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods

from matching.services.submission import submit
from wms.accounts.models import User
from wms.accounts.queries import groups_of
from wms.jobs.domain.request import parse_submission
from wms.jobs.services import sandboxes
from wms.jobs.services.concurrent_submissions import submission_in_flight
from wms.jobs.services.submission import SubmissionResult
from wms.kernel.errors import TooManyError, WmsError
from wms.kernel.rates import Rate, count
from wms.portal.forms.submission import MAX_FILES, JdlForm, KeptFile, SimpleForm
from wms.portal.pages import show, signed_in

#: Bytes of multipart's headers, and of the other fields of the form.
ENVELOPE_BYTES = 1024 * 1024
#: Size of all files of one form, in sandboxes of the largest size; more belong into several, or onto a storage element.
LARGEST_SANDBOXES = 5

View = Callable[[HttpRequest], HttpResponse]


def bounded(view: View) -> View:
    """Refuse a too large body, or too many submissions, before the body is read; allow only users with their forms."""
    inner = csrf_protect(view)

    @csrf_exempt  # NB: `inner` checks the token instead: the middleware would read the whole body first
    @login_required
    @wraps(view)
    def outer(request: HttpRequest) -> HttpResponse:
        most = LARGEST_SANDBOXES * settings.WMS_SANDBOX_MAX_BYTES + ENVELOPE_BYTES
        announced = str(request.META.get("CONTENT_LENGTH") or "0")
        if announced.isdecimal() and int(announced) > most:
            context = {"most_mb": most // (1024 * 1024)}
            return show(request, "portal/too_large.html", context, status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if request.method != "POST":
            return inner(request)
        user = signed_in(request)
        try:
            count(Rate.SUBMISSIONS, user_id=user.pk)
            with submission_in_flight(user):
                return inner(request)
        except TooManyError as error:
            context = {"sentence": error.detail}
            answer = show(request, "portal/too_many.html", context, status=HTTPStatus.TOO_MANY_REQUESTS)
            answer.headers["Retry-After"] = str(error.retry_after_s)
            return answer

    outer.most_body_bytes = LARGEST_SANDBOXES * settings.WMS_SANDBOX_MAX_BYTES + ENVELOPE_BYTES  # type: ignore[attr-defined]
    return outer


@require_http_methods(["GET", "HEAD", "POST"])
@bounded
def submit_form(request: HttpRequest) -> HttpResponse:
    """Show the form, or submit its job."""
    user = signed_in(request)
    groups = groups_of(user)
    if request.method != "POST":
        return show(request, "portal/submit.html", {"form": SimpleForm(groups=groups)})
    form = SimpleForm(request.POST, request.FILES, groups=groups)
    if form.is_valid():
        try:
            parse_submission(form.body())  # before its files are stored
            form.keep(_uploaded(form, user))
            result = submit(parse_submission(form.body()), owner=user, now=timezone.now())
        except WmsError as error:
            form.refuse(error)
        else:
            return _to_new_jobs(request, result)
    return show(request, "portal/submit.html", {"form": form}, status=HTTPStatus.BAD_REQUEST)


@require_http_methods(["GET", "HEAD", "POST"])
@bounded
def submit_jdl(request: HttpRequest) -> HttpResponse:
    """Show the text area, or submit its text."""
    user = signed_in(request)
    groups = groups_of(user)
    if request.method != "POST":
        return show(request, "portal/submit_jdl.html", {"form": JdlForm(groups=groups)})
    form = JdlForm(request.POST, groups=groups)
    if form.is_valid():
        try:
            result = submit(parse_submission(form.body()), owner=user, now=timezone.now())
        except WmsError as error:
            form.refuse(error)
        else:
            return _to_new_jobs(request, result)
    return show(request, "portal/submit_jdl.html", {"form": form}, status=HTTPStatus.BAD_REQUEST)


def _uploaded(form: SimpleForm, user: User) -> list[KeptFile]:
    """Store the files of the form, and return them after the kept ones."""
    files = form.kept_files
    for file in form.cleaned_data["input_files"]:
        named = sandboxes.upload(file, file_name=file.name, owner=user, now=timezone.now())
        files.append(KeptFile(sandboxes.reference_of(named.sandbox), named.file_name))
    return list(dict.fromkeys(files))[:MAX_FILES]


def _to_new_jobs(request: HttpRequest, result: SubmissionResult) -> HttpResponse:
    """Lead to the page of the submission, which shows its warnings."""
    jobs = len(result.jobs)
    messages.success(request, f"{jobs} job{'s' * (jobs != 1)} submitted.")
    return redirect("portal:submission", pk=result.job_group_id)
