"""The list of jobs, the page of one job, and actions on jobs; search, selections and files are in test_job_list.py."""

from http import HTTPStatus
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.factories import NOW, make_ce, make_group, make_job, make_queue, make_site, make_submission, make_user
from tests.portal.conftest import ClientOf
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, JobHistory, Sandbox
from wms.jobs.services.submission import submit
from wms.portal.pages import ROWS_PER_PAGE
from wms.portal.presentation.statuses import BADGES

pytestmark = pytest.mark.django_db


def ids_in(response: Any) -> list[int]:
    return [row.id for row in response.context["rows"]]


# ---- the list --------------------------------------------------------------------------------------------------------


def test_who_has_no_job_is_told_what_to_do(portal: Client) -> None:
    page = portal.get("/jobs/").content.decode()
    assert "You have no jobs yet." in page
    assert "Submit the first one" in page


def test_a_page_beyond_the_last_job_leads_back(portal: Client) -> None:
    page = portal.get("/jobs/?before=1").content.decode()
    assert "You have no jobs yet." not in page
    assert "Show all my jobs" in page


def test_the_start_page_is_the_list(portal: Client) -> None:
    assert portal.get("/")["Location"] == "/jobs/"


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
def test_filters_narrow_and_nonsense_does_not_break(
    query: str, expected: list[str], portal: Client, alice: User, group: Group
) -> None:
    for status in (JobStatus.DELETED, JobStatus.DONE, JobStatus.WAITING):
        make_job(owner=alice, group=group, status=status, job_name=status.lower())
    response = portal.get(f"/jobs/?{query}")
    assert response.status_code == 200
    assert [row.name for row in response.context["rows"]] == expected


def test_a_filter_that_is_nonsense_is_told_beside_its_field(portal: Client, alice: User, group: Group) -> None:
    page = portal.get("/jobs/?job_group_id=nonsense&status=Nonsense").content.decode()
    assert "Enter a valid UUID." in page
    assert "There is no status &quot;Nonsense&quot;." in page


def test_one_submission_is_shown_alone(portal: Client, alice: User, group: Group) -> None:
    submission = make_submission(owner=alice, group=group)
    job = make_job(submission=submission)
    make_job(owner=alice, group=group)
    assert ids_in(portal.get(f"/jobs/?job_group_id={submission.pk}")) == [job.pk]


def test_jobs_of_mates_are_shown_when_asked_for_and_of_strangers_never(vo: Any, client_of: ClientOf) -> None:
    sharing, plain = make_group(vo=vo, shares_jobs=True), make_group(vo=vo)
    bob = make_user(groups=[sharing, plain], default_group=plain)
    mate = make_job(owner=make_user(groups=[sharing]), group=sharing)
    make_job(owner=make_user(groups=[plain]), group=plain)
    browser = client_of(bob)
    assert ids_in(browser.get("/jobs/")) == []
    assert ids_in(browser.get("/jobs/?whose=all")) == [mate.pk]


def test_pages_lead_through_all_jobs_and_back(portal: Client, alice: User, group: Group) -> None:
    submission = make_submission(owner=alice, group=group)
    jobs = [make_job(submission=submission, status=JobStatus.DONE).pk for _ in range(2 * ROWS_PER_PAGE + 3)]
    pages, address = [], "/jobs/?status=Done"
    while address:
        response = portal.get(address)
        pages.append(ids_in(response))
        older = response.context["page"].older
        address = f"/jobs/?{older}" if older else ""
    assert [len(page) for page in pages] == [ROWS_PER_PAGE, ROWS_PER_PAGE, 3]
    assert [pk for page in pages for pk in page] == sorted(jobs, reverse=True)
    back = portal.get(f"/jobs/?{response.context['page'].newer}")
    assert ids_in(back) == pages[1]
    first = portal.get(f"/jobs/?{back.context['page'].newer}")
    assert ids_in(first) == pages[0]
    assert first.context["page"].newer == ""


def test_thirty_jobs_cost_no_more_queries_than_one(portal: Client, alice: User, group: Group) -> None:
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
    assert one <= 8


def test_what_users_write_is_shown_as_text(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group, job_name="<script>alert(1)</script>", std_output_tail="<b>bold</b>")
    for address in ("/jobs/", f"/jobs/{job.pk}/"):
        page = portal.get(address).content.decode()
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert" in page
        assert "<b>bold" not in page


def test_every_status_has_a_badge() -> None:
    assert set(BADGES) == set(JobStatus)


# ---- one job ---------------------------------------------------------------------------------------------------------


