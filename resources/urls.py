"""Addresses of the resources app below /api/v1/."""

from django.urls import URLPattern, path

from resources.api import states, views
from resources.api.gateway import AdvertiserView

urlpatterns: list[URLPattern] = [
    path("sites/", views.SiteListView.as_view(), name="sites"),
    path("sites/<str:site>/state/", states.SiteStateView.as_view(), name="site-state"),
    path("sites/<str:site>/ces/<str:ce>/state/", states.CEStateView.as_view(), name="ce-state"),
    path(
        "sites/<str:site>/ces/<str:ce>/queues/<str:queue>/state/",
        states.QueueStateView.as_view(),
        name="queue-state",
    ),
    path("gateway/wms_advertise.py", AdvertiserView.as_view(), name="gateway-advertiser"),
]
