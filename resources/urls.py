"""Addresses of the resources app below /api/."""

from django.urls import URLPattern, path

from resources.api import views

urlpatterns: list[URLPattern] = [
    path("sites/", views.SiteListView.as_view(), name="sites"),
]
