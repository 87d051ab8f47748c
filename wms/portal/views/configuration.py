"""The page of the configuration as a file: download, and upload with the difference shown before it is applied."""

from base64 import b64encode
from collections.abc import Sequence
from http import HTTPStatus

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from wms.accounts.models import User
from wms.accounts.queries import is_manager
from wms.accounts.services.second_factors import is_fresh, last_log_in
from wms.configuration.problems import ConfigurationError
from wms.configuration.uploads import FileComparison, apply, compare, part_of
from wms.kernel.clock import current_time
from wms.kernel.errors import WmsError
from wms.portal.forms.configuration import ComparedFileForm, ConfigurationFileForm
from wms.portal.pages import show, signed_in

_TEMPLATE = "portal/configuration.html"


@never_cache
@login_required
@require_safe
def configuration_page(request: HttpRequest) -> HttpResponse:
    """Offer the download and the upload."""
    _manager(request)
    return show(request, _TEMPLATE, {"form": ConfigurationFileForm()})


@never_cache
@login_required
@require_safe
def configuration_file(request: HttpRequest) -> HttpResponse:
    """Send the part of the configuration that the reader may change."""
    return HttpResponse(
        part_of(_manager(request)),
        content_type="application/yaml; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="configuration.yaml"'},
    )


@never_cache
@login_required
@require_POST
def compare_configuration(request: HttpRequest) -> HttpResponse:
    """Show what a file would change; nothing is stored."""
    user, form = _manager(request), ConfigurationFileForm(request.POST, request.FILES)
    if not form.is_valid():
        return show(request, _TEMPLATE, {"form": form}, status=HTTPStatus.BAD_REQUEST)
    return _compared(request, user, form.source())


@never_cache
@login_required
@require_POST
def apply_configuration(request: HttpRequest) -> HttpResponse:
    """Apply a file that was compared; what is refused is shown with the present difference."""
    user, form, now = _manager(request), ComparedFileForm(request.POST), current_time()
    if not form.is_valid():
        return show(request, _TEMPLATE, {"form": ConfigurationFileForm()}, status=HTTPStatus.BAD_REQUEST)
    values = form.cleaned_data
    try:
        applied = apply(
            values["source"],
            user=user,
            now=now,
            version=values["version"],
            confirmed=request.POST.getlist("confirmed"),
            deletions_confirmed=values["delete"],
            is_log_in_fresh=is_fresh(last_log_in(request, user), now=now),
        )
    except ConfigurationError:
        return _compared(request, user, values["source"])
    except WmsError as error:
        return _compared(request, user, values["source"], refused=error.detail)
    count = len(applied.differences)
    messages.success(request, f"The file is applied: {count} {'change' if count == 1 else 'changes'}.")
    return redirect("portal:configuration")


def _compared(request: HttpRequest, user: User, source: bytes, *, refused: str = "") -> HttpResponse:
    now = current_time()
    problems: Sequence[object] = ()
    found: FileComparison | None = None
    try:
        found = compare(source, user=user, now=now)
    except ConfigurationError as error:
        problems = error.problems
    context = {
        "form": ConfigurationFileForm(),
        "problems": problems,
        "found": found,
        "refused": refused,
        "source": b64encode(source).decode(),
        "is_log_in_fresh": is_fresh(last_log_in(request, user), now=now),
    }
    status = HTTPStatus.BAD_REQUEST if problems else HTTPStatus.CONFLICT if refused else HTTPStatus.OK
    return show(request, _TEMPLATE, context, status=status)


def _manager(request: HttpRequest) -> User:
    """Return the reader; answer as if there were no page, unless the reader is a manager or an operator.

    Raises:
        Http404: the reader is not.
    """
    user = signed_in(request)
    if not is_manager(user):
        raise Http404
    return user
