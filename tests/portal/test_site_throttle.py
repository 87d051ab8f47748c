"""Throttle and limits on the page of a site: gauges, forms, and the expression tried while it is typed."""

import re
from datetime import timedelta
from html import unescape
from http import HTTPStatus
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from resources.domain.enums import ThrottlePolicy
from resources.models import Queue, Site, ThrottleState
from taskqueues.models import Limit
from tests.factories import make_ce, make_group, make_queue, make_site, make_task_queue, make_user, make_vo
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO, ConfigurationChange, Group, User

pytestmark = pytest.mark.django_db

SITE = "/sites/LCG.CERN.ch/"
THROTTLE = {"policy": "matches", "max_matches": "5", "when_expired": "count", "advertisement_s": "300"}
SENTENCE = "The throttle closes the site LCG.CERN.ch at once."


@pytest.fixture
def queue(group: Group) -> Queue:
    return make_queue(name="grid", ce=make_ce(name="ce01", site=Site.objects.get(name="LCG.CERN.ch")))


@pytest.fixture
def manager(vo: VO, queue: Queue, client_of: ClientOf) -> Client:
    return client_of(make_user(username="mallory", manages=[vo]))


def advertised(site: Site, *, matched: int = 0, room: int | None = None, **numbers: int) -> None:
    now = timezone.now()
    text = "\n".join(f"{name} = {number}" for name, number in numbers.items())
    ThrottleState.objects.create(
        site=site, advertised=numbers, classad=text, gateways=[], advertised_at=now, measured_at=now,
        expires_at=now + timedelta(minutes=15), matched=matched, room=room,
    )  # fmt: skip


def text_of(response: Any) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


def meters_of(response: Any) -> list[tuple[str, str]]:
    return re.findall(r'<meter min="0" max="(\d+)" value="(\d+)" aria-label="[A-Z][^"]*">', response.content.decode())


def shown(client: Client, address: str = SITE) -> Any:
    response = client.get(address)
    assert response.status_code == HTTPStatus.OK
    return response


# ---- Throttle --------------------------------------------------------------------------------------------------------


def test_a_gauge_shows_the_matches_left_and_when_the_next_advertisement_is_due(portal: Client, queue: Queue) -> None:
    Site.objects.update(throttle_policy=ThrottlePolicy.MATCHES, max_matches=20)
    advertised(queue.ce.site, matched=17, room=20)
    page = shown(portal)
    assert "3 of 20 matches left" in text_of(page)
    assert "Next advertisement due" in text_of(page)
    assert meters_of(page) == [("20", "17")]
    assert "Set policy, maxima" not in text_of(page)


def test_a_manager_sets_the_throttle_and_its_history_says_so(manager: Client, queue: Queue) -> None:
    answer = manager.post(f"{SITE}throttle/", THROTTLE)
    assert (answer.status_code, answer["Location"]) == (HTTPStatus.FOUND, SITE)
    site = Site.objects.get(pk=queue.ce.site_id)
    assert (site.throttle_policy, site.max_matches, site.throttle_advertisement_s) == ("matches", 5, 300)
    assert "The throttle of LCG.CERN.ch is set." in text_of(shown(manager))
    assert "max_matches: 5" in text_of(shown(manager))
    changes = ConfigurationChange.objects.count()
    manager.post(f"{SITE}throttle/", THROTTLE)
    assert ConfigurationChange.objects.count() == changes


def test_a_throttle_that_closes_the_site_is_set_only_when_that_is_confirmed(manager: Client, queue: Queue) -> None:
    body = {**THROTTLE, "max_matches": "0"}
    page = manager.post(f"{SITE}throttle/", body)
    assert page.status_code == HTTPStatus.BAD_REQUEST
    assert f"Nothing was changed. {SENTENCE}" in text_of(page)
    assert f'name="confirmed" value="{SENTENCE}"' in page.content.decode()
    assert Site.objects.get(pk=queue.ce.site_id).throttle_policy == ""
    assert "open" in re.findall(r'<details class="fold" id="change-throttle"([^>]*)>', page.content.decode())[0]
    assert manager.post(f"{SITE}throttle/", {**body, "confirmed": SENTENCE}).status_code == HTTPStatus.FOUND
    assert Site.objects.get(pk=queue.ce.site_id).max_matches == 0


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"max_matches": ""}, "The policy matches requires this value."),
        ({"max_matches": "-1"}, "Ensure this value is greater than or equal to 0."),
        ({"policy": "custom", "requirements": "CurMatches <"}, "Not a ClassAd expression"),
        ({"policy": "level9"}, "Select a valid choice."),
    ],
)
def test_wrong_settings_are_refused_at_their_fields_and_change_nothing(
    manager: Client, queue: Queue, body: dict[str, str], sentence: str
) -> None:
    page = manager.post(f"{SITE}throttle/", {**THROTTLE, **body})
    assert page.status_code == HTTPStatus.BAD_REQUEST
    assert sentence in text_of(page)
    assert Site.objects.get(pk=queue.ce.site_id).throttle_policy == ""


