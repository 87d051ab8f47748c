"""The page of one job: its sentence, its tabs, its actions, and what a stranger sees of it."""

from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from matching.services import removal_permits
from tests.factories import (
    NOW,
    make_ce,
    make_group,
    make_job,
    make_match,
    make_pilot,
    make_queue,
    make_samples,
    make_site,
    make_user,
    submit,
)
from tests.portal.conftest import ClientOf
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, JobHistory, OutputTail, Sandbox
from wms.jobs.sql import revisions
from wms.kernel.fast.statements import query_directly
from wms.portal.presentation.job_tabs import Tab

pytestmark = pytest.mark.django_db


def whole_page(portal: Client, job: Job) -> str:
    """Return the page with each of its tabs."""
    return "".join(portal.get(f"/jobs/{job.pk}/?tab={tab}").content.decode() for tab in Tab)


# ---- what it says ----------------------------------------------------------------------------------------------------


def test_the_page_of_a_job_shows_its_facts(portal: Client, alice: User, group: Group) -> None:
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
    page = whole_page(portal, job)
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


def test_the_pages_of_an_ended_job_say_for_how_long_it_is_kept(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group, status=JobStatus.DONE)
    pages = {f"/jobs/{job.pk}/": "job", f"/submissions/{job.submission_id}/": "submission"}

    def told() -> list[str]:
        facts = [fact for page, name in pages.items() for fact in portal.get(page).context[name].facts]
        return [fact.value for fact in facts if "Kept" in fact.label]

    assert told() == []
    removal_permits.look(group.vo, now=NOW)
    removal_permits.permit(group.vo, by=make_user(operator=True), now=NOW)
    assert told() == ["2026-11-28 (180 days)", "Deleted 30 days, Done 180 days, Failed 180 days, Killed 180 days"]


def test_a_job_that_waits_names_its_task_queue(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group)
    facts = {fact.label: fact.value for fact in portal.get(f"/jobs/{job.pk}/").context["job"].facts}
    assert facts["Task queue"].isdecimal()


def test_the_page_of_a_waiting_job_explains_it(portal: Client, alice: User, group: Group) -> None:
    ce = make_ce(site=make_site(vos=[group.vo]))
    for processors in (1, 2, 4):
        make_queue(ce=ce, processors=processors)
    job = make_job(owner=alice, group=group, processors=2, tags=["<gpu>"])
    page = portal.get(f"/jobs/{job.pk}/").content.decode()
    assert "Why it waits" in page
    assert (
        "It waits because no queue that serves lhcb fits it: it requires the tag &lt;gpu&gt;; queues offer none."
        in page
    )
    for name, passed, badge in (("tags", 0, "failed"), ("processors", 2, "held"), ("memory", 3, "done")):
        assert f'<td>{name}</td><td><span class="badge {badge}">{passed} of 3</span></td>' in page


def test_the_page_lists_unmet_requirements_with_excluded_queues(portal: Client, alice: User, group: Group) -> None:
    ce = make_ce(site=make_site(vos=[group.vo]), parameters={"SoftwareTag": ["v1"], "Memory": 2000})
    for memory in (1000, 4000):
        make_queue(ce=ce, parameters={"Memory": memory})
    make_queue(ce=ce)
    described = {"executable": "a", "requirements": {"Memory": 2000, "SoftwareTag": "<b>v2</b>"}}
    (job,) = submit(parse_submission(described), owner=alice, now=NOW).jobs
    page = portal.get(f"/jobs/{job.id}/").content.decode()
    assert (
        "It waits because no queue that serves lhcb provides what it requires: "
        "Memory = 2000 and SoftwareTag = &lt;b&gt;v2&lt;/b&gt;." in page
    )
    assert "Memory holds back 1 queue and SoftwareTag holds back 3 queues" in page
    assert '<td>submit pool</td><td><span class="badge failed">0 of 3</span></td>' in page


