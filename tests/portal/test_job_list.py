"""The list of jobs: its search box, menus, counts, columns, order and side table."""

from datetime import timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from pilots.models import Pilot
from tests.factories import (
    NOW,
    make_group,
    make_job,
    make_match,
    make_pilot,
    make_queue,
    make_site,
    make_submission,
    make_user,
)
from tests.portal.conftest import ClientOf
from wms.accounts.models import Group, Membership, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.queries import breakdown
from wms.portal import revisions
from wms.portal.pages import ROWS_PER_PAGE
from wms.portal.presentation.columns import COLUMNS
from wms.portal.search import query_of

pytestmark = pytest.mark.django_db


def ids_in(response: Any) -> list[int]:
    return [row.id for row in response.context["rows"]]


def search(client: Client, text: str, **more: str) -> Any:
    return client.get("/jobs/", {"q": text, **more})


def q_of(address: str) -> str:
    """Return the query in an address or a query string."""
    return parse_qs(urlsplit(address).query or address.lstrip("?"))["q"][0]


# ---- the search box --------------------------------------------------------------------------------------------------


def test_each_key_narrows_the_list(portal: Client, alice: User, group: Group) -> None:
    pilot = make_pilot()
    Pilot.objects.filter(pk=pilot.pk).update(host_name="wn1.cern.ch")
    site = make_site(name="LCG.RAL.uk")
    now = timezone.now()
    wanted = make_job(
        owner=alice,
        group=group,
        status=JobStatus.FAILED,
        site=site,
        pilot_id=pilot.pk,
        submitted_at=now - timedelta(days=3),
        job_name="scan-7",
        job_group="two words",
        job_type="Sim",
    )
    make_match(job=wanted, pilot=pilot, ended_at=NOW)
    Job.objects.filter(pk=wanted.pk).update(exit_code=2, minor_status="Exited with code 2")
    other = make_job(owner=alice, group=group, submitted_at=now, job_name="other")
    for text in (
        f"id:{wanted.pk}", "name:scan-*", "scan", "status:failed", "site:LCG.RAL.uk", "host:wn1.cern.ch", "before:2d",
        "since:4d before:1d", "exit:2", 'reason:"Exited with code *"', 'label:"two words"', "type:Sim",
        f"submission:{wanted.submission_id}", "status:failed,stalled since:30d exit:2 site:LCG.RAL.uk owner:alice",
    ):  # fmt: skip
        assert ids_in(search(portal, text)) == [wanted.pk], text
    assert ids_in(search(portal, "since:1d")) == [other.pk]
    assert ids_in(search(portal, "group:lhcb_user vo:lhcb")) == [other.pk, wanted.pk]


def test_a_bare_number_opens_the_page_of_the_job(portal: Client) -> None:
    assert search(portal, " 71 ")["Location"] == "/jobs/71/"


def test_unknown_words_are_reported_and_stay_in_the_search_box(portal: Client, alice: User, group: Group) -> None:
    failed = make_job(owner=alice, group=group, status=JobStatus.FAILED)
    make_job(owner=alice, group=group)
    response = search(portal, "stats:x status:failed")
    assert ids_in(response) == [failed.pk]
    page = response.content.decode()
    assert "There is no key &quot;stats&quot;. Did you mean &quot;status&quot;?" in page
    assert 'value="stats:x status:failed"' in page
    assert 'aria-describedby="search-errors"' in page


def test_a_value_that_is_too_long_is_reported_and_ignored(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group)
    response = search(portal, f"group:{'g' * 65}")
    assert ids_in(response) == [job.pk]
    assert "at most 64 characters" in response.content.decode()


def test_a_wrong_owner_does_not_widen_the_list(client_of: ClientOf, alice: User, group: Group) -> None:
    make_job(owner=alice, group=group)
    operator = make_user(operator=True)
    assert ids_in(search(client_of(operator), f"owner:{'a' * 200}")) == []


def test_jobs_of_others_are_listed_only_for_an_owner_or_all(vo: Any, client_of: ClientOf) -> None:
    sharing = make_group(vo=vo, shares_jobs=True)
    bob, mate = make_user(groups=[sharing]), make_user(username="mate", groups=[sharing])
    own, of_mate = make_job(owner=bob, group=sharing), make_job(owner=mate, group=sharing)
    make_job(owner=make_user(username="stranger"))
    browser = client_of(bob)
    assert ids_in(search(browser, "")) == [own.pk]
    assert ids_in(search(browser, "owner:*")) == [of_mate.pk, own.pk]
    assert ids_in(search(browser, "owner:mate")) == [of_mate.pk]
    assert ids_in(search(browser, "owner:stranger")) == []


def test_an_empty_list_offers_a_wider_one(portal: Client) -> None:
    response = search(portal, "status:failed")
    assert "Search all jobs that I may see" in response.content.decode()
    assert q_of(response.context["all_owners_query"]) == "status:Failed owner:*"
    assert "Search all jobs" not in search(portal, "owner:*").content.decode()


# ---- menus, counts, order --------------------------------------------------------------------------------------------


