"""The pages of computing elements and queues, and the runs and directors on them and on the page of a site."""

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
from pilots.models import CEHealth, DirectorDecision, DirectorRun
from resources.domain.enums import ResourceState
from resources.models import ComputingElement, Queue, Site
from tests.factories import (
    make_bucket,
    make_ce,
    make_group,
    make_job,
    make_match,
    make_pilot,
    make_queue,
    make_user,
    make_vo,
)
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db

SITE = "/sites/LCG.CERN.ch/"
CE = f"{SITE}ces/ce01/"
QUEUE = f"{CE}queues/grid/"


@pytest.fixture
def queue(group: Group) -> Queue:
    """Return a queue of the site that only the group's VO uses."""
    return make_queue(name="grid", ce=make_ce(name="ce01", site=Site.objects.get(name="LCG.CERN.ch")))


@pytest.fixture
def manager(vo: VO, queue: Queue, client_of: ClientOf) -> Client:
    return client_of(make_user(username="mallory", manages=[vo]))


def text_of(response: Any) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


def page_of(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == HTTPStatus.OK
    return text_of(response)


def decided(queue: Queue, *decision: object) -> None:
    DirectorDecision.objects.update_or_create(
        ce=queue.ce, defaults={"decided_at": timezone.now(), "queues": {queue.pk: decision}}
    )


def ended(status: JobStatus, queue: Queue, *, owner: User, group: Group, cpu_s: float = 0.0) -> None:
    at = timezone.now() - timedelta(hours=1)
    job = make_job(owner=owner, group=group, status=status, site=queue.ce.site, queue=queue, submitted_at=at)
    Job.objects.filter(pk=job.pk).update(cpu_s=cpu_s, wall_s=100.0, ce=queue.ce)
    make_match(job=job, pilot=make_pilot(vo=group.vo, status=PilotStatus.DONE), leased_at=at, ended_at=at)


def test_a_ce_and_a_queue_have_pages_for_those_who_see_their_site(
    portal: Client, queue: Queue, client_of: ClientOf
) -> None:
    site = page_of(portal, SITE)
    assert "ce01 grid active" in site
    for address in (CE, QUEUE):
        assert "Runs of the last 24 hours" in page_of(portal, address)
    for unknown in (f"{SITE}ces/ce02/", f"{CE}queues/long/"):
        assert portal.get(unknown).status_code == HTTPStatus.NOT_FOUND
    stranger = client_of(make_user(groups=[make_group(vo=make_vo(name="atlas"))]))
    for address in (CE, QUEUE):
        assert stranger.get(address).status_code == HTTPStatus.NOT_FOUND


def test_a_state_is_set_on_the_page_of_the_place_which_shows_who_set_it(manager: Client, queue: Queue) -> None:
    body = {"ce": "ce01", "queue": "grid", "state": "banned", "reason": "new disks", "for_s": "", "stay": "1"}
    answer = manager.post(f"{SITE}state/", body)
    assert answer["Location"] == QUEUE
    page = page_of(manager, QUEUE)
    assert "banned new disks Set by mallory" in page
    assert "No pilots are sent: the queue is banned." in page
    ComputingElement.objects.update(state=ResourceState.DRAINING, state_reason="kernel")
    assert "Its computing element is draining: kernel." in page_of(manager, QUEUE)


def test_those_who_may_not_change_the_site_see_the_reasons_without_numbers_and_names(
    portal: Client, manager: Client, queue: Queue
) -> None:
    decided(queue, 1102, 0, "throttled")
    CEHealth.objects.create(ce=queue.ce, trouble="sbatch: secret-account is unknown", free_slots=77)
    for address in (SITE, CE, QUEUE):
        shown = page_of(portal, address)
        assert "Throttled: the throttle of the site or a limit leaves no room." in shown
        assert not any(secret in shown for secret in ("1,102", "1102", "secret-account", "77", "Set by"))
        assert "leaves no room. 1,102 jobs without a pilot on the way" in page_of(manager, address)
    assert "secret-account" in page_of(manager, CE)


def test_the_directors_words_are_those_of_the_present_state_of_the_place(manager: Client, queue: Queue) -> None:
    assert "No cycle of the directors has considered it yet." in page_of(manager, QUEUE)
    decided(queue, 3, 2, None)
    DirectorRun.objects.create(pk=1, ran_at=timezone.now(), running_since=timezone.now())
    assert "2 pilots sent. 3 jobs without a pilot on the way" in page_of(manager, QUEUE)
    later = timezone.now() + timedelta(minutes=5)
    CEHealth.objects.create(ce=queue.ce, failures=2, ask_after=later, send_after=later, trouble="No such host.")
    assert "backing off until" in page_of(manager, QUEUE)
    assert "UTC: No such host." in page_of(manager, QUEUE)
    Queue.objects.update(max_waiting_pilots=0)
    CEHealth.objects.update(ask_after=None, send_after=None)
    assert "The site starts the pilots; directors send none." in page_of(manager, QUEUE)


def test_a_site_shows_all_runs_of_24_hours_from_the_accounting(
    portal: Client, alice: User, group: Group, queue: Queue
) -> None:
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    atlas = make_group(vo=make_vo(name="atlas"))
    rows = (
        (alice, group, 1, {"done": 3, "failed": 1, "cpu_s": 90.0, "wall_s": 100.0}),
        (make_user(groups=[group]), group, 24, {"done": 6000, "cpu_s": 0.0, "wall_s": 100.0}),
        (alice, group, 26, {"failed": 9}),
        (make_user(groups=[atlas]), atlas, 1, {"failed": 5}),
    )
    for owner, of_group, hours_ago, numbers in rows:
        make_bucket(
            owner=owner, group=of_group, begun_at=hour - timedelta(hours=hours_ago), site=queue.ce.site, **numbers
        )
    runs = portal.get(SITE).context["runs"]
    assert [(each.text, each.efficiency) for each in runs] == [("3 of 4", "90 %"), ("6,003 of 6,004", "45 %")]


def test_a_ce_and_a_queue_show_a_declared_sample_of_runs(
    portal: Client, alice: User, group: Group, queue: Queue
) -> None:
    ended(JobStatus.DONE, queue, owner=alice, group=group, cpu_s=80.0)
    ended(JobStatus.FAILED, queue, owner=make_user(groups=[group]), group=group)
    ended(JobStatus.DONE, make_queue(name="other", ce=queue.ce), owner=alice, group=group)
    atlas = make_group(vo=make_vo(name="atlas"))
    ended(JobStatus.FAILED, queue, owner=make_user(groups=[atlas]), group=atlas)
    for address, own, of_all in ((CE, "2 of 2", "2 of 3"), (QUEUE, "1 of 1", "1 of 2")):
        page = portal.get(address)
        assert [each.text for each in page.context["runs"]] == [own, of_all]
        assert "All runs that ended here within 24 hours" in text_of(page)
    assert [each.efficiency for each in portal.get(QUEUE).context["runs"]] == ["80 %", "40 %"]


def test_pilots_are_counted_by_ce_queue_and_status(portal: Client, manager: Client, vo: VO, queue: Queue) -> None:
    make_pilot(vo=vo, queue=queue)
    make_pilot(vo=vo, queue=make_queue(name="long", ce=queue.ce), status=PilotStatus.WAITING)
    make_pilot(vo=make_vo(name="atlas"), queue=queue)
    assert portal.get(CE).context["pilots"] == 2
    assert portal.get(CE).context["pilots_by_status"] == []
    assert {(part.label, part.count) for part in manager.get(CE).context["pilots_by_status"]} == {
        ("Running", 1),
        ("Waiting", 1),
    }
    assert portal.get(QUEUE).context["pilots"] == 1
    site = manager.get(SITE).context
    assert ([ce.pilots for ce in site["ces"]], [each.pilots for each in site["queues"]]) == ([2], [1, 1])


@pytest.mark.parametrize("address", [SITE, CE])
def test_the_number_of_queries_does_not_grow_with_places(manager: Client, vo: VO, queue: Queue, address: str) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert manager.get(address).status_code == HTTPStatus.OK
        return len(captured)

    decided(queue, 3, 2, None)
    make_pilot(vo=vo, queue=queue)
    queries()
    few = queries()
    for number in range(10):
        ce = make_ce(name=f"ce1{number}", site=queue.ce.site)
        for at in (ce, queue.ce):
            more = make_queue(name=f"q{number}", ce=at)
            make_pilot(vo=vo, queue=more)
        CEHealth.objects.create(ce=ce, trouble="No such host.")
        decided(more, 1, 0, "full")
    queries()
    assert queries() == few
