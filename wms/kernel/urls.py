"""Addresses for monitoring."""

from django.urls import URLPattern, path

from wms.kernel import health

urlpatterns: list[URLPattern] = [
    path("healthz", health.alive, name="healthz"),
    path("readyz", health.ready, name="readyz"),
]
