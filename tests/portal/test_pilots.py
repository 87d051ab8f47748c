"""Pilots on the portal: visibility, the page of a pilot, and its growing log."""

import re
from dataclasses import asdict
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from pilots.backends.interface import BatchRequest
from pilots.domain.logs import LogPart
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.services import logs
from tests.factories import (
    NOW,
    make_black_hole,
    make_ce,
    make_group,
    make_job,
    make_match,
    make_pilot,
    make_queue,
    make_site,
    make_user,
    make_vo,
)
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.portal.pages import ROWS_PER_PAGE
from wms.portal.presentation.pilots import PILOT_BADGES

pytestmark = pytest.mark.django_db


@pytest.fixture
def manager(vo: VO, client_of: ClientOf) -> Client:
    return client_of(make_user(username="bob", manages=[vo]))


@pytest.fixture
def operator(client_of: ClientOf) -> Client:
    return client_of(make_user(username="olivia", operator=True))


def page_of(pilot: Pilot) -> str:
    return f"/pilots/{pilot.pk}/"


def ids_in(response: Any) -> list[int]:
    return [row.id for row in response.context["rows"]]


def text_of(response: Any) -> str:
    """Return the visible text of a page."""
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


# ---- who sees which --------------------------------------------------------------------------------------------------


def test_a_manager_sees_the_pilots_of_the_vo_and_an_operator_all(manager: Client, operator: Client, vo: VO) -> None:
    mine, others = make_pilot(vo=vo), make_pilot()
    assert ids_in(manager.get("/pilots/")) == [mine.pk]
    assert ids_in(operator.get("/pilots/")) == [others.pk, mine.pk]
    assert manager.get(page_of(others)).status_code == HTTPStatus.NOT_FOUND


def test_a_user_sees_own_private_pilots_only(portal: Client, alice: User, group: Group, vo: VO) -> None:
    make_pilot(vo=vo)
    make_pilot(group=group, owner=make_user(groups=[group]))
    private = make_pilot(group=group, owner=alice)
    assert ids_in(portal.get("/pilots/")) == [private.pk]
    assert portal.get(page_of(private)).status_code == HTTPStatus.OK


@pytest.mark.parametrize("address", ["", "log/", "log.txt"])
def test_invisible_pilots_are_not_found(portal: Client, vo: VO, address: str) -> None:
    pilot = make_pilot(vo=vo)
    logs.append(LogPart(offset=0, text="secret\n"), pilot_id=pilot.pk, now=NOW)
    for key in (pilot.pk, 10**15, 10**30):
        assert portal.get(f"/pilots/{key}/{address}").status_code == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize("address", ["/pilots/", "/pilots/1/", "/pilots/1/log/", "/pilots/1/log.txt"])
def test_an_anonymous_request_is_redirected_to_the_log_in(client: Client, address: str) -> None:
    assert client.get(address)["Location"].startswith("/accounts/login/")


def test_the_link_to_pilots_is_shown_to_managers_and_operators_only(manager: Client, portal: Client) -> None:
    assert b'href="/pilots/"' in manager.get("/jobs/").content
    assert b'href="/pilots/"' not in portal.get("/jobs/").content


# ---- the list --------------------------------------------------------------------------------------------------------


@pytest.fixture
def placed(vo: VO) -> list[Pilot]:
    """Return three pilots at two sites, the newest first."""
    kit, ral = make_site(name="LCG.KIT.de"), make_site(name="LCG.RAL.uk")
    grid = make_queue(name="grid", ce=make_ce(name="ce01", site=kit))
    short = make_queue(name="short", ce=make_ce(name="ce02", site=kit))
    far = make_queue(name="grid", ce=make_ce(name="ce03", site=ral))
    pilots = [
        make_pilot(vo=vo, queue=grid),
        make_pilot(vo=vo, queue=short, status=PilotStatus.FAILED),
        make_pilot(vo=vo, queue=far, status=PilotStatus.STALLED),
    ]
    for number, pilot in enumerate(pilots):
        Pilot.objects.filter(pk=pilot.pk).update(host_name=f"wn{number}", stamp=f"stamp{number}")
    return pilots[::-1]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [0, 1, 2]),
        ("site=LCG.KIT.de", [1, 2]),
        ("queue=grid", [0, 2]),
        ("ce=ce02", [1]),
        ("status=Failed", [1]),
        ("status=Stalled", [0]),
        ("status=Nonsense", [0, 1, 2]),
        ("host=wn0", [2]),
        ("host=wn", []),
        ("stamp=stamp1", [1]),
        ("site=LCG.KIT.de&queue=grid&status=Running", [2]),
        ("before=x", [0, 1, 2]),
        ("unknown=1", [0, 1, 2]),
    ],
)
def test_filters_narrow_the_list_and_invalid_values_are_ignored(
    manager: Client, placed: list[Pilot], query: str, expected: list[int]
) -> None:
    response = manager.get(f"/pilots/?{query}")
    assert response.status_code == HTTPStatus.OK
    assert ids_in(response) == [placed[number].pk for number in expected]


