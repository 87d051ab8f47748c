from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from django.urls import URLPattern, path

from matching.api.advertisements import AdvertisementsView
from matching.api.data import LeaseOutputsView, LeaseReplicasView
from matching.api.downtimes import DowntimeImportView, DowntimeListView, DowntimeView
from matching.api.explain import ExplainSelectionView, ExplainView
from matching.api.leases import LeaseListView
from matching.api.pilot_efficiency import PilotSummaryView
from matching.api.rehearsal import RehearsalView
from matching.api.retrying import RetryView
from matching.api.sandboxes import LeaseSandboxesView, LeaseSandboxView
from matching.api.shares import GroupSharesView
from matching.api.site_failures import SiteFailuresView
from matching.api.states import CEStateView, QueueStateView, SiteStateView
from matching.api.submission import JobsView
from matching.api.views import FinishView, HeartbeatView, LeaseStatusView, MatchesView, PreviewView
from wms.kernel.fast.views import FastView

#: By the names of their addresses: ordinary requests to these are answered before the frameworks (docs/architecture.md,
#: Answering machines fast).
fast_views: Final[Mapping[str, type[FastView]]] = MappingProxyType(
    {
        "matches": MatchesView,
        "match-heartbeat": HeartbeatView,
        "match-status": LeaseStatusView,
        "match-finish": FinishView,
    }
)
urlpatterns: list[URLPattern] = [
    path("matches/", MatchesView.as_view(), name="matches"),
    path("matches/preview/", PreviewView.as_view(), name="match-preview"),
    path("matches/<uuid:match_id>/status/", LeaseStatusView.as_view(), name="match-status"),
    path("matches/<uuid:match_id>/heartbeat/", HeartbeatView.as_view(), name="match-heartbeat"),
    path("matches/<uuid:match_id>/finish/", FinishView.as_view(), name="match-finish"),
    path("matches/<uuid:match_id>/sandboxes/", LeaseSandboxesView.as_view(), name="match-sandboxes"),
    path("matches/<uuid:match_id>/sandboxes/<str:digest>/", LeaseSandboxView.as_view(), name="match-sandbox"),
    path("sites/<str:site>/state/", SiteStateView.as_view(), name="site-state"),
    path("sites/<str:site>/ces/<str:ce>/state/", CEStateView.as_view(), name="ce-state"),
    path("sites/<str:site>/ces/<str:ce>/queues/<str:queue>/state/", QueueStateView.as_view(), name="queue-state"),
    path("sites/<str:name>/advertisements/", AdvertisementsView.as_view(), name="site-advertisements"),
    path("matches/<uuid:match_id>/outputs/", LeaseOutputsView.as_view(), name="match-outputs"),
    path("matches/<uuid:match_id>/replicas/", LeaseReplicasView.as_view(), name="match-replicas"),
    path("sites/<str:site>/failures/", SiteFailuresView.as_view(), name="site-failures"),
    path("downtimes/", DowntimeListView.as_view(), name="downtimes"),
    path("downtimes/import/", DowntimeImportView.as_view(), name="downtimes-import"),
    path("downtimes/<int:pk>/", DowntimeView.as_view(), name="downtime"),
    path("leases/", LeaseListView.as_view(), name="leases"),
    path("groups/<str:name>/shares/", GroupSharesView.as_view(), name="group-shares"),
    path("pilots/summary/", PilotSummaryView.as_view(), name="pilot-summary"),
    path("jobs/", JobsView.as_view(), name="jobs"),
    path("jobs/retry/", RetryView.as_view(), name="jobs-retry"),
    path("jobs/rehearsal/", RehearsalView.as_view(), name="jobs-rehearsal"),
    path("jobs/explain/", ExplainSelectionView.as_view(), name="jobs-explain"),
    path("jobs/<int:pk>/explain/", ExplainView.as_view(), name="job-explain"),
]
