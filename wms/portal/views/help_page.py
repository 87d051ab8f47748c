"""The page of help: the first job, the command line, recipes, and what to do when a job waits or fails."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from wms.accounts.queries import groups_of
from wms.portal.pages import show, signed_in
from wms.portal.presentation.recipes import RECIPES


@login_required
@require_safe
def help_page(request: HttpRequest) -> HttpResponse:
    """Show how to begin, with the address of this server filled in."""
    context = {
        "server": request.build_absolute_uri("/").rstrip("/"),
        "recipes": list(RECIPES.values()),
        "has_group": bool(groups_of(signed_in(request))),
    }
    return show(request, "portal/help.html", context)