def test_the_page_of_a_job_tells_all_about_it(portal: Client, alice: User, group: Group) -> None:
    queue = make_queue()
    job = make_job(
        owner=alice,
        group=group,
        status=JobStatus.RUNNING,
        site=queue.ce.site,
        queue=queue,
        pilot_id=4711,
        std_output_tail="event 1\nevent 2",
        arguments="--events 10",
        environment={"SEED": "5"},
    )
    Job.objects.filter(pk=job.pk).update(cpu_s=1234.5, max_memory_mb=800, minor_status="Application", heartbeat_at=NOW)
    JobHistory.objects.create(job=job, changed_at=NOW, status=JobStatus.RUNNING, source="pilot 4711")
    page = portal.get(f"/jobs/{job.pk}/").content.decode()
    for text in (queue.name, queue.ce.site.name, "4711", "1,234.5 s", "800.0 MB", "Application", "--events 10"):
        assert text in page
    for text in ("SEED = 5", "event 1\nevent 2", "pilot 4711"):
        assert text in page


def test_the_page_of_a_job_shows_no_site_that_was_removed_while_it_was_matched(
    portal: Client, alice: User, group: Group
) -> None:
    job = make_job(owner=alice, group=group, status=JobStatus.MATCHED, pilot_id=4711)
    Job.objects.filter(pk=job.pk).update(site_id=10**9, queue_id=10**9)
    for address in ("/jobs/", f"/jobs/{job.pk}/"):
        assert portal.get(address).status_code == HTTPStatus.OK
    facts = {fact.label: fact.value for fact in portal.get(f"/jobs/{job.pk}/").context["job"].facts}
    assert facts["Site"] == ""


def test_a_job_that_waits_names_its_task_queue(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group)
    facts = {fact.label: fact.value for fact in portal.get(f"/jobs/{job.pk}/").context["job"].facts}
    assert facts["Task queue"].isdecimal()


def test_a_job_that_waits_says_why(portal: Client, alice: User, group: Group) -> None:
    ce = make_ce(site=make_site(vos=[group.vo]))
    for processors in (1, 2, 4):
        make_queue(ce=ce, processors=processors)
    job = make_job(owner=alice, group=group, processors=2, tags=["<gpu>"])
    response = portal.get(f"/jobs/{job.pk}/")
    page = response.content.decode()
    assert "Why it waits" in page
    assert (
        "It waits because no queue that serves lhcb fits it: it requires the tag &lt;gpu&gt;; queues offer none."
        in page
    )
    why = response.context["why"]
    shown = {hurdle.name: (hurdle.passed, hurdle.badge) for hurdle in [*why.hurdles, *why.passed]}
    assert (shown["tags"], shown["processors"], shown["memory"]) == (
        ("0 of 3", "failed"),
        ("2 of 3", "held"),
        ("3 of 3", "done"),
    )


def test_a_job_whose_requirements_no_queue_meets_says_which_and_how_many_they_hold_back(
    portal: Client, alice: User, group: Group
) -> None:
    ce = make_ce(site=make_site(vos=[group.vo]), parameters={"SoftwareTag": ["v1"], "Memory": 2000})
    for memory in (1000, 4000):
        make_queue(ce=ce, parameters={"Memory": memory})
    make_queue(ce=ce)
    described = {"executable": "a", "requirements": {"Memory": 2000, "SoftwareTag": "<b>v2</b>"}}
    (job,) = submit(parse_submission(described), owner=alice, now=NOW).jobs
    response = portal.get(f"/jobs/{job.id}/")
    page = response.content.decode()
    assert (
        "It waits because no queue that serves lhcb provides what it requires: "
        "Memory = 2000 and SoftwareTag = &lt;b&gt;v2&lt;/b&gt;." in page
    )
    assert "Memory holds back 1 queue and SoftwareTag holds back 3 queues" in page
    (hurdle,) = (hurdle for hurdle in response.context["why"].hurdles if hurdle.name == "submit pool")
    assert (hurdle.passed, hurdle.badge) == ("0 of 3", "failed")


def test_only_a_job_that_waits_says_why(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group, status=JobStatus.HELD)
    assert "Why it waits" not in portal.get(f"/jobs/{job.pk}/").content.decode()


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (JobStatus.WAITING, ["kill", "hold", "delete"]),
        (JobStatus.HELD, ["kill", "release", "delete"]),
        (JobStatus.RUNNING, ["kill", "reschedule"]),
        (JobStatus.FAILED, ["reschedule", "delete"]),
        (JobStatus.DONE, ["delete"]),
        (JobStatus.DELETED, []),
    ],
)
def test_only_what_the_state_allows_has_a_button(
    status: JobStatus, expected: list[str], portal: Client, alice: User, group: Group
) -> None:
    job = make_job(owner=alice, group=group, status=status)
    assert [button.action for button in portal.get(f"/jobs/{job.pk}/").context["job"].buttons] == expected