def test_menus_end_in_the_query(portal: Client) -> None:
    form = {
        "menu": "filters", "q": "name:scan-* status:done site:LCG.PIC.es since:3d", "status": ["Failed", "Stalled"],
        "site": "LCG.CERN.ch", "since": "", "group": "lhcb_user", "whose": "*", "order": "oldest",
    }  # fmt: skip
    address = portal.get("/jobs/", form)["Location"]
    assert q_of(address) == "name:scan-* status:Failed,Stalled site:LCG.CERN.ch group:lhcb_user owner:*"
    assert "order=oldest" in address


def test_a_deselected_status_is_removed_from_the_query(portal: Client) -> None:
    assert q_of(portal.get("/jobs/", {"menu": "filters", "q": "status:done scan"})["Location"]) == "name:*scan*"


def test_menus_show_what_the_query_says(portal: Client, alice: User, group: Group) -> None:
    make_site(name="LCG.RAL.uk", vos=[make_group().vo])
    menus = search(portal, "status:failed,done since:3h owner:bob").context["menus"]
    assert [option.value for option in menus.statuses if option.is_chosen] == ["Failed", "Done"]
    chosen = {menu.name: [option.label for option in menu.options if option.is_chosen] for menu in menus.others}
    assert chosen == {"site": ["any"], "since": ["3h"], "group": ["any"], "whose": ["bob"]}
    menus = search(portal, "").context["menus"]
    assert [option.value for option in menus.others[0].options] == ["", "LCG.CERN.ch", "LCG.PIC.es"]
    assert [option.value for option in menus.others[2].options] == ["", "lhcb_user"]


def test_counts_switch_statuses_on_and_off(portal: Client, alice: User, group: Group) -> None:
    for status in (JobStatus.WAITING, JobStatus.DONE, JobStatus.DONE, JobStatus.DELETED):
        make_job(owner=alice, group=group, status=status)
    counts = search(portal, "status:waiting,failed").context["counts"]
    assert [(chip.status, chip.count, chip.is_chosen) for chip in counts.chips] == [
        ("Waiting", 1, True),
        ("Failed", 0, True),
        ("Done", 2, False),
    ]
    assert counts.total == 1
    assert [q_of(chip.query) for chip in counts.chips] == [
        "status:Failed",
        "status:Waiting",
        "status:Waiting,Failed,Done",
    ]
    assert search(portal, "").context["counts"].total == 3
    deleted = search(portal, "status:deleted").context
    assert [row.status for row in deleted["rows"]] == ["Deleted"]
    assert deleted["counts"].total == 1


