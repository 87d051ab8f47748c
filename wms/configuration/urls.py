"""Addresses of the configuration file below /api/v1/."""

from django.urls import URLPattern, path

from wms.configuration.api.views import ConfigurationApplyView, ConfigurationFileView, ConfigurationPreviewView

urlpatterns: list[URLPattern] = [
    path("configuration/", ConfigurationFileView.as_view(), name="configuration"),
    path("configuration/preview/", ConfigurationPreviewView.as_view(), name="configuration-preview"),
    path("configuration/apply/", ConfigurationApplyView.as_view(), name="configuration-apply"),
]
