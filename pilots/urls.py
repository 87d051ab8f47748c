"""Addresses of the pilots, below /api/v1/."""

from django.urls import URLPattern, path

from pilots.api.agent import AgentView, ScriptView
from pilots.api.bulk import PilotBulkView
from pilots.api.health import AskAgainView, BlackHoleListView, CEHealthListView, LiftView
from pilots.api.lists import PilotListView
from pilots.api.logs import LogView, PilotLogView
from pilots.api.submit_pools import SubmitPoolsView
from pilots.api.views import ConfigurationView, RegisterView, ReportView

urlpatterns: list[URLPattern] = [
    path("black-holes/", BlackHoleListView.as_view(), name="black-holes"),
    path("black-holes/<int:pk>/lift/", LiftView.as_view(), name="black-hole-lift"),
    path("ces/", CEHealthListView.as_view(), name="ces"),
    path("pilots/", PilotListView.as_view(), name="pilots"),
    path("pilots/agent.pyz", AgentView.as_view(), name="pilot-agent"),
    path("pilots/pilot.sh", ScriptView.as_view(), name="pilot-script"),
    path("pilots/bulk/", PilotBulkView.as_view(), name="pilots-bulk"),
    path("pilots/config/", ConfigurationView.as_view(), name="pilot-config"),
    path("pilots/log/", LogView.as_view(), name="pilot-log"),
    path("pilots/<int:pk>/log/", PilotLogView.as_view(), name="pilot-log-read"),
    path("pilots/register/", RegisterView.as_view(), name="pilot-register"),
    path("pilots/report/", ReportView.as_view(), name="pilot-report"),
    path("sites/<str:site>/ces/<str:ce>/ask-again/", AskAgainView.as_view(), name="ce-ask-again"),
    path("submit-pools/", SubmitPoolsView.as_view(), name="submit-pools"),
]