def test_counts_that_no_counter_has_are_of_the_newest_jobs(
    portal: Client, alice: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    for status in (JobStatus.FAILED, JobStatus.DONE, JobStatus.DONE):
        make_job(owner=alice, group=group, status=status)
    Job.objects.update(minor_status="lost")
    assert search(portal, "reason:lost").context["counts"].is_whole
    monkeypatch.setattr(breakdown.breakdown, "__kwdefaults__", {"newest": 2})
    response = search(portal, "reason:lost")
    assert [(chip.status, chip.count) for chip in response.context["counts"].chips] == [("Done", 2)]
    page = response.content.decode()
    assert "of the newest 2" in page
    assert "all that match" in page


def test_the_oldest_jobs_may_come_first_and_pages_lead_through_all(portal: Client, alice: User, group: Group) -> None:
    submission = make_submission(owner=alice, group=group)
    jobs = [make_job(submission=submission, status=JobStatus.DONE).pk for _ in range(2 * ROWS_PER_PAGE + 3)]
    pages, address = [], "/jobs/?order=oldest&q=status:done"
    while address:
        response = portal.get(address)
        pages.append(ids_in(response))
        newer = response.context["pager"].next
        address = f"/jobs/?{newer}" if newer else ""
    assert [pk for page in pages for pk in page] == jobs
    back = portal.get(f"/jobs/?{response.context['pager'].previous}")
    assert ids_in(back) == pages[1]
    first = portal.get(f"/jobs/?{back.context['pager'].previous}")
    assert ids_in(first) == pages[0]
    assert first.context["pager"].previous == ""


# ---- columns ---------------------------------------------------------------------------------------------------------


def test_chosen_columns_stay_chosen(portal: Client, alice: User, group: Group) -> None:
    make_job(owner=alice, group=group, job_group="my label")
    assert "my label" not in portal.get("/jobs/").content.decode()
    form = {"menu": "columns", "q": "status:waiting", "columns": ["label", "priority", "nonsense"]}
    response = portal.get("/jobs/", form)
    assert q_of(response["Location"]) == "status:Waiting"
    assert response.cookies["job_columns"]["httponly"]
    response = portal.get("/jobs/")
    assert [column.name for column in response.context["columns"]] == ["label", "priority"]
    assert "my label" in response.content.decode()
    portal.get("/jobs/", {"menu": "columns", "q": ""})
    shown = [column.name for column in portal.get("/jobs/").context["columns"]]
    assert shown == ["name", "why", "site", "submitted", "changed"]
    of_all = [column.name for column in search(portal, "owner:*").context["columns"]]
    assert of_all == ["name", "why", "owner", "group", "site", "submitted", "changed"]


def test_every_column_can_be_shown(portal: Client, alice: User, group: Group) -> None:
    queue = make_queue()
    job = make_job(owner=alice, group=group, status=JobStatus.DONE, site=queue.ce.site, queue=queue)
    make_job(owner=alice, group=group)
    Job.objects.filter(pk=job.pk).update(cpu_s=7500, wall_s=59, max_memory_mb=1234.4, exit_code=0, started_at=NOW)
    portal.cookies["job_columns"] = ",".join(COLUMNS)
    response = portal.get("/jobs/")
    row = response.context["rows"][1]
    assert {cell.label: cell.value for cell in row.cells}["Memory MB"] == 1234
    page = response.content.decode()
    for text in ("2 h 05 min", "59 s", "1,234", queue.name, queue.ce.name):
        assert text in page


# ---- the side table --------------------------------------------------------------------------------------------------


def test_the_list_is_broken_down_by_each_property(portal: Client, alice: User, group: Group) -> None:
    pilot = make_pilot()
    Pilot.objects.filter(pk=pilot.pk).update(host_name="wn1.cern.ch")
    site = make_site(name="LCG.RAL.uk")
    submission = make_submission(owner=alice, group=group)
    for number in range(3):
        job = make_job(
            submission=submission, status=JobStatus.FAILED, site=site, pilot_id=pilot.pk, job_name=f"scan-{number}"
        )
        make_match(job=job, pilot=pilot, ended_at=NOW)
    waiting = make_job(owner=alice, group=group)
    Job.objects.filter(site=site).update(minor_status="lost")
    make_job(group=group)
    for by, value, label in (
        ("site", "LCG.RAL.uk", "LCG.RAL.uk"),
        ("reason", "lost", "lost"),
        ("host", "wn1.cern.ch", "wn1.cern.ch"),
        ("submission", str(submission.pk), "scan-*"),
    ):
        side = search(portal, "", by=by).context["side"]
        assert (side.title.lower(), side.rows[0].label, side.rows[0].jobs, len(side.rows)) == (by, label, 3, 2)
        assert q_of(side.rows[0].query) == q_of(query_of({by: value}))
        assert f"by={by}" in side.rows[0].query
        assert side.is_whole
    assert search(portal, "status:waiting", by="host").context["side"].rows[0].label == "none yet"
    assert ids_in(search(portal, "status:waiting", by="nonsense")) == [waiting.pk]


def test_the_side_table_is_bounded_and_says_so(
    portal: Client, alice: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(15):
        job = make_job(owner=alice, group=group, status=JobStatus.FAILED)
        Job.objects.filter(pk=job.pk).update(minor_status=f"reason {number:02}")
    side = search(portal, "", by="reason").context["side"]
    assert (len(side.rows), side.more, side.counted, side.is_whole) == (12, 3, 15, True)
    monkeypatch.setattr(breakdown.breakdown, "__kwdefaults__", {"newest": 4})
    response = search(portal, "", by="reason")
    assert [row.label for row in response.context["side"].rows] == [f"reason {number}" for number in range(11, 15)]
    assert "of the newest 4 jobs" in response.content.decode()


# ---- costs -----------------------------------------------------------------------------------------------------------


def test_thirty_jobs_need_no_more_queries_than_one(portal: Client, alice: User, group: Group) -> None:
    sides = ("site", "reason", "host", "submission")

    def new_job() -> None:
        queue = make_queue()
        make_job(owner=alice, group=group, status=JobStatus.RUNNING, site=queue.ce.site, queue=queue)

    def queries(by: str) -> int:
        portal.get("/jobs/")  # so that the stream of changes is read before
        with CaptureQueriesContext(connection) as captured:
            assert search(portal, "status:running name:*", by=by).status_code == HTTPStatus.OK
        return len(captured)

    new_job()
    one = {by: queries(by) for by in sides}
    for _ in range(29):
        new_job()
    assert {by: queries(by) for by in sides} == one


def test_an_unchanged_list_is_not_sent_again(portal: Client, alice: User, group: Group) -> None:
    make_job(owner=alice, group=group)
    etag = portal.get("/jobs/")["ETag"]
    assert portal.get("/jobs/", headers={"If-None-Match": etag}).status_code == HTTPStatus.NOT_MODIFIED
    portal.cookies["job_columns"] = "label"
    assert portal.get("/jobs/", headers={"If-None-Match": etag}).status_code == HTTPStatus.OK


def test_the_menu_of_sites_ends_with_the_membership(
    alice: User, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # with the memos of brief results, as in a server
    browser = client_of(alice)
    assert "LCG.CERN.ch" in browser.get("/jobs/").content.decode()
    Membership.objects.filter(user=alice).delete()
    revisions._scopes.forget()  # those of a second ago
    assert "LCG.CERN.ch" not in browser.get("/jobs/").content.decode()
