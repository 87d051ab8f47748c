"""The list of jobs, the page of one job, and actions on jobs; search, selections and files are in test_job_list.py."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.factories import make_group, make_job, make_queue, make_site, make_submission, make_user
from tests.portal.conftest import ClientOf
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.portal.pages import ROWS_PER_PAGE
from wms.portal.presentation.statuses import BADGES

pytestmark = pytest.mark.django_db


def ids_in(response: Any) -> list[int]:
    return [row.id for row in response.context["rows"]]


# ---- the list --------------------------------------------------------------------------------------------------------


def test_a_user_without_jobs_is_shown_what_to_do(portal: Client) -> None:
    page = portal.get("/jobs/").content.decode()
    assert "You have no jobs yet." in page
    assert "Submit the first one" in page


def test_a_page_beyond_the_last_job_links_back(portal: Client) -> None:
    page = portal.get("/jobs/?before=1").content.decode()
    assert "You have no jobs yet." not in page
    assert "Show all my jobs" in page


def test_the_list_shows_own_jobs_newest_first_with_counts(portal: Client, alice: User, group: Group) -> None:
    done = make_job(owner=alice, group=group, status=JobStatus.DONE, job_name="first")
    waiting = make_job(owner=alice, group=group, job_name="second")
    make_job(owner=make_user(groups=[group]), group=group)
    response = portal.get("/jobs/")
    assert ids_in(response) == [waiting.pk, done.pk]
    assert [(count.status, count.count) for count in response.context["counts"].chips] == [("Waiting", 1), ("Done", 1)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("status=Done", ["done"]),
        ("job_name=waiting", ["waiting"]),
        ("group=lhcb_user", ["waiting", "done"]),
        ("group=other", []),
        ("status=Deleted", ["deleted"]),
        ("status=Nonsense", ["waiting", "done"]),
        ("job_group_id=nonsense", ["waiting", "done"]),
        ("unknown=1", ["waiting", "done"]),
        ("before=x", ["waiting", "done"]),
        ("before=99999999999999999999999", ["waiting", "done"]),
        ("before=9223372036854775807", ["waiting", "done"]),
        ("after=9999999999999999999", []),
        ("job_name=%F0%9F%98%80", []),
    ],
)
def test_filters_narrow_the_list_and_invalid_values_are_ignored(
    query: str, expected: list[str], portal: Client, alice: User, group: Group
) -> None:
    for status in (JobStatus.DELETED, JobStatus.DONE, JobStatus.WAITING):
        make_job(owner=alice, group=group, status=status, job_name=status.lower())
    response = portal.get(f"/jobs/?{query}")
    assert response.status_code == 200
    assert [row.name for row in response.context["rows"]] == expected


def test_an_invalid_filter_is_reported_beside_its_field(portal: Client, alice: User, group: Group) -> None:
    page = portal.get("/jobs/?job_group_id=nonsense&status=Nonsense").content.decode()
    assert "Enter a valid UUID." in page
    assert "There is no status &quot;Nonsense&quot;." in page


def test_one_submission_is_shown_alone(portal: Client, alice: User, group: Group) -> None:
    submission = make_submission(owner=alice, group=group)
    job = make_job(submission=submission)
    make_job(owner=alice, group=group)
    assert ids_in(portal.get(f"/jobs/?job_group_id={submission.pk}")) == [job.pk]


def test_jobs_of_group_members_are_shown_on_request_and_of_others_never(vo: Any, client_of: ClientOf) -> None:
    sharing, plain = make_group(vo=vo, shares_jobs=True), make_group(vo=vo)
    bob = make_user(groups=[sharing, plain], default_group=plain)
    mate = make_job(owner=make_user(groups=[sharing]), group=sharing)
    make_job(owner=make_user(groups=[plain]), group=plain)
    browser = client_of(bob)
    assert ids_in(browser.get("/jobs/")) == []
    assert ids_in(browser.get("/jobs/?whose=all")) == [mate.pk]


def test_pages_reach_all_jobs_forward_and_back(portal: Client, alice: User, group: Group) -> None:
    submission = make_submission(owner=alice, group=group)
    jobs = [make_job(submission=submission, status=JobStatus.DONE).pk for _ in range(2 * ROWS_PER_PAGE + 3)]
    pages, address = [], "/jobs/?status=Done"
    while address:
        response = portal.get(address)
        pages.append(ids_in(response))
        older = response.context["pager"].next
        address = f"/jobs/?{older}" if older else ""
    assert [len(page) for page in pages] == [ROWS_PER_PAGE, ROWS_PER_PAGE, 3]
    assert [pk for page in pages for pk in page] == sorted(jobs, reverse=True)
    back = portal.get(f"/jobs/?{response.context['pager'].previous}")
    assert ids_in(back) == pages[1]
    first = portal.get(f"/jobs/?{back.context['pager'].previous}")
    assert ids_in(first) == pages[0]
    assert first.context["pager"].previous == ""


def test_thirty_jobs_need_no_more_queries_than_one(portal: Client, alice: User, group: Group) -> None:
    def new_job() -> None:
        queue = make_queue()
        make_job(owner=alice, group=group, status=JobStatus.RUNNING, site=queue.ce.site, queue=queue)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert portal.get("/jobs/").status_code == 200
        return len(captured)

    new_job()
    one = queries()
    for _ in range(29):
        new_job()
    assert queries() == one
    assert one <= 16  # two of them the banner's, which outside of tests are memoised


def test_user_texts_are_escaped(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group, job_name="<script>alert(1)</script>", std_output_tail="<b>bold</b>")
    for address in ("/jobs/", f"/jobs/{job.pk}/"):
        page = portal.get(address).content.decode()
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert" in page
        assert "<b>bold" not in page


def test_every_status_has_a_badge() -> None:
    assert set(BADGES) == set(JobStatus)


# ---- actions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["/jobs/1/actions/", "/jobs/actions/"])
@pytest.mark.parametrize("action", ["", "explode", "Kill"])
def test_an_action_that_does_not_exist_is_refused(
    address: str, action: str, portal: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert portal.post(address, {"action": action, "ids": ["1"]}).status_code == 400
    assert "Traceback" not in caplog.text  # whoever likes could fill the log with them


# ---- many jobs -------------------------------------------------------------------------------------------------------


def test_selected_jobs_are_killed_after_confirmation(portal: Client, alice: User, group: Group) -> None:
    waiting = make_job(owner=alice, group=group)
    done = make_job(owner=alice, group=group, status=JobStatus.DONE)
    foreign = make_job(group=group)
    spared = make_job(owner=alice, group=group)
    form = {"action": "kill", "ids": [waiting.pk, done.pk, foreign.pk]}
    asked = portal.post("/jobs/actions/?group=lhcb_user", form)
    assert asked.status_code == 200
    question = asked.content.decode()
    assert "Kill 1 job?" in question
    assert "1 cannot be killed" in question
    assert "1 of the selected jobs does not exist." in question
    assert Job.objects.filter(status=JobStatus.KILLED).count() == 0
    response = portal.post("/jobs/actions/?group=lhcb_user", {**form, "confirmed": "1", "shown": "3"}, follow=True)
    assert response.redirect_chain == [("/jobs/?group=lhcb_user", 302)]
    page = response.content.decode()
    assert "1 job killed." in page
    assert f"1 not killed (not possible in its status): {done.pk}." in page
    assert f"1 not killed (not there): {foreign.pk}." in page
    statuses = [Job.objects.get(pk=job.pk).status for job in (waiting, done, foreign, spared)]
    assert statuses == [JobStatus.KILLED, JobStatus.DONE, JobStatus.WAITING, JobStatus.WAITING]


def test_an_action_without_selected_jobs_is_reported(portal: Client) -> None:
    response = portal.post("/jobs/actions/", {"action": "kill"}, follow=True)
    assert "No job is selected" in response.content.decode()


@pytest.mark.parametrize("ids", [["x"], ["-1"], ["9" * 30], ["1"] * 51, ["²"]])
def test_forged_selections_are_refused(ids: list[str], portal: Client) -> None:
    assert portal.post("/jobs/actions/", {"action": "kill", "ids": ids}).status_code == 400


def test_a_site_of_a_job_that_is_gone_does_not_break_the_page(portal: Client, alice: User, group: Group) -> None:
    site = make_site()
    job = make_job(owner=alice, group=group, status=JobStatus.DONE, site=site)
    site.delete()
    assert portal.get(f"/jobs/{job.pk}/").status_code == 200
    assert portal.get("/jobs/").status_code == 200
