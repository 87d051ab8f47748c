"""Downtimes on the page of a site: shown to whoever sees it, declared and ended by those who may change it."""

from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from resources.models import Downtime, Queue, Site
from tests.factories import make_ce, make_downtime, make_queue, make_user
from tests.portal.conftest import ClientOf
from tests.portal.test_site_decisions import text_of
from wms.accounts.models import VO, Group, User

pytestmark = pytest.mark.django_db

ADDRESS = "/sites/LCG.CERN.ch/"
TIMES = {"begins_at": "2035-12-31T08:00", "ends_at": "2035-12-31T16:00"}
BEGIN = datetime(2035, 12, 31, 8, tzinfo=UTC)


@pytest.fixture
def queue(group: Group) -> Queue:
    return make_queue(name="grid", ce=make_ce(name="ce01", site=Site.objects.get(name="LCG.CERN.ch")))


@pytest.fixture
def mallory(vo: VO, queue: Queue) -> User:
    return make_user(username="mallory", manages=[vo])


@pytest.fixture
def manager(mallory: User, client_of: ClientOf) -> Client:
    return client_of(mallory)


def send(client: Client, **fields: object) -> Any:
    return client.post(f"{ADDRESS}downtimes/", {**TIMES, "place": "", "reason": "new disks", **fields})


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("", "site LCG.CERN.ch"),
        ("ce01", "computing element ce01 at site LCG.CERN.ch"),
        ("ce01/grid", "queue grid of computing element ce01 at site LCG.CERN.ch"),
    ],
)
def test_a_manager_declares_a_downtime_of_each_level_and_withdraws_it(
    manager: Client, mallory: User, portal: Client, place: str, words: str
) -> None:
    assert send(manager, place=place).status_code == HTTPStatus.FOUND
    (row,) = Downtime.objects.all()
    assert (row.begins_at, row.reason, row.declared_by) == (BEGIN, "new disks", mallory)
    page, shown = text_of(manager.get(ADDRESS)), f"{words} 2035-12-31 08:00:00 2035-12-31 16:00:00 new disks here"
    assert f"The downtime of the {words} is declared; running there: 0 jobs." in page
    assert f"{shown} Withdraw the downtime of the {words}" in page
    seen = text_of(portal.get(ADDRESS))
    assert shown in seen
    assert "Withdraw" not in seen
    assert "Declare a downtime" not in seen
    assert manager.post(f"{ADDRESS}downtimes/", {"end": row.pk}).status_code == HTTPStatus.FOUND
    assert not Downtime.objects.exists()
    assert "None runs or is planned." in text_of(manager.get(ADDRESS))


def test_a_manager_changes_a_downtime_in_its_row(manager: Client, portal: Client, queue: Queue) -> None:
    row = make_downtime(queue, begins_at=BEGIN, reason="old disks")
    page = manager.get(ADDRESS).content.decode()
    assert f'name="change" value="{row.pk}"' in page
    assert 'value="2035-12-31T10:00"' in page
    assert 'name="change"' not in portal.get(ADDRESS).content.decode()
    refused = send(manager, change=row.pk, ends_at="2035-12-31T07:00", reason="tapes")
    assert refused.status_code == HTTPStatus.BAD_REQUEST
    assert "The end must be after the begin" in text_of(refused)
    assert f'open id="change-downtime-{row.pk}"' in refused.content.decode()
    assert 'open id="declare-downtime"' not in refused.content.decode()
    assert send(manager, change=row.pk).status_code == HTTPStatus.FOUND
    words = "queue grid of computing element ce01 at site LCG.CERN.ch"
    assert f"The downtime of the {words} is changed; running there: 0 jobs." in text_of(manager.get(ADDRESS))
    row.refresh_from_db()
    assert (row.level, row.ends_at.hour, row.reason) == (queue, 16, "new disks")


def test_one_of_another_site_or_from_gocdb_is_not_changed(manager: Client, queue: Queue) -> None:
    elsewhere = make_downtime(make_ce(), begins_at=BEGIN)
    announced = make_downtime(queue.ce, begins_at=BEGIN)
    Downtime.objects.filter(pk=announced.pk).update(source="gocdb", external_id="1")
    assert "change-downtime" not in manager.get(ADDRESS).content.decode()
    assert send(manager, change=elsewhere.pk).status_code == HTTPStatus.NOT_FOUND
    assert "This downtime is announced in GOCDB; change it there." in text_of(send(manager, change=announced.pk))
    assert set(Downtime.objects.values_list("reason", flat=True)) == {"maintenance"}


def test_a_running_downtime_from_gocdb_is_ended_and_one_ahead_is_not(manager: Client, queue: Queue) -> None:
    running = make_downtime(queue.ce, begins_at=timezone.now() - timedelta(hours=1))
    ahead = make_downtime(queue.ce, begins_at=BEGIN)
    for row in (running, ahead):
        Downtime.objects.filter(pk=row.pk).update(source="gocdb", external_id=str(row.pk))
    page = text_of(manager.get(ADDRESS))
    assert ("End now" in page, "Withdraw" in page, "in GOCDB" in page) == (True, False, True)
    manager.post(f"{ADDRESS}downtimes/", {"end": running.pk})
    manager.post(f"{ADDRESS}downtimes/", {"end": ahead.pk})
    assert "This downtime is announced in GOCDB; change it there." in text_of(manager.get(ADDRESS))
    running.refresh_from_db()
    assert running.ends_at <= timezone.now()
    assert Downtime.objects.count() == 2


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"ends_at": TIMES["begins_at"]}, "The end must be after the begin"),
        ({"begins_at": "2020-01-01T00:00", "ends_at": "2020-01-02T00:00"}, "This time is past"),
        ({"begins_at": "soon"}, "Enter a valid date/time."),
        ({"reason": "x" * 256}, "Use one line of at most 255 characters."),
        ({"reason": "a\x1b[31mb"}, "Use one line of at most 255 characters."),
    ],
)
def test_what_is_refused_is_shown_in_the_form_again(manager: Client, fields: dict[str, object], sentence: str) -> None:
    answer = send(manager, **fields)
    assert answer.status_code == HTTPStatus.BAD_REQUEST
    assert sentence in text_of(answer)
    assert 'value="2035-12-31T' in answer.content.decode() or "begins_at" in fields
    assert not Downtime.objects.exists()


def test_those_who_may_not_change_the_site_find_no_address(
    manager: Client, portal: Client, client_of: ClientOf
) -> None:
    assert send(portal).status_code == HTTPStatus.NOT_FOUND
    assert send(client_of(make_user())).status_code == HTTPStatus.NOT_FOUND
    assert send(manager, place="other").status_code == HTTPStatus.NOT_FOUND
    for key in ("0", "x", "9" * 40, "²"):
        assert manager.post(f"{ADDRESS}downtimes/", {"end": key}).status_code == HTTPStatus.NOT_FOUND
        assert send(manager, change=key).status_code == HTTPStatus.NOT_FOUND
    assert not Downtime.objects.exists()
