"""All addresses of the system."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from wms.kernel import handlers

handler400 = handlers.bad_request
handler403 = handlers.forbidden
handler404 = handlers.not_found
handler500 = handlers.server_error

urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/", admin.site.urls),
    path("api/", include("wms.accounts.urls")),
    path("api/", include("resources.urls")),
    path("api/", include("taskqueues.urls")),
    path("api/", include("wms.jobs.urls")),
    path("api/", include("pilots.urls")),
    path("api/", include("matching.urls")),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("api/docs/", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="docs"),
    path("", include("wms.kernel.urls")),
]
