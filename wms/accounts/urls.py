"""Addresses of the accounts app below /api/v1/."""

from django.urls import URLPattern, path

from wms.accounts.api import history, managers, members, oidc, tokens, views

urlpatterns: list[URLPattern] = [
    path("auth/token/", views.TokenView.as_view(), name="auth-token"),
    path("auth/oidc/", oidc.ProvidersView.as_view(), name="auth-oidc"),
    path("auth/oidc/<str:provider>/device/", oidc.DeviceLogInView.as_view(), name="auth-oidc-device"),
    path("auth/oidc/<str:provider>/token/", oidc.DeviceTokenView.as_view(), name="auth-oidc-token"),
    path("auth/tokens/", views.TokenListView.as_view(), name="auth-tokens"),
    path("auth/tokens/<int:pk>/", views.TokenRevocationView.as_view(), name="auth-token-revoke"),
    path("auth/me/", views.ProfileView.as_view(), name="auth-me"),
    path("auth/revoke/", views.RevokeView.as_view(), name="auth-revoke"),
    path("groups/", views.GroupListView.as_view(), name="groups"),
    path("groups/<str:name>/members/", members.GroupMembersView.as_view(), name="group-members"),
    path("groups/<str:name>/members/<str:username>/", members.GroupMemberView.as_view(), name="group-member"),
    path("users/<str:username>/tokens/", tokens.UserTokensView.as_view(), name="user-tokens"),
    path("users/<str:username>/tokens/<int:pk>/", tokens.UserTokenView.as_view(), name="user-token"),
    path("history/", history.HistoryView.as_view(), name="history"),
    path("vos/<str:name>/managers/", managers.VOManagersView.as_view(), name="vo-managers"),
    path("vos/<str:name>/managers/<str:username>/", managers.VOManagerView.as_view(), name="vo-manager"),
]
