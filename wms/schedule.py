"""The Celery beat table: every period with its reason and its source.

Each entry expires after its own period, so that a worker which was away does not replay a backlog.
"""

from typing import TypedDict

from django.conf import settings


class BeatEntry(TypedDict):
    """One row of the beat table; the schedule is in seconds."""

    task: str
    schedule: float
    options: dict[str, float]


def every(seconds: float, task: str) -> BeatEntry:
    """Return the entry that runs *task* every so many seconds."""
    return {"task": task, "schedule": seconds, "options": {"expires": seconds}}


BEAT: dict[str, BeatEntry] = {
    # PIL §2.2: priorities are re-evaluated "every two minutes to take into account … newly introduced" jobs.
    "recalculate-priorities": every(120, "taskqueues.recalculate_priorities"),
    # DESIGN §3.2: a created or deleted queue re-evaluates its group, at most once a second.
    "recalculate-changed-groups": every(1, "taskqueues.recalculate_changed_groups"),
    # DESIGN §3.2: an empty queue is gone within 5 s, also when the step after the claim was lost.
    "remove-empty-task-queues": every(2, "taskqueues.remove_empty_task_queues"),
    # DESIGN §4.2: the table of changes is read by its end only; it may not grow for ever.
    "remove-old-changes": every(60, "taskqueues.remove_old_changes"),
    # RFC 7: "refreshed at regular intervals (for example each 15 minutes)".
    "refresh-submit-pools": every(900, "taskqueues.refresh_submit_pools"),
    # DESIGN §3.4: "and when a resource changes"; edits ask for it at once, and this is for when that was lost.
    "refresh-stale-submit-pools": every(5, "taskqueues.refresh_stale_submit_pools"),
    # RFC 7: unused pools are "cleaned up by a dedicated agent running at regular intervals".
    "remove-unused-submit-pools": every(900, "jobs.remove_unused_submit_pools"),
    # Each sandbox is looked at once in WMS_SANDBOX_GRACE_S, which is hours.
    "remove-unused-sandboxes": every(600, "jobs.remove_unused_sandboxes"),
    # DESIGN §3.1: a job whose input data are resolved later goes on soon after; a run without changes is two reads.
    "reevaluate-input-data": every(5, "jobs.reevaluate_input_data"),
    # DESIGN §3.5: "A pilot that its CE reports as ended loses its leases at once".
    "expire-leases": every(5, "matching.expire_leases"),
    # Marked at once, and so given no job; the order itself hurries as much as one to kill.
    "tell-drained-pilots": every(5, "matching.tell_drained_pilots"),
    # A node on which jobs die within seconds takes many in a minute; and lost leases are known some minutes later.
    "find-black-holes": every(60, "matching.find_black_holes"),
    # ADR 33: half of the shortest delay of a job that was given back; where none avoids a place it is one read.
    "review-avoided-places": every(30, "matching.review_avoided_places"),
    # DESIGN §3.3: use counts with a half-life of 3 days. Each run reads every open lease: not more often than needed.
    "count-deliveries": every(60, "matching.count_deliveries"),
    # DESIGN §3.6: claims that find a limit full do it themselves; for the others it may not become much.
    "sum-up-limits": every(60, "matching.sum_up_limits"),
    # PIL §2.3: Directors "work in cycles repeating the same logic on each iteration".
    "direct-pilots": every(settings.WMS_DIRECTOR_CYCLE_S, "matching.direct_pilots"),
    # PIL §2.3: each is "accompanied by a corresponding Pilot Status Agent"; that goes on where nothing is sent.
    "serve-ces": every(settings.WMS_DIRECTOR_CYCLE_S, "pilots.serve_ces"),
    # Logs of pilots are kept for 30 days (WMS_PILOT_LOG_S): an hour more or less is nothing.
    "remove-old-pilot-logs": every(3600, "pilots.remove_old_logs"),
    # WMS_SECURITY_LOG_DAYS: an hour more or less is nothing.
    "remove-old-security-events": every(3600, "accounts.remove_old_security_events"),
    # WMS_INVITATION_S: they open nothing any more, and stay in lists of managers until then.
    "remove-expired-invitations": every(3600, "accounts.remove_expired_invitations"),
    # /readyz takes beat for down after a minute of silence: six chances to be heard.
    "pulse": every(10, "kernel.beat_pulse"),
}
