"""Pilots that offer more than their slot, or ask again and again, hold jobs for one slot only."""

from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from pytest_django import Settings
from rest_framework.test import APIClient

from matching.models import Match
from matching.services import leases
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from resources.models import Queue
from tests.factories import make_ce, make_group, make_job, make_pilot, make_pilot_token, make_queue, make_site
from tests.pace import within
from wms.accounts.models import Group
from wms.wire.protocol import Usage

MOST = 2**31 - 1
pytestmark = pytest.mark.django_db


@pytest.fixture
def group() -> Group:
    return make_group()


def pilot_at(queue: Queue | None, group: Group) -> Pilot:
    return make_pilot(vo=group.vo, queue=queue)


def queue_of(group: Group, **slot: Any) -> Queue:
    return make_queue(ce=make_ce(site=make_site(vos=[group.vo])), **{"memory_mb": 0, **slot})


def ask(pilot: Pilot, *, max_jobs: int = 100, **more: Any) -> int:
    """Ask for jobs as the attacker does; return the number of leases."""
    everything: dict[str, Any] = dict.fromkeys(("processors", "memory_mb", "gpus", "disk_mb"), MOST)
    offer = OfferRequest(cpu_time_s=300_000, **{**everything, **more})
    return len(match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=max_jobs, chance=Random(1)))


def jobs(group: Group, number: int, **asked: Any) -> None:
    for _ in range(number):
        make_job(group=group, **asked)


@pytest.mark.parametrize("processors", [1, 4])
def test_leases_never_exceed_the_slot_of_the_pilot(processors: int, group: Group) -> None:
    jobs(group, 9)
    pilot = pilot_at(queue_of(group, processors=processors), group)
    assert ask(pilot) == processors
    assert [ask(pilot), ask(pilot, max_jobs=1), ask(pilot, processors=1)] == [0, 0, 0]
    assert Match.objects.filter(pilot=pilot, ended_at=None).count() == processors


@pytest.mark.parametrize(
    ("slot", "asked"),
    [
        ({"processors": 8, "memory_mb": 4000}, {"memory_mb": 2000}),
        ({"processors": 8, "gpus": 2}, {"gpus": 1}),
        ({"processors": 8, "disk_mb": 20_000}, {"disk_mb": 10_000}),
        ({"processors": 5}, {"processors": 2}),
    ],
)
def test_memory_gpus_and_disk_are_bounded_by_the_slot(
    slot: dict[str, int], asked: dict[str, int], group: Group
) -> None:
    jobs(group, 9, **asked)
    pilot = pilot_at(queue_of(group, **slot), group)
    assert [ask(pilot), ask(pilot)] == [2, 0]


def test_a_small_job_fits_beside_large_ones_that_do_not(group: Group) -> None:
    pilot = pilot_at(queue_of(group, processors=5), group)
    jobs(group, 4, processors=2)
    jobs(group, 2, processors=1)
    assert ask(pilot, max_jobs=2, processors=4) >= 1
    while ask(pilot):
        pass
    used = sum(lease.job.description["processors"] for lease in Match.objects.filter(pilot=pilot))
    assert used == 5


def test_an_ended_job_frees_its_part_of_the_slot(group: Group) -> None:
    jobs(group, 3)
    pilot = pilot_at(queue_of(group), group)
    for _ in range(3):
        assert ask(pilot) == 1
        lease = Match.objects.get(pilot=pilot, ended_at=None)
        leases.finish(lease.pk, exit_code=0, minor=None, usage=Usage(), output_sandbox=None)
    assert ask(pilot) == 0


def test_a_whole_node_job_gets_the_whole_node(group: Group) -> None:
    jobs(group, 1, processors=64, memory_mb=250_000)
    pilot = pilot_at(queue_of(group, processors=64, memory_mb=256_000), group)
    assert ask(pilot, processors=64, memory_mb=256_000) == 1


def test_a_pilot_of_unknown_queue_is_bounded(group: Group, settings: Settings) -> None:
    settings.WMS_MAX_PILOT_PROCESSORS = 3
    jobs(group, 9)
    pilot = pilot_at(None, group)
    assert [ask(pilot), ask(pilot)] == [3, 0]


def test_where_a_pilot_may_be_at_several_queues_the_smallest_slot_is_the_bound(group: Group) -> None:
    jobs(group, 9)
    site = make_site(vos=[group.vo])
    for processors in (8, 2):
        make_queue(ce=make_ce(site=site), processors=processors)
    pilot = make_pilot(vo=group.vo, site=site)
    assert [ask(pilot), ask(pilot)] == [2, 0]


def test_a_pilot_whose_slot_is_too_small_gets_the_reason(group: Group) -> None:
    pilot = pilot_at(queue_of(group, processors=2), group)
    jobs(group, 3)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_pilot_token(pilot)}")
    offer = {"cpu_time_s": 300_000, "processors": 8, "max_jobs": 8}

    first, second = (client.post("/api/v1/matches/", {**offer, "request_id": uuid4()}, format="json") for _ in range(2))

    assert (len(first.json()["leases"]), second.status_code) == (2, 204)
    assert second["X-WMS-Why"] == (
        f"The offer exceeds a slot of queue {pilot.queue} (processors 2); the pilot gets jobs for one slot only. "
        "If the slots are larger, correct the configuration of the queue."
    )


@pytest.mark.django_db(transaction=True)
def test_simultaneous_requests_do_not_exceed_the_slot(group: Group) -> None:
    jobs(group, 30)
    pilot = pilot_at(queue_of(group, processors=3), group)
    together = Barrier(8)

    def one(_: int) -> int:
        try:
            together.wait(timeout=within(60))
            return ask(pilot)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(one, range(8))) == 3
    assert Match.objects.filter(pilot=pilot, ended_at=None).count() == 3