# ---- The expression while it is typed --------------------------------------------------------------------------------


def tried(client: Client, requirements: str) -> str:
    response = client.post(f"{SITE}throttle/try/", {"requirements": requirements})
    assert response.status_code == HTTPStatus.OK
    return unescape(text_of(response))


def test_an_expression_is_tried_with_the_last_advertisement_and_a_waiting_job(
    manager: Client, group: Group, alice: User, queue: Queue
) -> None:
    without = tried(manager, "TRUE")
    assert "Without an advertisement: TRUE no such job starts No job waits that you may see" in without
    assert "The site has no value of CurMatches, which the policy custom requires." in without
    make_task_queue(group=group, owner=alice, job_ids=[1], memory_mb=4000)
    advertised(queue.ce.site, CurMatches=2, FreeSlots=7)
    shown_ = tried(manager, 'curmatches < 5 && FreeSlots > 3 && Owner == "alice"')
    assert "With the last advertisement: TRUE jobs start" in shown_
    for read in ("CurMatches of the site 2", "FreeSlots of the site 7", 'Owner of the job "alice"'):
        assert read in shown_
    assert "TARGET: a waiting job of alice in lhcb_user." in shown_
    assert "FALSE no such job starts" in tried(manager, "TARGET.Memory > 9000")
    undefined = tried(manager, "CurMatchez < 5")
    assert "UNDEFINED no such job starts CurMatchez neither site nor job have it UNDEFINED" in undefined
    assert 'Did you mean "CurMatches"?' in undefined
    assert "ERROR" in tried(manager, '1 / 0 == 1 || "a" + 1 == 2')
    assert Site.objects.get(pk=queue.ce.site_id).throttle_requirements == ""


def test_a_mistake_in_an_expression_is_said_with_its_place(manager: Client) -> None:
    assert "Line 1, column 13: A value is expected here" in tried(manager, "CurMatches <")
    assert "longer than" in tried(manager, "1 + " * 20_000 + "1")
    assert "not computed: it takes too long" in tried(manager, " + ".join(["size({1,2,3,4,5,6,7,8})"] * 700) + " > 0")
    assert tried(manager, "  ") == ""


def test_an_expression_is_tried_only_by_those_who_may_change_the_site_and_with_jobs_that_they_may_see(
    portal: Client, vo: VO, queue: Queue, client_of: ClientOf
) -> None:
    address = f"{SITE}throttle/try/"
    assert portal.post(address, {"requirements": "TRUE"}).status_code == HTTPStatus.NOT_FOUND
    atlas = make_group(name="atlas_user", vo=make_vo(name="atlas"))
    make_task_queue(group=atlas, job_ids=[1])
    queue.ce.site.vos.clear()
    assert "atlas_user" in tried(client_of(make_user(operator=True)), "Owner =!= undefined")
    queue.ce.site.vos.set([vo])
    assert "No job waits that you may see" in tried(client_of(make_user(operator=True)), "Owner =!= undefined")


# ---- Limits ----------------------------------------------------------------------------------------------------------


def limited(client: Client, **body: str) -> Any:
    return client.post(f"{SITE}limits/", {"limit": "", **body})