def test_the_output_can_be_fetched_once_it_is_there(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group, status=JobStatus.DONE)
    link = f"/api/v1/jobs/{job.pk}/output/"
    assert link not in portal.get(f"/jobs/{job.pk}/").content.decode()
    job.output_sandbox = Sandbox.objects.create(digest="0" * 64, size_bytes=1, is_archive=True, created_at=NOW)
    job.save()
    assert link in portal.get(f"/jobs/{job.pk}/").content.decode()


@pytest.mark.parametrize(
    ("who", "status"), [("owner", 200), ("group_mate", 200), ("stranger", 404), ("manager", 200), ("operator", 200)]
)
def test_who_sees_and_kills_a_job(who: str, status: int, vo: Any, client_of: ClientOf) -> None:
    sharing = make_group(vo=vo, shares_jobs=True)
    job = make_job(group=sharing)
    user = {
        "owner": lambda: job.owner,
        "group_mate": lambda: make_user(groups=[sharing]),
        "stranger": lambda: make_user(groups=[make_group(vo=vo)]),
        "manager": lambda: make_user(manages=[vo]),
        "operator": lambda: make_user(operator=True),
    }[who]()
    browser = client_of(user)
    assert browser.get(f"/jobs/{job.pk}/").status_code == status
    response = browser.post(f"/jobs/{job.pk}/actions/", {"action": "kill"})
    assert response.status_code == (302 if status == 200 else 404)
    job.refresh_from_db()
    assert job.status == (JobStatus.KILLED if status == 200 else JobStatus.WAITING)


@pytest.mark.parametrize("pk", [0, 1, 10**30])
def test_a_job_that_does_not_exist_is_not_found(pk: int, portal: Client) -> None:
    assert portal.get(f"/jobs/{pk}/").status_code == 404
    assert portal.post(f"/jobs/{pk}/actions/", {"action": "kill"}).status_code == 404


def test_hold_release_reschedule_and_delete(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group)
    for action, expected in (
        ("hold", JobStatus.HELD),
        ("release", JobStatus.WAITING),
        ("delete", JobStatus.DELETED),
    ):
        response = portal.post(f"/jobs/{job.pk}/actions/", {"action": action}, follow=True)
        assert response.redirect_chain == [(f"/jobs/{job.pk}/", 302)]
        job.refresh_from_db()
        assert job.status == expected
    failed = make_job(owner=alice, group=group, status=JobStatus.FAILED)
    portal.post(f"/jobs/{failed.pk}/actions/", {"action": "reschedule"})
    failed.refresh_from_db()
    assert failed.status == JobStatus.WAITING


def test_what_the_state_forbids_is_told_and_changes_nothing(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group, status=JobStatus.DONE)
    response = portal.post(f"/jobs/{job.pk}/actions/", {"action": "kill"}, follow=True)
    assert "message error" in response.content.decode()
    job.refresh_from_db()
    assert job.status == JobStatus.DONE


@pytest.mark.parametrize("address", ["/jobs/1/actions/", "/jobs/actions/"])
@pytest.mark.parametrize("action", ["", "explode", "Kill"])
def test_an_action_that_does_not_exist_is_refused(
    address: str, action: str, portal: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert portal.post(address, {"action": action, "ids": ["1"]}).status_code == 400
    assert "Traceback" not in caplog.text  # whoever likes could fill the log with them


# ---- many jobs -------------------------------------------------------------------------------------------------------


def test_ticked_jobs_are_killed_once_confirmed_and_the_others_told(portal: Client, alice: User, group: Group) -> None:
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


def test_no_tick_is_told(portal: Client) -> None:
    response = portal.post("/jobs/actions/", {"action": "kill"}, follow=True)
    assert "No job is selected" in response.content.decode()


@pytest.mark.parametrize("ids", [["x"], ["-1"], ["9" * 30], ["1"] * 51, ["²"]])
def test_forged_ticks_are_refused(ids: list[str], portal: Client) -> None:
    assert portal.post("/jobs/actions/", {"action": "kill", "ids": ids}).status_code == 400


def test_a_site_of_a_job_that_is_gone_does_not_break_the_page(portal: Client, alice: User, group: Group) -> None:
    site = make_site()
    job = make_job(owner=alice, group=group, status=JobStatus.DONE, site=site)
    site.delete()
    assert portal.get(f"/jobs/{job.pk}/").status_code == 200
    assert portal.get("/jobs/").status_code == 200
