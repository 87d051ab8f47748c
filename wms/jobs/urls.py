"""Addresses of the jobs app below /api/v1/."""

from django.urls import URLPattern, path

from wms.jobs.api import (
    accounting,
    actions,
    changes,
    eligible,
    failures,
    pause_of_vo,
    pauses,
    replicas,
    sandboxes,
    submissions,
    suspensions,
    views,
    yaml_descriptions,
)

urlpatterns: list[URLPattern] = [
    path("accounting/", accounting.AccountingView.as_view(), name="accounting"),
    path("vos/<str:name>/pause/", pause_of_vo.PauseView.as_view(), name="vo-pause"),
    path("pause/", pauses.PauseOfAllView.as_view(), name="pause"),
    path("jobs/summary/", views.JobSummaryView.as_view(), name="jobs-summary"),
    path("jobs/changes/", changes.JobChangesView.as_view(), name="jobs-changes"),
    path("jobs/failures/", failures.JobFailuresView.as_view(), name="jobs-failures"),
    path("jobs/yaml/", yaml_descriptions.YamlView.as_view(), name="jobs-yaml"),
    path("jobs/bulk/", views.JobBulkView.as_view(), name="jobs-bulk"),
    path("jobs/<int:pk>/", views.JobView.as_view(), name="job"),
    path("jobs/<int:pk>/history/", views.JobHistoryView.as_view(), name="job-history"),
    path("jobs/<int:pk>/peek/", views.JobPeekView.as_view(), name="job-peek"),
    path("jobs/<int:pk>/output/", sandboxes.JobOutputView.as_view(), name="job-output"),
    path("jobs/<int:pk>/kill/", actions.JobKillView.as_view(), name="job-kill"),
    path("jobs/<int:pk>/reschedule/", actions.JobRescheduleView.as_view(), name="job-reschedule"),
    path("jobs/<int:pk>/delete/", actions.JobDeleteView.as_view(), name="job-delete"),
    path("jobs/<int:pk>/hold/", actions.JobHoldView.as_view(), name="job-hold"),
    path("jobs/<int:pk>/release/", actions.JobReleaseView.as_view(), name="job-release"),
    path("submissions/", submissions.SubmissionListView.as_view(), name="submissions"),
    path("submissions/<uuid:pk>/", submissions.SubmissionView.as_view(), name="submission"),
    path("submit-pools/eligible/", eligible.EligibleView.as_view(), name="submit-pools-eligible"),
    path("replicas/", replicas.ReplicaListView.as_view(), name="replicas"),
    path("replicas/remove/", replicas.ReplicaRemovalView.as_view(), name="replicas-remove"),
    path("users/<str:username>/suspension/", suspensions.SuspensionView.as_view(), name="user-suspension"),
    path("sandboxes/", sandboxes.SandboxUploadView.as_view(), name="sandboxes"),
]
