"""Addresses of the resources app below /api/."""

from django.urls import URLPattern, path

from resources.api import replicas, views

urlpatterns: list[URLPattern] = [
    path("sites/", views.SiteListView.as_view(), name="sites"),
    path("replicas/", replicas.ReplicaListView.as_view(), name="replicas"),
    path("replicas/remove/", replicas.ReplicaRemovalView.as_view(), name="replicas-remove"),
]