def test_only_waiting_jobs_are_explained(portal: Client, alice: User, group: Group) -> None:
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
def test_buttons_are_shown_for_allowed_actions_only(
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
def test_access_rights_to_the_page_and_the_kill_button(who: str, status: int, vo: Any, client_of: ClientOf) -> None:
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


def test_a_job_is_held_released_rescheduled_and_deleted(portal: Client, alice: User, group: Group) -> None:
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


def test_a_forbidden_action_is_reported_and_changes_nothing(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group, status=JobStatus.DONE)
    response = portal.post(f"/jobs/{job.pk}/actions/", {"action": "kill"}, follow=True)
    assert "message error" in response.content.decode()
    job.refresh_from_db()
    assert job.status == JobStatus.DONE


# ---- actions ---------------------------------------------------------------------------------------------------------


def test_kill_and_delete_ask_first_without_a_script(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group)
    response = portal.get(f"/jobs/{job.pk}/")
    view, page = response.context["job"], response.content.decode()
    assert [button.action for button in view.direct] == ["hold"]
    assert [asked.button.action for asked in view.confirmed] == ["kill", "delete"]
    # The button is in a fold, closed, whose heading only opens it.
    fold = page[page.index('id="confirm-kill"') : page.index("</details>", page.index('id="confirm-kill"'))]
    assert "<summary>Kill…</summary>" in fold
    assert f"Kill job {job.pk}?" in fold
    assert 'name="action" value="kill"' in fold
    assert page.count('value="kill"') == 1


# ---- live ------------------------------------------------------------------------------------------------------------


def etag_of(portal: Client, address: str) -> str:
    return str(portal.get(address)["ETag"])


def test_a_heartbeat_changes_the_page_and_nothing_else_does(
    portal: Client, alice: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Mock(wraps=query_directly)
    monkeypatch.setattr(revisions, "query_directly", asked)
    job = make_job(owner=alice, group=group, status=JobStatus.DONE, std_output_tail="before")
    address = f"/jobs/{job.pk}/?tab=output"
    etag = etag_of(portal, address)
    asked.reset_mock()
    with CaptureQueriesContext(connection) as captured:
        assert portal.get(address, headers={"If-None-Match": etag}).status_code == HTTPStatus.NOT_MODIFIED
    assert (asked.call_count, sum("jobs_job" in query["sql"] for query in captured)) == (1, 0)
    OutputTail.objects.filter(job=job).update(std_output="after")
    Job.objects.filter(pk=job.pk).update(heartbeat_at=NOW + timedelta(seconds=30))
    response = portal.get(address, headers={"If-None-Match": etag})
    assert "after" in response.content.decode()


@pytest.mark.parametrize(
    "changes",
    [
        {"status": JobStatus.STALLED},
        {"status_changed_at": NOW + timedelta(seconds=1)},
        {"minor_status": "x"},
        {"application_status": "event 7"},
        {"reschedules": 1},
        {"job_name": "x"},
    ],
)
def test_the_revision_covers_everything_that_the_page_shows(
    changes: Mapping[str, object], portal: Client, alice: User, group: Group
) -> None:
    job = make_job(owner=alice, group=group, status=JobStatus.RUNNING)
    etag = etag_of(portal, f"/jobs/{job.pk}/")
    Job.objects.filter(pk=job.pk).update(**changes)
    assert etag_of(portal, f"/jobs/{job.pk}/") != etag


@pytest.mark.parametrize("status", [JobStatus.WAITING, JobStatus.RUNNING])
def test_times_on_the_page_are_updated_each_minute(
    status: JobStatus, portal: Client, alice: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"/jobs/{make_job(owner=alice, group=group, status=status).pk}/"
    now = timezone.now().replace(second=0)
    monkeypatch.setattr("wms.portal.views.job.current_time", lambda: now)
    before = etag_of(portal, address)
    assert etag_of(portal, address) == before
    monkeypatch.setattr("wms.portal.views.job.current_time", lambda: now + timedelta(seconds=60))
    assert etag_of(portal, address) != before


def test_a_page_that_is_no_longer_visible_is_not_found(vo: Any, client_of: ClientOf) -> None:
    sharing = make_group(vo=vo, shares_jobs=True)
    job, mate = make_job(group=sharing), make_user(groups=[sharing])
    browser = client_of(mate)
    etag = etag_of(browser, f"/jobs/{job.pk}/")
    mate.memberships.all().delete()
    assert browser.get(f"/jobs/{job.pk}/", headers={"If-None-Match": etag}).status_code == HTTPStatus.NOT_FOUND


# ---- costs -----------------------------------------------------------------------------------------------------------


def test_thirty_attempts_cost_no_more_queries_than_one(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group, status=JobStatus.RUNNING, pilot_id=make_pilot().pk)

    def new_attempt(number: int) -> None:
        queue = make_queue()
        match = make_match(job=job, ended_at=NOW)
        match.queue = queue
        match.save()
        OutputTail.objects.create(job=job, attempt=number, std_output="a", std_error="b")
        make_samples(job, (90, 80, 1, 1), step_s=30, attempt=number)
        for status in (JobStatus.WAITING, JobStatus.MATCHED, JobStatus.RESCHEDULED):
            JobHistory.objects.create(job=job, changed_at=NOW, status=status, source="x")
        content = Sandbox.objects.create(digest=f"{number:064d}", size_bytes=1, is_archive=False, created_at=NOW)
        job.input_sandboxes.create(sandbox=content, file_name="a")

    def queries(tab: Tab) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert portal.get(f"/jobs/{job.pk}/?tab={tab}").status_code == HTTPStatus.OK
        return len(captured)

    new_attempt(0)
    one = {tab: queries(tab) for tab in Tab}
    for number in range(1, 30):
        new_attempt(number)
    assert {tab: queries(tab) for tab in Tab} == one
    assert max(one.values()) <= 20  # four of them, of banner, scope and menu, are memoised outside of tests
