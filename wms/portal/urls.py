"""Addresses of the portal."""

from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, path
from django.views.generic import RedirectView

from wms.portal.views import account, actions, job, jobs, pilots, plots, submit
from wms.portal.views.log_in import LogInView

app_name = "portal"
urlpatterns: list[URLPattern] = [
    path("", RedirectView.as_view(pattern_name="portal:jobs"), name="home"),
    path("accounts/login/", LogInView.as_view(), name="log-in"),
    path("accounts/logout/", LogoutView.as_view(), name="log-out"),
    path("accounts/password/", account.PasswordView.as_view(), name="password"),
    path("accounts/password/link/", account.set_password_by_link, name="password-by-link"),
    path("accounts/password/link/<str:secret>/", account.open_password_link, name="password-link"),
    path("accounts/tokens/", account.tokens, name="tokens"),
    path("accounts/tokens/<int:pk>/revoke/", account.revoke_token, name="token-revoke"),
    path("accounts/groups/", account.groups, name="groups"),
    path("accounts/groups/<int:pk>/leave/", account.leave_group, name="group-leave"),
    path("accounts/invitations/<int:pk>/accept/", account.accept_invitation, name="invitation-accept"),
    path("accounts/invitations/<int:pk>/decline/", account.decline_invitation, name="invitation-decline"),
    path("jobs/", jobs.job_list, name="jobs"),
    path("jobs/actions/", actions.act_on_jobs, name="jobs-actions"),
    path("jobs/submit/", submit.submit_form, name="submit"),
    path("jobs/submit/jdl/", submit.submit_jdl, name="submit-jdl"),
    path("jobs/<int:pk>/", job.job_page, name="job"),
    path("jobs/<int:pk>/files/<path:name>", job.job_file, name="job-file"),
    path("jobs/<int:pk>/inputs/<str:digest>/", job.job_input, name="job-input"),
    path("jobs/<int:pk>/actions/", actions.act_on_job, name="job-actions"),
    path("plots/", plots.plots, name="plots"),
    path("plots/numbers.csv", plots.plots_csv, name="plots-csv"),
    path("pilots/", pilots.pilot_list, name="pilots"),
    path("pilots/<int:pk>/", pilots.pilot_page, name="pilot"),
    path("pilots/<int:pk>/log/", pilots.pilot_log, name="pilot-log"),
    path("pilots/<int:pk>/log.txt", pilots.whole_log, name="pilot-whole-log"),
]