def test_a_row_shows_place_owner_and_reason(manager: Client, placed: list[Pilot], group: Group, alice: User) -> None:
    Pilot.objects.filter(pk=placed[1].pk).update(status_reason="The node is not fit: disk")
    make_pilot(group=group, owner=alice)
    text = text_of(manager.get("/pilots/"))
    assert "Failed The node is not fit: disk lhcb, generic LCG.KIT.de ce02 / short wn1 2026-06-01 12:00:00 –" in text
    assert "Running lhcb, private: alice of lhcb_user – – –" in text


def test_pages_follow_each_other(manager: Client, vo: VO) -> None:
    pilots = [make_pilot(vo=vo).pk for _ in range(ROWS_PER_PAGE + 3)]
    first = manager.get("/pilots/?status=Running")
    assert ids_in(first) == pilots[: -ROWS_PER_PAGE - 1 : -1]
    older = manager.get(f"/pilots/?{first.context['page'].older}")
    assert ids_in(older) == pilots[2::-1]
    assert ids_in(manager.get(f"/pilots/?{older.context['page'].newer}")) == ids_in(first)


def test_an_empty_list_explains_itself(manager: Client) -> None:
    assert "A director sends the first ones" in text_of(manager.get("/pilots/"))
    assert "No pilot fits these filters" in text_of(manager.get("/pilots/?host=x"))


def test_the_number_of_queries_does_not_grow(manager: Client, vo: VO, group: Group) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            manager.get("/pilots/")
        return len(captured)

    make_pilot(vo=vo, queue=make_queue())
    few = queries()
    for _ in range(30):
        make_pilot(group=group, owner=make_user(), queue=make_queue())
    assert queries() == few
    assert few < 14


def test_every_status_has_a_badge() -> None:
    assert set(PILOT_BADGES) == set(PilotStatus)


# ---- one pilot -------------------------------------------------------------------------------------------------------


def test_the_page_shows_times_place_and_node_check(manager: Client, placed: list[Pilot]) -> None:
    checks = [
        {"name": "disk", "ok": True, "detail": "40 GB free"},
        {"name": "work_directory", "ok": False, "detail": "<b>read only</b>"},
    ]
    node = {"ok": False, "batch_id": "4711", "checks": checks, "memory_mb": 8, "swap": None, "gpus": ["a", "b"]}
    Pilot.objects.filter(pk=placed[1].pk).update(
        node=node, status_reason="not fit", started_at=NOW, nothing_at=NOW, nothing_left={"site": 3, "platform": 0}
    )
    response = manager.get(page_of(placed[1]))
    text = text_of(response)
    assert "Failed not fit" in text
    assert "Site LCG.KIT.de CE and queue ce02 / short Host wn1 Batch id 4711 Stamp stamp1" in text
    assert "disk fit 40 GB free work directory not fit &lt;b&gt;read only&lt;/b&gt;" in text
    assert "Memory 8 MB GPUs a, b Swap –" in text
    assert "after site 3 after platform 0" in text
    assert "Started 2026-06-01 12:00:00" in text
    assert "The pilot has had no job." in text


def test_missing_requirements_requested_slot_and_free_resources_are_shown_in_words(
    manager: Client, placed: list[Pilot]
) -> None:
    flaws = [{"name": "software", "detail": "missing: <b>", "at": "2026-06-01T12:00:00+00:00"}]
    scratch = [{"variable": "TMPDIR", "path": "/scratch", "free_mb": 77814.6, "flaw": None}]
    Pilot.objects.filter(pk=placed[1].pk).update(
        node={"ok": True, "flaws": flaws, "scratch": scratch},
        slot=asdict(BatchRequest(queue="grid", wall_time_s=86400, memory_mb=16000)),
        nothing_left={"owner_group": 12, "setup": 12, "cpu_time": 3, "site": 3, "memory": 0, "disk": 0},
    )
    text = text_of(manager.get(page_of(placed[1])))
    assert "Missed by jobs there When (UTC) What Found 2026-06-01 12:00:00 software missing: &lt;b&gt;" in text
    assert "Its node Scratch directories /scratch (TMPDIR): 76 GB free" in text
    assert "Requested from the batch system Processors 1 Memory 16 GB Queue grid Wall time 24 h Its node" in text
    assert "(task queues left) after owner group 12 after cpu time 3 after memory 0 Requested" in text


