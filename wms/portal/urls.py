"""Addresses of the portal."""

from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, path

from wms.portal.views import account, actions, failures, home, job, job_list, jobs, pilots, shares, sites, submissions, submit, task_queues, waiting
from wms.portal.views.log_in import LogInView

app_name = "portal"
urlpatterns: list[URLPattern] = [
    path("accounts/", account.overview, name="account"),
    path("accounts/mail/", account.choose_mail, name="account-mail"),
    path("", home.home, name="home"),
    path("accounts/login/", LogInView.as_view(), name="log-in"),
    path("accounts/logout/", LogoutView.as_view(), name="log-out"),
    path("accounts/password/", account.PasswordView.as_view(), name="password"),
    path("accounts/password/link/", account.set_password_by_link, name="password-by-link"),
    path("accounts/password/link/<str:secret>/", account.open_password_link, name="password-link"),
    path("accounts/tokens/", account.tokens, name="tokens"),
    path("accounts/tokens/<int:pk>/revoke/", account.revoke_token, name="token-revoke"),
    path("accounts/groups/", account.groups, name="groups"),
    path("accounts/groups/<int:pk>/leave/", account.leave_group, name="group-leave"),
    path("accounts/groups/<int:pk>/default/", account.choose_default_group, name="group-default"),
    path("accounts/invitations/<int:pk>/accept/", account.accept_invitation, name="invitation-accept"),
    path("accounts/invitations/<int:pk>/decline/", account.decline_invitation, name="invitation-decline"),
    path("jobs/", job_list.job_list, name="jobs"),
    path("jobs/jobs.csv", job_list.jobs_csv, name="jobs-csv"),
    path("jobs/jobs.json", job_list.jobs_json, name="jobs-json"),
    path("jobs/actions/", actions.act_on_jobs, name="jobs-actions"),
    path("jobs/why/", waiting.why_page, name="why"),
    path("jobs/submit/", submit.submit_form, name="submit"),
    path("jobs/submit/jdl/", submit.submit_jdl, name="submit-jdl"),
    path("jobs/<int:pk>/", job.job_page, name="job"),
    path("jobs/<int:pk>/files/<path:name>", job.job_file, name="job-file"),
    path("jobs/<int:pk>/inputs/<str:digest>/", job.job_input, name="job-input"),
    path("jobs/submit/json/", submit.submit_json, name="submit-json"),
    path("jobs/submit/check/", submit.submit_check, name="submit-check"),
    path("jobs/submit/saved/<int:pk>/delete/", submit.delete_saved, name="saved-delete"),
    path("jobs/<int:pk>/", jobs.job_page, name="job"),
    path("jobs/<int:pk>/actions/", actions.act_on_job, name="job-actions"),
    path("submissions/", submissions.submission_list, name="submissions"),
    path("submissions/<uuid:pk>/", submissions.submission_page, name="submission"),
    path("submissions/<uuid:pk>/outputs.tar.gz", submissions.submission_outputs, name="submission-outputs"),
    path("task-queues/", task_queues.task_queue_list_page, name="task-queues"),
    path("task-queues/<int:pk>/", task_queues.task_queue_detail_page, name="task-queue"),
    path("sites/", sites.site_list, name="sites"),
    path("sites/<str:name>/", sites.site_page, name="site"),
    path("shares/", shares.shares_page, name="shares"),
    path("failures/", failures.failures, name="failures"),
    path("pilots/", pilots.pilot_list, name="pilots"),
    path("pilots/<int:pk>/", pilots.pilot_page, name="pilot"),
    path("pilots/<int:pk>/log/", pilots.pilot_log, name="pilot-log"),
    path("pilots/<int:pk>/log.txt", pilots.whole_log, name="pilot-whole-log"),
]
