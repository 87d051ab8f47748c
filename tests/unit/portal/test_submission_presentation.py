"""Bars, rates and names of submissions."""

from datetime import timedelta

import pytest

from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.domain.time_left import PayloadProgress
from wms.jobs.models import NameRest, SubmissionContent
from wms.portal.presentation.statuses import Segment
from wms.portal.presentation.submission import ACTIONS, number_in, rate_of, segments_of, title_of

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def test_the_parts_of_a_bar_are_in_one_order_and_leave_out_deleted_jobs() -> None:
    jobs = {"Waiting": 4, "Checking": 1, "Matched": 1, "Running": 2, "Failed": 3, "Done": 5, "Stalled": 1, "Deleted": 9}
    assert segments_of(jobs) == [
        Segment(kind="done", label="done", count=5),
        Segment(kind="failed", label="failed", count=3),
        Segment(kind="running", label="running", count=3),
        Segment(kind="held", label="held or stalled", count=1),
        Segment(kind="waiting", label="waiting", count=5),
    ]


def test_a_bar_has_every_status_but_deleted() -> None:
    assert sum(segment.count for segment in segments_of(dict.fromkeys(JobStatus, 1))) == len(JobStatus) - 1


def progress_of(*, waiting: int = 60, running: int = 10, ended: int = 30) -> PayloadProgress:
    """Return that of payloads which take ten minutes each and are half over."""
    return PayloadProgress(waiting, running, 300.0 * running, 300.0, ended, 600.0, 0.0)


@pytest.mark.parametrize(
    ("jobs", "progress", "left"),
    [
        # Seventy minutes in all, whatever the time since the submission.
        ({"Done": 30, "Waiting": 60, "Running": 10}, progress_of(), "45 min to 2 h"),
        # Nothing is known of what has just begun, or stands still.
        ({"Running": 5}, progress_of(waiting=0, running=5, ended=0), ""),
        ({"Done": 3, "Waiting": 5}, progress_of(waiting=5, running=0, ended=3), ""),
        # Held jobs do not go on, and ended ones are over.
        ({"Done": 3, "Killed": 2, "Held": 5}, progress_of(waiting=0, running=0, ended=3), ""),
    ],
)
def test_the_time_left_is_a_range_from_what_has_run(jobs: dict[str, int], progress: PayloadProgress, left: str) -> None:
    assert rate_of(jobs, ended=30, age=5 * HOUR, progress=progress).left == left


@pytest.mark.parametrize(
    ("age", "window"), [(5 * HOUR, "hour"), (10 * MINUTE, "10 minutes"), (timedelta(0), "1 minute")]
)
def test_the_time_of_a_rate_is_the_last_hour_or_the_age(age: timedelta, window: str) -> None:
    assert rate_of({"Done": 1}, ended=1, age=age, progress=progress_of()).window == window


@pytest.mark.parametrize(
    ("label", "prefix", "rest", "last_id", "title"),
    [
        ("mc2026", "scan-", NameRest.DIGITS, 9, "mc2026"),
        ("", "scan-", NameRest.DIGITS, 9, "scan-*"),
        (None, "scan", NameRest.NOTHING, 9, "scan"),
        ("", "s", NameRest.ANYTHING, 9, "s*"),
        ("", "", NameRest.NOTHING, 9, "Jobs 7 to 9"),
        ("", "", NameRest.ANYTHING, 9, "Jobs 7 to 9"),
        ("", "", NameRest.NOTHING, 7, "Job 7"),
    ],
)
def test_a_submission_is_called_by_its_label_its_name_or_its_ids(
    label: str | None, prefix: str, rest: NameRest, last_id: int, title: str
) -> None:
    content = SubmissionContent(
        job_group=label, name_prefix=prefix, name_rest=rest, first_job_id=7, last_job_id=last_id
    )
    assert title_of(content) == title


def test_no_action_concerns_jobs_that_are_done_or_deleted() -> None:
    over: dict[str, int] = {JobStatus.DONE: 5, JobStatus.DELETED: 3, JobStatus.KILLED: 2}
    assert [number_in(over, action.statuses) for action in ACTIONS] == [0, 0, 0, 0]
