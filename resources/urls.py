"""Addresses of the resources app below /api/v1/."""

from django.urls import URLPattern, path

from resources.api import views
from resources.api.administrators import SiteAdministratorsView, SiteAdministratorView
from resources.api.gateway import AdvertiserView
from resources.api.tokens import SiteTokensView, SiteTokenView

urlpatterns: list[URLPattern] = [
    path("sites/", views.SiteListView.as_view(), name="sites"),
    path("sites/<str:site>/administrators/", SiteAdministratorsView.as_view(), name="site-administrators"),
    path("sites/<str:site>/administrators/<str:username>/", SiteAdministratorView.as_view(), name="site-administrator"),
    path("sites/<str:site>/tokens/", SiteTokensView.as_view(), name="site-tokens"),
    path("sites/<str:site>/tokens/<int:pk>/", SiteTokenView.as_view(), name="site-token"),
    path("gateway/wms_advertise.py", AdvertiserView.as_view(), name="gateway-advertiser"),
]
