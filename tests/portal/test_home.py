"""The first page after the log-in."""

from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from resources.domain.enums import ResourceState
from taskqueues.models import QueuedJob, UsageInterval
from tests.factories import make_group, make_job, make_queue, make_site, make_submission, make_user
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO, Group, Invitation, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.kernel.memo import forget_brief_results
from wms.portal.views.home import NEWEST

pytestmark = pytest.mark.django_db


def home(portal: Client) -> Any:
    response = portal.get("/")
    assert response.status_code == 200
    return response


def queries_of(portal: Client) -> int:
    home(portal)  # from now on, no change is read
    with CaptureQueriesContext(connection) as captured:
        home(portal)
    return len(captured)


# ---- a new user ------------------------------------------------------------------------------------------------------


def test_a_new_user_is_shown_the_first_steps(portal: Client) -> None:
    page = home(portal).content.decode()
    assert "You have no jobs yet." in page
    assert "Submit the first job" in page
    assert "Needs attention" not in page


def test_a_user_without_group_is_shown_whom_to_ask(client_of: ClientOf) -> None:
    page = home(client_of(make_user(username="dora"))).content.decode()
    assert "invite <b>dora</b> to a group" in page
    assert "Submit the first job" not in page


def test_a_manager_without_group_is_led_to_the_jobs_of_the_vo(client_of: ClientOf, vo: VO) -> None:
    for manager in (make_user(manages=[vo]), make_user(operator=True)):
        page = home(client_of(manager)).content.decode()
        assert 'href="/jobs/?q=owner:*"' in page
        assert 'href="/task-queues/?whose=all"' in page
        assert "Ask a manager" not in page


def test_an_invited_user_is_led_to_the_invitation(client_of: ClientOf, group: Group) -> None:
    now = timezone.now()
    Invitation.objects.create(
        group=group,
        username="dora",
        invited_by=make_user(operator=True),
        created_at=now,
        expires_at=now + timedelta(days=1),
    )
    assert "Show the invitation" in home(client_of(make_user(username="dora"))).content.decode()


# ---- jobs and submissions --------------------------------------------------------------------------------------------


def test_the_strip_counts_the_users_own_jobs_with_links_to_them(portal: Client, alice: User, group: Group) -> None:
    for status in (JobStatus.DONE, JobStatus.DONE, JobStatus.RUNNING, JobStatus.DELETED):
        make_job(owner=alice, group=group, status=status)
    make_job(group=group)
    strip = home(portal).context["strip"]
    assert strip.jobs == 3
    assert [(chip.status, chip.jobs) for chip in strip.chips] == [("Running", 1), ("Done", 2)]
    for chip in strip.chips:
        assert [row.status for row in portal.get(chip.url).context["rows"]] == [chip.status] * chip.jobs


def test_the_newest_submissions_are_shown(portal: Client, alice: User, group: Group) -> None:
    for number in range(NEWEST + 2):
        make_job(owner=alice, group=group, status=JobStatus.DONE, job_name=f"name{number:02}")
    shown = [row.title for row in home(portal).context["submissions"]]
    assert shown == [f"name{number:02}" for number in range(NEWEST + 1, 1, -1)]


def test_thirty_submissions_cost_no_more_queries_than_one(portal: Client, alice: User, group: Group) -> None:
    def new_jobs() -> None:
        site = make_site()
        submission = make_submission(owner=alice, group=group)
        for status in (JobStatus.WAITING, JobStatus.FAILED, JobStatus.HELD, JobStatus.RUNNING):
            make_job(submission=submission, status=status, site=site, sites=(site.name,))

    new_jobs()
    one = queries_of(portal)
    for _ in range(29):
        new_jobs()
    assert queries_of(portal) == one


def test_home_and_submission_say_why_the_jobs_wait_unless_they_can_never_run(
    portal: Client, alice: User, group: Group
) -> None:
    make_queue(memory_mb=4000, cpu_time_s=300_000)
    submission = make_submission(owner=alice, group=group)
    never = make_job(submission=submission, memory_mb=64_000)
    assert home(portal).context["waiting"] == []
    QueuedJob.objects.filter(pk=never.pk).delete()
    Job.objects.filter(pk=never.pk).update(status=JobStatus.HELD)
    fits = make_job(submission=submission)
    forget_brief_results()
    for page in (home(portal), portal.get(f"/submissions/{submission.pk}/")):
        (waiting,) = page.context["waiting"]
        assert (waiting.jobs, waiting.example_id) == ("1 job", fits.pk)
        assert waiting.text.summary.startswith("It fits 1 of 1 queue and waits for a pilot there")
        assert waiting.text.summary in unescape(page.content.decode())
        assert [row.id for row in portal.get(waiting.jobs_url).context["rows"]] == [fits.pk]
    Job.objects.filter(pk=fits.pk).update(status=JobStatus.RUNNING)
    QueuedJob.objects.filter(pk=fits.pk).delete()
    forget_brief_results()
    assert home(portal).context["waiting"] == []


