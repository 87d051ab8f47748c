"""Addresses of the resources app below /api/v1/."""

from django.urls import URLPattern, path

from resources.api import views
from resources.api.gateway import AdvertiserView

urlpatterns: list[URLPattern] = [
    path("sites/", views.SiteListView.as_view(), name="sites"),
    path("gateway/wms_advertise.py", AdvertiserView.as_view(), name="gateway-advertiser"),
]