def test_the_page_says_why_a_living_pilot_gets_no_new_jobs(
    manager: Client, placed: list[Pilot], django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    hole = make_black_hole(site=make_site(), host_name="wn<1>")
    drained, dark = placed[0], placed[2]
    Pilot.objects.filter(pk=drained.pk).update(drained_at=NOW, drain_reason="drained by olga")
    Pilot.objects.filter(pk=dark.pk).update(black_hole=hole)
    text = text_of(manager.get(page_of(drained)))
    assert "Gets no new jobs drained by olga" in text
    assert "Drained 2026-06-01 12:00:00" in text
    with django_assert_max_num_queries(16):  # four of them the banner's, which outside of tests are memoised
        text = text_of(manager.get(page_of(dark)))
    assert "gets no jobs: its host is a black hole" in text
    assert "Its host is a black hole 11 of the 12 jobs that ended here failed; until 2026-06-01 13:00 UTC" in text
    listed = text_of(manager.get("/pilots/"))
    assert "Stalled drained: gets no new jobs" in listed
    Pilot.objects.filter(pk=drained.pk).update(status=PilotStatus.DONE, ended_at=NOW)
    assert "gets no new jobs" not in text_of(manager.get("/pilots/"))


@pytest.mark.parametrize(
    "node",
    [
        {"checks": "all fine", "flaws": 5, "scratch": {"a": 1}, "load": "high", "memory_mb": None},
        {"checks": [{}], "flaws": [{}], "scratch": [None], "load": [None, "x"], "memory_mb": 1e300, "": ""},
    ],
)
def test_a_malformed_node_report_is_shown_safely(manager: Client, vo: VO, node: dict[str, Any]) -> None:
    pilot = make_pilot(vo=vo)
    Pilot.objects.filter(pk=pilot.pk).update(node=node)
    assert manager.get(page_of(pilot)).status_code == HTTPStatus.OK


def test_the_page_of_a_pilot_without_reports(manager: Client, vo: VO) -> None:
    text = text_of(manager.get(page_of(make_pilot(vo=vo))))
    assert "Nothing was reported; a pilot checks its node" in text
    assert "A pilot sends new lines each minute" in text


def test_the_page_lists_the_jobs_newest_first_and_leads_to_them(manager: Client, vo: VO, group: Group) -> None:
    pilot = make_pilot(vo=vo)
    done, running = (
        make_job(group=group, status=status, job_name=status.lower()) for status in (JobStatus.DONE, JobStatus.RUNNING)
    )
    make_match(job=done, pilot=pilot, ended_at=NOW)
    make_match(job=running, pilot=pilot, leased_at=NOW.replace(hour=13))
    make_match()
    response = manager.get(page_of(pilot))
    assert [lease.job_id for lease in response.context["pilot"].leases] == [running.pk, done.pk]
    assert f'href="/jobs/{done.pk}/"' in response.content.decode()
    assert "Jobs (2)" in text_of(response)


def test_of_many_jobs_the_newest_are_shown_and_the_others_counted(manager: Client, vo: VO, group: Group) -> None:
    pilot = make_pilot(vo=vo)
    for _ in range(52):
        make_match(job=make_job(group=group, status=JobStatus.DONE), pilot=pilot, ended_at=NOW)
    assert "Jobs (the newest 50 of 52)" in text_of(manager.get(page_of(pilot)))


def test_the_pilot_page_shows_visible_jobs_only(portal: Client, alice: User, group: Group) -> None:
    pilot = make_pilot(group=group, owner=alice)
    mine = make_job(owner=alice, group=group, status=JobStatus.DONE)
    for job in (mine, make_job(group=group, status=JobStatus.DONE)):
        make_match(job=job, pilot=pilot, ended_at=NOW)
    assert [lease.job_id for lease in portal.get(page_of(pilot)).context["pilot"].leases] == [mine.pk]


# ---- the log ---------------------------------------------------------------------------------------------------------


def test_the_log_is_shown_escaped_and_grows_while_the_pilot_lives(manager: Client, vo: VO) -> None:
    pilot = make_pilot(vo=vo)
    logs.append(LogPart(offset=0, text="one <script>\n"), pilot_id=pilot.pk, now=NOW)
    page = manager.get(page_of(pilot)).content.decode()
    assert "one &lt;script&gt;\n" in page
    assert f'hx-get="/pilots/{pilot.pk}/log/"' in page
    assert "htmx-2.0.7.min.js" in page
    logs.append(LogPart(offset=13, text="two\n"), pilot_id=pilot.pk, now=NOW)
    part = manager.get(f"/pilots/{pilot.pk}/log/")
    assert part.content.decode().strip() == "one &lt;script&gt;\ntwo"
    assert "HX-Refresh" not in part
    whole = manager.get(f"/pilots/{pilot.pk}/log.txt")
    assert (whole.content.decode(), whole["Content-Type"]) == ("one <script>\ntwo\n", "text/plain; charset=utf-8")
    assert whole["X-Content-Type-Options"] == "nosniff"


def test_the_page_of_an_ended_pilot_is_not_polled(manager: Client, vo: VO) -> None:
    pilot = make_pilot(vo=vo, status=PilotStatus.DONE)
    page = manager.get(page_of(pilot)).content.decode()
    assert "hx-get" not in page
    assert "htmx" not in page
    assert "The pilot sent no log, or the log was removed." in page
    assert manager.get(f"/pilots/{pilot.pk}/log/")["HX-Refresh"] == "true"


def test_of_a_long_log_a_page_shows_the_newest_lines(manager: Client, vo: VO) -> None:
    pilot = make_pilot(vo=vo)
    text = "".join(f"line {number}\n" for number in range(9000))
    logs.append(LogPart(offset=0, text=text[:60_000]), pilot_id=pilot.pk, now=NOW)
    logs.append(LogPart(offset=60_000, text=text[60_000:]), pilot_id=pilot.pk, now=NOW)
    page = manager.get(page_of(pilot)).content.decode()
    assert "characters left out" in page
    assert "line 8999\n" in page
    assert "line 9\n" not in page
    assert manager.get(f"/pilots/{pilot.pk}/log.txt").content.decode() == text


def test_batch_system_output_is_shown(manager: Client, vo: VO) -> None:
    pilot = make_pilot(vo=vo, status=PilotStatus.FAILED)
    logs.keep_output("python3: <not found>\n", pilot_id=pilot.pk, now=NOW)
    text = text_of(manager.get(page_of(pilot)))
    assert "Output kept by the batch system python3: &lt;not found&gt;" in text


# ---- the page of a job -----------------------------------------------------------------------------------------------


def test_a_job_page_links_its_pilot_for_permitted_users(
    portal: Client, manager: Client, alice: User, group: Group, vo: VO
) -> None:
    pilot = make_pilot(vo=vo)
    Pilot.objects.filter(pk=pilot.pk).update(host_name="wn7.cern.ch")
    job = make_job(owner=alice, group=group, status=JobStatus.RUNNING, pilot_id=pilot.pk)
    for client, leads in ((portal, False), (manager, True)):
        page = client.get(f"/jobs/{job.pk}/").content.decode()
        assert f"{pilot.pk} on wn7.cern.ch" in page
        assert (f'href="{page_of(pilot)}"' in page) is leads


def test_a_job_page_links_the_private_pilot_for_its_owner(portal: Client, alice: User, group: Group) -> None:
    pilot = make_pilot(group=group, owner=alice)
    job = make_job(owner=alice, group=group, status=JobStatus.RUNNING, pilot_id=pilot.pk)
    assert f'<a href="{page_of(pilot)}">{pilot.pk}</a>' in portal.get(f"/jobs/{job.pk}/").content.decode()


def test_a_job_without_an_existing_pilot_names_none(portal: Client, alice: User, group: Group) -> None:
    for pilot_id in (None, 10**12):
        job = make_job(owner=alice, group=group, status=JobStatus.RUNNING, pilot_id=pilot_id)
        assert "Pilot –" in text_of(portal.get(f"/jobs/{job.pk}/"))


def test_a_sharing_group_sees_the_pilots_made_for_all_of_it(client_of: ClientOf) -> None:
    group = make_group(vo=make_vo(), shares_jobs=True)
    mate = make_user(groups=[group])
    pilot = make_pilot(group=group)
    assert ids_in(client_of(mate).get("/pilots/")) == [pilot.pk]


# ---- sums, actions and search ----------------------------------------------------------------------------------------


def test_managers_see_the_pilots_of_a_day_by_site_and_ce(manager: Client, portal: Client, vo: VO) -> None:
    queue = make_queue()
    made = [make_pilot(vo=vo, queue=queue, status=PilotStatus.DONE), make_pilot(vo=vo, queue=queue), make_pilot()]
    for pilot, age in zip(made, (timedelta(hours=1), timedelta(days=2), timedelta(hours=1)), strict=True):
        Pilot.objects.filter(pk=pilot.pk).update(submitted_at=timezone.now() - age)
    page = manager.get("/pilots/summary/")
    (row,) = page.context["rows"]
    assert (row.values["site"], row.values["ce"]) == (queue.ce.site.name, queue.ce.name)
    assert (row.submitted, row.done, row.percentage) == (1, 1, "0%")
    assert page.context["total"].submitted == 1
    assert "By site and CE" in text_of(manager.get("/pilots/"))
    assert "No pilot that you may see" in text_of(manager.get("/pilots/summary/?host=elsewhere"))
    assert portal.get("/pilots/summary/").status_code == HTTPStatus.NOT_FOUND
    assert "By site and CE" not in text_of(portal.get("/pilots/"))


@pytest.mark.parametrize(("action", "column"), [("drain", "drained_at"), ("kill", "revoked_at")])
def test_selected_pilots_are_drained_and_killed_after_a_question_with_numbers(
    manager: Client, vo: VO, group: Group, action: str, column: str
) -> None:
    first, second, other = make_pilot(vo=vo), make_pilot(vo=vo), make_pilot()
    make_match(pilot=first, job=make_job(group=group, status=JobStatus.RUNNING))
    body = {"action": action, "ids": [first.pk, second.pk, other.pk]}
    question = manager.post("/pilots/actions/", body)
    assert f"{action.capitalize()} 2 pilots?" in text_of(question)
    assert "the 1 job that they have now" in text_of(question)
    without_reason = manager.post("/pilots/actions/", {**body, "confirmed": "1", "shown": "2"})
    assert "This field is required." in text_of(without_reason)
    assert not Pilot.objects.exclude(**{column: None}).exists()
    done = manager.post(
        "/pilots/actions/", {**body, "confirmed": "1", "shown": "2", "reason": "new kernel"}, follow=True
    )
    assert "2 pilots" in text_of(done)
    assert set(Pilot.objects.exclude(**{column: None})) == {first, second}
    first.refresh_from_db()
    assert "bob: new kernel" in (first.drain_reason or first.status_reason)


def test_all_that_a_filter_finds_are_drained(manager: Client, vo: VO) -> None:
    here, there = make_pilot(vo=vo), make_pilot(vo=vo)
    Pilot.objects.filter(pk=here.pk).update(host_name="here")
    body = {"action": "drain", "scope": "all", "confirmed": "1", "shown": "1", "reason": "new kernel"}
    for refused in ("/pilots/actions/", "/pilots/actions/?nothing=1", "/pilots/actions/?status=Nothing"):
        assert "all pilots at once are not accepted" in text_of(manager.post(refused, body, follow=True))
    assert "1 pilot drained." in text_of(manager.post("/pilots/actions/?host=here", body, follow=True))
    assert "were drained before" in text_of(manager.post("/pilots/actions/?host=here", body, follow=True))
    for pilot in (here, there):
        pilot.refresh_from_db()
    assert (here.drained_at is None, there.drained_at is None) == (False, True)


def test_more_pilots_than_were_shown_are_asked_back(manager: Client, vo: VO) -> None:
    for _ in range(2):
        make_pilot(vo=vo)
    body = {"action": "kill", "scope": "all", "confirmed": "1", "shown": "1", "reason": "new kernel"}
    page = manager.post("/pilots/actions/?status=Running", body)
    assert "2 pilots are selected now instead of 1" in text_of(page)
    assert not Pilot.objects.exclude(revoked_at=None).exists()


def test_those_who_manage_nothing_have_no_actions_on_pilots(portal: Client, alice: User, group: Group) -> None:
    private = make_pilot(group=group, owner=alice)
    assert "Kill" not in text_of(portal.get("/pilots/"))
    body = {"action": "kill", "ids": [private.pk], "confirmed": "1", "shown": "1", "reason": "x"}
    assert portal.post("/pilots/actions/", body).status_code == HTTPStatus.NOT_FOUND


def test_lines_of_the_log_are_found_on_the_page(manager: Client, vo: VO) -> None:
    pilot = make_pilot(vo=vo)
    text = "".join(f"line {number}\n" for number in range(2000))
    logs.append(LogPart(offset=0, text=text), pilot_id=pilot.pk, now=NOW)
    page = manager.get(f"{page_of(pilot)}?contains=LINE 17")
    assert page.context["found"].matches == 111
    assert "18: line 17" in text_of(page)
    assert "0 lines contain" in text_of(manager.get(f"{page_of(pilot)}?contains=<b>"))
