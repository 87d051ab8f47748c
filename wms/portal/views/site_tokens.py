"""The tokens of a site, for its administrators and managers; and its failures as a file."""

from http import HTTPStatus

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from matching.api.site_failures import SiteFailureOut
from matching.queries.site_failures import failures_at
from resources.models import Site, SiteToken
from resources.queries.rights import require_may_change, sites_overseen_by
from resources.services.site_tokens import issue_site_token, revoke_site_token
from wms.accounts.domain import digest_of
from wms.accounts.services.second_factors import is_fresh, last_log_in
from wms.kernel.clock import current_time
from wms.kernel.compression import shows_secret
from wms.kernel.db import database_now
from wms.kernel.errors import WmsError
from wms.kernel.time_texts import duration
from wms.portal.exports import as_csv
from wms.portal.forms.sites import SiteTokenForm
from wms.portal.pages import refusals_as_404, show, signed_in

#: Tokens on the page: the newest.
_MOST_TOKENS = 200
#: Failures of a file.
_MOST_FAILURES = 10_000


@shows_secret
@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def site_tokens(request: HttpRequest, name: str) -> HttpResponse:
    """List the tokens of a site, and make a new one, which is shown only once; 404 for those who may not."""
    site, now, issued = _changeable(request, name), current_time(), None
    form = SiteTokenForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        if trouble := _why_log_in_again(request):
            form.add_error(None, trouble)
        else:
            purpose, expires_at = form.purpose_and_end(now=now)
            try:
                plain = issue_site_token(site, purpose=purpose, now=now, expires_at=expires_at)
            except WmsError as error:
                form.add_error(None, error.detail)
            else:
                issued = {"token": plain, "row": SiteToken.objects.get(digest=digest_of(plain))}
                form = SiteTokenForm()
    tokens = SiteToken.objects.filter(site=site).order_by("-pk")[:_MOST_TOKENS]
    context = {
        "name": site.name,
        "form": form,
        "issued": issued,
        "tokens": [{"row": token, "is_valid": token.is_valid(now=now)} for token in tokens],
    }
    return show(
        request,
        "portal/site_tokens.html",
        context,
        status=HTTPStatus.BAD_REQUEST if form.is_bound and form.errors else HTTPStatus.OK,
    )


@login_required
@require_POST
def revoke(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """Revoke a token of a site; 404 for those who may not."""
    token = get_object_or_404(SiteToken, site=_changeable(request, name), pk=pk)
    if trouble := _why_log_in_again(request):
        messages.error(request, trouble)
    else:
        revoke_site_token(token_id=token.pk, now=current_time())
        messages.success(request, f"Token {pk} is revoked. Pilots that were registered with it go on.")
    return redirect("portal:site-tokens", name=name)


@login_required
@require_safe
def failures_csv(request: HttpRequest, name: str) -> HttpResponseBase:
    """Send the failed attempts of the last day at a site as CSV, for those who oversee it."""
    user = signed_in(request)
    site = get_object_or_404(sites_overseen_by(user), name=name)
    failed = failures_at(site, user=user, now=database_now())[: _MOST_FAILURES + 1]
    return StreamingHttpResponse(
        as_csv(failed.iterator(chunk_size=1000), output=SiteFailureOut, most=_MOST_FAILURES),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="failures.csv"'},
    )


def _changeable(request: HttpRequest, name: str) -> Site:
    """Return a site that the reader may change.

    Raises:
        Http404: the reader may not.
    """
    user = signed_in(request)
    site = get_object_or_404(sites_overseen_by(user), name=name)
    with refusals_as_404():
        require_may_change(site, user)
    return site


def _why_log_in_again(request: HttpRequest) -> str:
    """Return why the session may not make or end tokens; empty: it may."""
    if is_fresh(last_log_in(request, signed_in(request)), now=current_time()):
        return ""
    age = duration(settings.WMS_FRESH_LOG_IN_S)
    return f"Tokens need a log-in of the last {age}: log out, log in, and repeat it."
