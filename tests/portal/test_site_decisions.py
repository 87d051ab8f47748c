"""States of sites, computing elements and queues, set on the page of the site."""

import re
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from pilots.domain.pilot import PilotStatus
from resources.domain.enums import ResourceState, ThrottlePolicy, WhenExpired
from resources.models import ComputingElement, Queue, Site
from tests.factories import make_ce, make_job, make_pilot, make_queue, make_site, make_user, make_vo
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO, Group, SecurityEvent, User
from wms.kernel.time_texts import to_the_second

pytestmark = pytest.mark.django_db

ADDRESS = "/sites/LCG.CERN.ch/"
BAN = {"state": "banned", "reason": "storage is moved", "for_s": "7200"}


@pytest.fixture
def queue(group: Group) -> Queue:
    """Return a queue of the site that only the group's VO uses."""
    return make_queue(name="grid", ce=make_ce(name="ce01", site=Site.objects.get(name="LCG.CERN.ch")))


@pytest.fixture
def mallory(vo: VO, queue: Queue) -> User:
    return make_user(username="mallory", manages=[vo])


@pytest.fixture
def manager(mallory: User, client_of: ClientOf) -> Client:
    return client_of(mallory)


def send(client: Client, body: dict[str, str], *, level: str = "site", to: str = ADDRESS) -> Any:
    place = {"site": {}, "ce": {"ce": "ce01"}, "queue": {"ce": "ce01", "queue": "grid"}}[level]
    return client.post(f"{to}state/", {**place, **body})


def row_of(queue: Queue, level: str) -> Site | ComputingElement | Queue:
    rows: dict[str, Site | ComputingElement | Queue] = {"site": queue.ce.site, "ce": queue.ce, "queue": queue}
    rows[level].refresh_from_db()
    return rows[level]


def text_of(response: Any) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


def forms_of(response: Any) -> list[str]:
    """Return the places that have a form, and its buttons."""
    shown = re.findall(r'<details class="fold decide".*?</details>', response.content.decode(), re.DOTALL)
    places = [re.findall(r"the state of the ([^<]*)<", form)[0] for form in shown]
    buttons = [", ".join(re.findall(r"<button[^>]*>([^<]*)<", form)) for form in shown]
    return [f"{place}: {labels}" for place, labels in zip(places, buttons, strict=True)]


@pytest.mark.parametrize(
    ("level", "place"),
    [
        ("site", "Site LCG.CERN.ch"),
        ("ce", "Computing element ce01 at site LCG.CERN.ch"),
        ("queue", "Queue grid of computing element ce01 at site LCG.CERN.ch"),
    ],
)
def test_a_manager_bans_each_level_and_allows_it_again(
    manager: Client, mallory: User, queue: Queue, level: str, place: str
) -> None:
    answer = send(manager, BAN, level=level)
    assert (answer.status_code, answer["Location"]) == (HTTPStatus.FOUND, ADDRESS)
    row = row_of(queue, level)
    assert (row.state, row.state_reason, row.state_changed_by) == ("banned", "storage is moved", mallory)
    assert row.state_until is not None
    assert timedelta(minutes=119) < row.state_until - timezone.now() <= timedelta(hours=2)
    event = SecurityEvent.objects.get(kind="resource.state_changed")
    assert (event.actor, event.target) == (mallory, f"{place[0].lower()}{place[1:]}")
    page = manager.get(ADDRESS)
    assert f"{place} is banned until {to_the_second(row.state_until)}." in text_of(page)
    assert f"{place[0].lower()}{place[1:]}: Change reason and end, Drain, Allow" in forms_of(page)
    assert (
        send(manager, {"state": "active", "reason": "", "for_s": "7200"}, level=level).status_code == HTTPStatus.FOUND
    )
    row = row_of(queue, level)
    assert (row.state, row.state_reason, row.state_until) == ("active", "", None)
    assert f"{place} is active." in text_of(manager.get(ADDRESS))