def test_a_manager_adds_changes_and_deletes_a_limit_whose_room_is_shown(manager: Client, queue: Queue) -> None:
    assert limited(manager, running="50", ce="ce01", reason="a small farm").status_code == HTTPStatus.FOUND
    limit = Limit.objects.get()
    assert ConfigurationChange.objects.latest("pk").facts["changes"] == {"running": "50", "reason": "a small farm"}
    assert (limit.site, limit.ce, limit.running) == (queue.ce.site, queue.ce, 50)
    page = shown(manager)
    assert "limit 50: 0 run, room for 50" in text_of(page)
    assert meters_of(page) == [("50", "0")]
    assert limited(manager, limit=str(limit.pk), running="40", delay_s="2.5").status_code == HTTPStatus.FOUND
    limit.refresh_from_db()
    assert (limit.running, limit.delay_s) == (40, 2.5)
    assert limited(manager, limit=str(limit.pk), delete="1").status_code == HTTPStatus.FOUND
    assert not Limit.objects.exists()
    assert "The limit on all at the CE ce01 of the site LCG.CERN.ch is deleted." in text_of(shown(manager))


def test_a_limit_that_stops_jobs_is_confirmed_and_a_wrong_one_refused(manager: Client, queue: Queue) -> None:
    page = limited(manager, running="0")
    assert page.status_code == HTTPStatus.BAD_REQUEST
    sentence = "The limit on all at the site LCG.CERN.ch lets no job start."
    assert f"Nothing was changed. {sentence}" in text_of(page)
    assert not Limit.objects.exists()
    assert limited(manager, running="0", confirmed=sentence).status_code == HTTPStatus.FOUND
    for body, words in (
        ({}, "Give running, waiting, cpu_s_per_day or delay_s."),
        ({"running": "5"}, "bounds this for the same scope"),
        ({"running": "5", "ce": "ce02"}, "Select a valid choice."),
        ({"delay_s": "1", "burst": "0"}, "Ensure this value is greater than or equal to 1."),
    ):
        page = limited(manager, **body)
        assert page.status_code == HTTPStatus.BAD_REQUEST
        assert words in text_of(page)
    assert Limit.objects.count() == 1


def test_limits_at_the_site_are_on_a_vo_a_group_or_a_user_of_the_managers(
    manager: Client, queue: Queue, vo: VO, alice: User, group: Group
) -> None:
    atlas = make_group(name="atlas_user", vo=make_vo(name="atlas"))
    stranger = make_user(username="stranger", groups=[atlas])
    for scope, of in (("vo", vo), ("group", group), ("user", alice)):
        assert limited(manager, running="50", **{scope: str(of)}).status_code == HTTPStatus.FOUND
        limit = Limit.objects.latest("pk")
        assert (limit.site, getattr(limit, scope)) == (queue.ce.site, of)
    page = text_of(shown(manager))
    assert "the user alice at the site LCG.CERN.ch" in page
    assert "stranger" not in page
    refused = limited(manager, running="50", user=stranger.username)
    assert "You have no user of exactly this name" in text_of(refused)
    assert "You have no user of exactly this name" in text_of(limited(manager, running="50", user="nobody"))
    assert "Select a valid choice." in text_of(limited(manager, running="50", group="atlas_user"))
    assert Limit.objects.count() == 3


def test_throttle_and_limits_are_changed_only_by_those_who_may(
    portal: Client, manager: Client, vo: VO, queue: Queue, client_of: ClientOf
) -> None:
    elsewhere = Limit.objects.create(site=make_site(name="elsewhere", vos=[vo]), running=3)
    assert limited(manager, limit=str(elsewhere.pk), running="4").status_code == HTTPStatus.NOT_FOUND
    for number in ("x", "99999999999999999999", "0"):
        assert limited(manager, limit=number, running="4").status_code == HTTPStatus.NOT_FOUND
    queue.ce.site.vos.add(make_vo(name="atlas"))
    for client in (portal, manager):
        assert client.post(f"{SITE}throttle/", THROTTLE).status_code == HTTPStatus.NOT_FOUND
        assert limited(client, running="5").status_code == HTTPStatus.NOT_FOUND
        assert "Add a limit" not in text_of(shown(client))
    operator = client_of(make_user(operator=True))
    assert limited(operator, running="5").status_code == HTTPStatus.FOUND
    assert operator.post(f"{SITE}throttle/", THROTTLE).status_code == HTTPStatus.FOUND


def test_the_number_of_queries_does_not_grow_with_limits(manager: Client, queue: Queue) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            shown(manager)
        return len(captured)

    Limit.objects.create(site=queue.ce.site, running=3)
    queries()
    few = queries()
    for number in range(10):
        Limit.objects.create(site=queue.ce.site, job_type=f"type{number}", running=3, cpu_s_per_day=100)
    queries()
    assert queries() == few
