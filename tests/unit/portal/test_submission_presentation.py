"""Bars, rates and names of submissions."""

from datetime import timedelta

import pytest

from wms.jobs.domain.lifecycle import JobStatus
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


@pytest.mark.parametrize(
    ("jobs", "ended", "age", "per_hour", "left_s"),
    [
        ({"Done": 30, "Waiting": 60}, 30, 5 * HOUR, 30, 7200),
        # A young submission has had less than an hour.
        ({"Done": 30, "Waiting": 60}, 30, 10 * MINUTE, 180, 1200),
        # Nothing is known of what has just begun, or stands still.
        ({"Running": 5}, 0, MINUTE, None, None),
        ({"Done": 3, "Waiting": 5}, 0, 5 * HOUR, None, None),
        # Held jobs do not go on, and ended ones are over.
        ({"Done": 3, "Killed": 2, "Held": 5}, 3, 5 * HOUR, 3, None),
        # All in the first seconds.
        ({"Done": 2, "Waiting": 2}, 2, timedelta(0), 120, 60),
    ],
)
def test_the_time_left_follows_from_the_ends_of_the_last_hour(
    jobs: dict[str, int], ended: int, age: timedelta, per_hour: int | None, left_s: float | None
) -> None:
    rate = rate_of(jobs, ended=ended, age=age)
    assert (rate.per_hour, rate.left_s) == (per_hour, left_s)


@pytest.mark.parametrize(
    ("age", "window"), [(5 * HOUR, "hour"), (10 * MINUTE, "10 minutes"), (timedelta(0), "1 minute")]
)
def test_the_time_of_a_rate_is_the_last_hour_or_the_age(age: timedelta, window: str) -> None:
    assert rate_of({"Done": 1}, ended=1, age=age).window == window


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