# ---- what needs attention --------------------------------------------------------------------------------------------


def test_jobs_that_nothing_fits_are_named_with_the_reason(portal: Client, alice: User, group: Group) -> None:
    make_queue(memory_mb=4000, cpu_time_s=300_000)
    for _ in range(2):
        make_job(owner=alice, group=group, memory_mb=64_000)
    make_job(owner=alice, group=group)
    page = home(portal)
    (row,) = page.context["unmatched"]
    assert row.jobs == 2
    assert "64000 MB" in row.reason or "64,000 MB" in row.reason
    assert f'href="/jobs/{row.job_id}/"' in page.content.decode()
    assert portal.get(f"/jobs/{row.job_id}/").status_code == 200


def test_jobs_whose_only_site_is_banned_are_named(portal: Client, alice: User, group: Group) -> None:
    queue = make_queue()
    make_job(owner=alice, group=group, sites=(queue.ce.site.name,))
    assert home(portal).context["unmatched"] == []
    site = queue.ce.site
    site.state = ResourceState.BANNED
    site.save()
    (row,) = home(portal).context["unmatched"]
    assert "banned" in row.reason


def test_jobs_of_a_group_that_the_user_has_left_are_named(portal: Client, alice: User, group: Group) -> None:
    make_queue()
    make_job(owner=alice, group=group)
    assert home(portal).context["unmatched"] == []
    alice.memberships.all().delete()
    (row,) = home(portal).context["unmatched"]
    assert "no longer a member" in row.reason


def test_jobs_of_others_that_nothing_fits_are_not_shown(portal: Client, group: Group) -> None:
    make_job(group=group, memory_mb=64_000)
    make_job(owner=make_user(groups=[group]), group=group, status=JobStatus.HELD)
    response = home(portal)
    assert response.context["unmatched"] == response.context["held"] == []
    assert "Needs attention" not in response.content.decode()


def test_held_jobs_are_shown_by_their_reason(portal: Client, alice: User, group: Group) -> None:
    make_queue()
    jobs = [make_job(owner=alice, group=group, status=JobStatus.HELD) for _ in range(3)]
    Job.objects.filter(pk__in=[jobs[0].pk, jobs[1].pk]).update(minor_status="Held by alice")
    Job.objects.filter(pk=jobs[2].pk).update(minor_status="Held by bob")
    rows = home(portal).context["held"]
    assert [(row.jobs, row.reason) for row in rows] == [(2, "Held by alice"), (1, "Held by bob")]
    assert {row.id for row in portal.get(rows[0].url).context["rows"]} == {jobs[0].pk, jobs[1].pk}


def test_failures_are_grouped_by_reason(portal: Client, alice: User, group: Group) -> None:
    for number in range(3):
        job = make_job(owner=alice, group=group, status=JobStatus.FAILED)
        Job.objects.filter(pk=job.pk).update(minor_status=f"Exited with code {number}")
    response = home(portal)
    (group_of_failures,) = response.context["failures"].groups
    assert (group_of_failures.jobs, group_of_failures.title) == (3, "Exited with code 2")
    assert "Exited with code 2" in response.content.decode()


# ---- shares ----------------------------------------------------------------------------------------------------------


def test_shares_are_shown_configured_beside_delivered(portal: Client, group: Group, vo: VO) -> None:
    other = make_group(vo=vo, priority=3 * group.priority)
    began_at = timezone.now() - timedelta(hours=2)
    for used_by, seconds in ((group, 4000.0), (other, 4000.0)):
        UsageInterval.objects.create(
            began_at=began_at, group=used_by, cpu_segment_s=500, matches=1, processor_s=seconds
        )
    (row,) = home(portal).context["shares"]
    assert (row.group, row.configured, row.delivered) == (group.name, "25.0%", "50.0%")


def test_a_vo_that_used_nothing_has_delivered_nothing(portal: Client) -> None:
    (row,) = home(portal).context["shares"]
    assert (row.configured, row.delivered) == ("100.0%", "nothing was used")


def test_the_first_page_needs_a_log_in() -> None:
    assert Client().get("/")["Location"].startswith("/accounts/login/")
