"""All addresses of the system."""

from typing import Final

from csp.decorators import csp_update
from django.contrib import admin
from django.contrib.auth.decorators import login_required
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularSwaggerSplitView

from matching.urls import urlpatterns as of_matching
from pilots.urls import urlpatterns as of_pilots
from wms.kernel import handlers
from wms.kernel.handlers import API
from wms.kernel.rest.programs import ClientView
from wms.kernel.rest.views import ErrorListView, ErrorView, SchemaView, VersionView
from wms.portal.views.log_in import admin_log_in
from wms.wire.protocol import API_V1

handler400 = handlers.bad_request
handler403 = handlers.forbidden
handler404 = handlers.not_found
handler500 = handlers.server_error

#: Swagger's page has an inline style, and pictures in its style sheet.
docs_csp = csp_update({"style-src": ["'self'", "'unsafe-inline'"], "img-src": ["'self'", "data:"]})

#: As patterns say it: without the first slash.
REST: Final = API_V1.removeprefix("/")

#: Names of the addresses that agents of the version before /api/v1/ call, and that start them (ADR 52).
_OF_OLD_AGENTS: Final = frozenset(
    {
        *("matches", "match-status", "match-heartbeat", "match-finish"),
        *("match-sandboxes", "match-sandbox", "match-replicas"),
        *("pilot-agent", "pilot-script", "pilot-register", "pilot-config", "pilot-report", "pilot-log"),
        "submit-pools",
    }
)
#: Refused by wms.kernel.middleware.StrictRequests without WMS_OLD_AGENT_ADDRESSES. In a namespace, so that ``reverse``
#: returns the others.
_old_agent_addresses = [each for each in (*of_matching, *of_pilots) if each.name in _OF_OLD_AGENTS]

admin.autodiscover()
urlpatterns: list[URLPattern | URLResolver] = [
    # The most frequent first: addresses are tried one after another.
    path(REST, include("matching.urls")),
    path(REST, include("pilots.urls")),
    path(REST, include("wms.jobs.urls")),
    path(REST, include("taskqueues.urls")),
    path(REST, include("resources.urls")),
    path(REST, include("wms.accounts.urls")),
    path(REST, include("wms.configuration.urls")),
    path(REST, VersionView.as_view(), name="version"),
    path(f"{REST}client/wms.pyz", ClientView.as_view(), name="client-program"),
    path(f"{REST}schema/", SchemaView.as_view(), name="schema"),
    path(f"{REST}docs/", docs_csp(SpectacularSwaggerSplitView.as_view(url_name="schema")), name="docs"),
    path(f"{REST}errors/", ErrorListView.as_view(), name="error-list"),
    path(f"{REST}errors/<slug:code>/", ErrorView.as_view(), name="error-page"),
    path(API.removeprefix("/"), include((_old_agent_addresses, "old-agents"))),
    path("admin/login/", admin_log_in),
    path("admin/password_change/", login_required(RedirectView.as_view(pattern_name="portal:password"))),
    path("admin/", admin.site.urls),
    path("", include("wms.kernel.urls")),
    path("", include("wms.operations.urls")),
    path("", include("wms.portal.urls")),
    path("", include("wms.portal.second_factors")),
]
