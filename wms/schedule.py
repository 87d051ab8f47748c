"""The Celery beat table: every period with its reason and its source.

Each entry expires after its own period, so that a worker which was down does not replay a backlog.
"""

from typing import Final, TypedDict

from django.conf import settings


class BeatEntry(TypedDict):
    """One row of the beat table; the schedule is in seconds."""

    task: str
    schedule: float
    options: dict[str, float]


def every(seconds: float, task: str) -> BeatEntry:
    """Return the entry that runs *task* every so many seconds."""
    return {"task": task, "schedule": seconds, "options": {"expires": seconds}}


#: While nothing waits, runs or changes, these are sent once in REST_S: nothing but time gives them work (ADR 104).
WHILE_BUSY: dict[str, BeatEntry] = {
    # A new or deleted queue changes its group's priorities, at most once a second (docs/architecture.md, Priorities).
    "recalculate-changed-groups": every(1, "taskqueues.recalculate_changed_groups"),
    # An empty queue is removed within 5 s, even if the step after the claim was lost.
    "remove-empty-task-queues": every(2, "taskqueues.remove_empty_task_queues"),
    # Edits of resources send this task at once; this catches lost ones.
    "refresh-stale-submit-pools": every(5, "taskqueues.refresh_stale_submit_pools"),
    # A job whose input data are resolved later continues soon after; a run without changes is two reads.
    "reevaluate-input-data": every(5, "jobs.reevaluate_input_data"),
    # Each count of jobs reads the changes that are not added yet: some thousands in 5 s of a busy system.
    "add-job-counts": every(5, "jobs.add_counts"),
    # A claim that began before its owner was suspended may still lease a job; the payload ends soon after.
    "end-payloads-of-suspended": every(5, "jobs.end_payloads_of_suspended"),
    # A pilot that its CE reports as ended loses its leases at once (docs/architecture.md, Leases).
    "expire-leases": every(5, "matching.expire_leases"),
    # A drained pilot gets no jobs from the mark on; the command to leave is as urgent as one to kill.
    "tell-drained-pilots": every(5, "matching.tell_drained_pilots"),
    # A canary takes minutes; a run reads the rows of submissions that have one, mostly none.
    "decide-canaries": every(10, "jobs.decide_canaries"),
    # PIL §2.3: Directors "work in cycles repeating the same logic on each iteration".
    "direct-pilots": every(settings.WMS_DIRECTOR_CYCLE_S, "matching.direct_pilots"),
    # PIL §2.3: each is "accompanied by a corresponding Pilot Status Agent", which runs even where no pilots are sent.
    "serve-ces": every(settings.WMS_DIRECTOR_CYCLE_S, "pilots.serve_ces"),
}
#: Seconds; a computing element is then asked within 40 s, and the expirer's and the directors' gaps that count as
#: outages are a minute.
REST_S: Final = 20.0
BEAT: dict[str, BeatEntry] = WHILE_BUSY | {
    # PIL §2.2: priorities are re-evaluated "every two minutes to take into account … newly introduced" jobs.
    "recalculate-priorities": every(120, "taskqueues.recalculate_priorities"),
    # Only the end of the table of changes is read; it must not grow for ever.
    "remove-old-changes": every(60, "taskqueues.remove_old_changes"),
    # RFC 7: "refreshed at regular intervals (for example each 15 minutes)".
    "refresh-submit-pools": every(900, "taskqueues.refresh_submit_pools"),
    # RFC 7: unused pools are "cleaned up by a dedicated agent running at regular intervals".
    "remove-unused-submit-pools": every(900, "jobs.remove_unused_submit_pools"),
    # Each sandbox is checked once in WMS_SANDBOX_GRACE_S, which is hours.
    "remove-unused-sandboxes": every(600, "jobs.remove_unused_sandboxes"),
    # Mail about a submission may be a minute late; a run reads the counters of those whose owners want some.
    "send-notices": every(60, "jobs.send_notices"),
    # Plots are a minute old at most; a run reads only what has changed since the one before.
    "account-jobs": every(60, "matching.account_jobs"),
    # A node on which jobs fail within seconds takes many in a minute; lost leases show some minutes later.
    "find-black-holes": every(60, "matching.find_black_holes"),
    # ADR 33: half of the shortest delay of a job that was given back; one read if no job avoids a place.
    "review-avoided-places": every(30, "matching.review_avoided_places"),
    # Usage decays with a half-life of 3 days; each run reads every open lease (docs/architecture.md, Priorities).
    "count-deliveries": every(60, "matching.count_deliveries"),
    # Claims sum up a limit that they find full; this bounds the rows of the others (ADR 17).
    "sum-up-limits": every(60, "matching.sum_up_limits"),
    # A run removes a bounded number of jobs, so that a backlog of a million takes few runs; else it is three reads.
    "remove-ended": every(60, "matching.remove_ended"),
    # Downtimes are announced hours before; GOCDB asks for a quarter of an hour between requests at least.
    "import-downtimes": every(900, "resources.import_downtimes"),
    # Logs of pilots are kept for 30 days (WMS_PILOT_LOG_S): an hour more does not matter.
    "remove-old-pilot-logs": every(3600, "pilots.remove_old_logs"),
    # WMS_SECURITY_LOG_DAYS: an hour more does not matter.
    "remove-old-security-events": every(3600, "accounts.remove_old_security_events"),
    # WMS_KEEP_ADMIN_LOG_DAYS: an hour more does not matter.
    "remove-old-admin-log": every(3600, "accounts.remove_old_admin_log"),
    # Expired sessions are invalid; an hour more of their rows does not matter.
    "remove-expired-sessions": every(3600, "accounts.remove_expired_sessions"),
    # WMS_INVITATION_S: expired ones are invalid, but stay in the managers' lists until removed.
    "remove-expired-invitations": every(3600, "accounts.remove_expired_invitations"),
    # Submission, matching and tokens compare the time themselves; lists and rights of sight follow within a minute.
    "remove-lapsed-memberships": every(60, "accounts.remove_lapsed_memberships"),
    # Prometheus asks every 15 s by most configurations; an idle system sleeps meanwhile.
    "measure": every(15, "operations.measure"),
    # No table gets a million rows (STEP) in that time; without new ids it is three reads.
    "keep-id-mark": every(15, "operations.keep_id_mark"),
    # /readyz reports beat as down after a minute of silence, which is six missed reports.
    "report-liveness": every(10, "kernel.report_liveness"),
    # Likewise; rounds that wait for unreachable sites leave it a thread within their time-outs.
    "report-sites": every(10, "kernel.report_sites"),
}
