"""Addresses for those who watch the system."""

from django.urls import URLPattern, path

from wms.operations.exposition import metrics

urlpatterns: list[URLPattern] = [path("metrics", metrics, name="metrics")]