def test_without_a_duration_the_state_has_no_end(manager: Client, queue: Queue) -> None:
    send(manager, {"state": "draining", "reason": "new kernel", "for_s": ""})
    site = row_of(queue, "site")
    assert (site.state, site.state_until) == ("draining", None)


def test_buttons_are_those_that_the_state_permits(manager: Client, queue: Queue) -> None:
    ComputingElement.objects.update(state=ResourceState.DRAINING, state_reason="new kernel")
    ended = timezone.now() - timedelta(seconds=1)
    Site.objects.update(state=ResourceState.BANNED, state_reason="over", state_until=ended)
    page = manager.get(ADDRESS)
    assert forms_of(page) == [
        "site LCG.CERN.ch: Drain, Ban",
        "computing element ce01 at site LCG.CERN.ch: Change reason and end, Ban, Allow",
        "queue grid of computing element ce01 at site LCG.CERN.ch: Drain, Ban",
    ]
    assert "The queue itself is active; the state shown is that of its CE." in text_of(page)


def test_physicists_and_managers_of_a_shared_site_see_no_form_and_change_nothing(
    portal: Client, manager: Client, queue: Queue, client_of: ClientOf
) -> None:
    queue.ce.site.vos.add(make_vo(name="atlas"))
    for client, sentence in ((portal, ""), (manager, "This site also serves VOs that you do not manage; an operator")):
        page = client.get(ADDRESS)
        assert forms_of(page) == []
        assert ("an operator changes" in text_of(page)) == bool(sentence)
        assert sentence in text_of(page)
        assert not any(name in page.context for name in ("history", "change_url", "changes_url"))
        for level in ("site", "ce", "queue"):
            assert send(client, BAN, level=level).status_code == HTTPStatus.NOT_FOUND
            assert row_of(queue, level).state == "active"
    queue.ce.site.vos.set(VO.objects.filter(name="atlas"))
    assert manager.get(ADDRESS).status_code == HTTPStatus.NOT_FOUND
    operator = client_of(make_user(username="olga", operator=True))
    assert len(forms_of(operator.get(ADDRESS))) == 3
    assert send(operator, BAN).status_code == HTTPStatus.FOUND
    assert row_of(queue, "site").state == "banned"


def test_a_place_that_the_site_does_not_have_is_not_found(manager: Client, queue: Queue) -> None:
    make_queue(name="other", ce=make_ce(name="ce02", site=make_site(name="elsewhere", vos=[make_vo(name="atlas")])))
    for place in (
        {"ce": "ce02"},
        {"ce": "ce02", "queue": "other"},
        {"ce": "ce01", "queue": "other"},
        {"queue": "grid"},
    ):
        assert manager.post(f"{ADDRESS}state/", {**BAN, **place}).status_code == HTTPStatus.NOT_FOUND
    assert send(manager, BAN, to="/sites/elsewhere/").status_code == HTTPStatus.NOT_FOUND
    assert not ComputingElement.objects.exclude(state="active").exists()
    assert Client(enforce_csrf_checks=True).post(f"{ADDRESS}state/", BAN).status_code == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"reason": " "}, "Give the reason why it is banned; users see it."),
        ({"reason": "<b>" * 99}, "Use at most 255 characters."),
        ({"reason": "one\ntwo"}, "Write one line, without control characters."),
        ({"for_s": "1"}, "Select a valid choice."),
        ({"state": "closed"}, "Select a valid choice."),
    ],
)
def test_a_refusal_is_shown_in_the_form_with_what_was_typed(
    manager: Client, queue: Queue, body: dict[str, str], sentence: str
) -> None:
    page = send(manager, {**BAN, "for_s": "86400", **body}, level="queue")
    assert page.status_code == HTTPStatus.BAD_REQUEST
    (opened,) = re.findall(r'<details class="fold decide"[^>]* open>.*?</details>', page.content.decode(), re.DOTALL)
    assert "the state of the queue grid" in opened
    assert sentence in opened
    assert (body.get("reason", BAN["reason"]).strip().replace("<", "&lt;").replace(">", "&gt;")) in opened
    assert "<b>" not in opened
    assert ('value="86400" selected' in opened) == ("for_s" not in body)
    assert "ETag" not in page
    assert row_of(queue, "queue").state == "active"


def test_the_last_changes_of_the_site_are_shown_escaped_with_links_for_staff(
    manager: Client, vo: VO, queue: Queue, client_of: ClientOf
) -> None:
    for number in range(6):
        send(manager, {**BAN, "reason": f"<i>{number}</i>"})
    page = manager.get(ADDRESS)
    assert [entry.who for entry in page.context["history"]] == 5 * ["mallory"]
    text = page.content.decode()
    assert "reason: &lt;i&gt;4&lt;/i&gt; → &lt;i&gt;5&lt;/i&gt;" in text
    # The first of the six.
    assert "active → banned" not in text
    assert "<i>" not in text
    assert "All changes" not in text
    staff = client_of(make_user(username="bob", manages=[vo], staff=True))
    address = re.findall(r'href="([^"]*)">All changes', staff.get(ADDRESS).content.decode())[0]
    assert "state: active → banned" in text_of(staff.get(address))


def test_the_throttle_shows_policy_room_and_why_it_is_closed(
    manager: Client, portal: Client, vo: VO, queue: Queue, client_of: ClientOf
) -> None:
    Site.objects.update(throttle_policy=ThrottlePolicy.MATCHES, max_matches=5)
    assert "open Policy matches Room for more matches counted at the next match" in text_of(portal.get(ADDRESS))
    etag = portal.get(ADDRESS)["ETag"]
    Site.objects.update(throttle_when_expired=WhenExpired.CLOSED)
    page = portal.get(ADDRESS, headers={"If-None-Match": etag})
    assert "closed The site has never advertised" in text_of(page)
    assert "Change the throttle" not in text_of(page) + text_of(manager.get(ADDRESS))
    staff = client_of(make_user(username="bob", manages=[vo], staff=True))
    address = re.findall(r'href="([^"]*)">Change the throttle', staff.get(ADDRESS).content.decode())[0]
    assert staff.get(address).status_code == HTTPStatus.OK


def test_the_number_of_pilots_leads_to_their_list(manager: Client, vo: VO, queue: Queue) -> None:
    running, _ = make_pilot(vo=vo, queue=queue), make_pilot(vo=vo, queue=queue, status=PilotStatus.WAITING)
    addresses = re.findall(r'href="(/pilots/\?[^"]*)">1<', manager.get(ADDRESS).content.decode())
    assert addresses == [f"/pilots/?site=LCG.CERN.ch&amp;status={status}" for status in ("Running", "Waiting")]
    listed = manager.get(addresses[0].replace("&amp;", "&")).context["rows"]
    assert [row.id for row in listed] == [running.pk]


def test_the_number_of_queries_does_not_grow_with_queues_and_changes(manager: Client, queue: Queue) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            manager.get(ADDRESS)
        return len(captured)

    send(manager, BAN)
    queries()
    few = queries()
    for number in range(10):
        ce = make_ce(name=f"ce1{number}", site=queue.ce.site)
        make_queue(ce=ce)
        make_queue(ce=ce)
        send(manager, BAN)
    queries()
    assert queries() == few


def test_the_form_says_beforehand_how_many_jobs_a_ban_concerns(manager: Client, queue: Queue) -> None:
    make_job(sites=["LCG.CERN.ch"])
    says = "No further job starts at site LCG.CERN.ch. 0 jobs run there; 1 job waits that can run nowhere else."
    assert f"Banned or draining: {says}" in text_of(manager.get(ADDRESS))
    asked = send(manager, {**BAN, "ce": "", "queue": ""})
    assert asked.status_code == HTTPStatus.BAD_REQUEST
    assert f"Nothing was changed. {says} Confirm what is meant." in text_of(asked)
    assert "Banned or draining:" in text_of(manager.get(ADDRESS))
    send(manager, {**BAN, "confirmed": "No further job starts at site LCG.CERN.ch."})
    page = text_of(manager.get(ADDRESS))
    assert says in page
    assert "Banned or draining:" not in page
