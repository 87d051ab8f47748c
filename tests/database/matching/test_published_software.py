"""Software that queues publish, by tags or the parameter SoftwareTag, is compared before a match (ADR 34)."""

from random import Random
from typing import Any
from uuid import uuid4

import pytest

from matching.services.claim import Claimed
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from resources.models import ComputingElement, Queue, Site
from taskqueues.models import TaskQueue
from tests.factories import make_ce, make_group, make_job, make_pilot, make_queue, make_site, make_vo
from wms.accounts.models import Group

pytestmark = pytest.mark.django_db


@pytest.fixture
def group() -> Group:
    return make_group()


def leases_of(pilot: Pilot, **offered: Any) -> list[Claimed]:
    request = OfferRequest(**{"cpu_time_s": 300_000, "memory_mb": 4000, **offered})
    return list(match(request, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1)))


def is_matched(queue: Queue, group: Group, **offered: Any) -> bool:
    """Return whether a pilot at the queue gets a job."""
    return bool(leases_of(make_pilot(vo=group.vo, queue=queue), **offered))


PUBLICATIONS: list[dict[str, Any]] = [
    {"tags": ["root6", "python"]},
    {"parameters": {"SoftwareTag": ["root6", "python"]}},
    {"parameters": {"softwaretag": "root6"}},
]


@pytest.mark.parametrize("published", PUBLICATIONS)
def test_published_software_is_compared_before_the_match(group: Group, published: dict[str, Any]) -> None:
    without, publishing = make_queue(), make_queue(**published)
    make_job(group=group, software=["root6"])
    assert not is_matched(without, group)
    assert is_matched(publishing, group)


def test_software_that_no_queue_publishes_is_left_to_the_node(group: Group) -> None:
    make_queue(tags=["root6"])
    make_job(group=group, software=["/opt/tool"])
    (lease,) = leases_of(make_pilot(vo=group.vo, queue=make_queue()))
    assert lease.description["software"] == ["/opt/tool"]


def test_all_published_software_must_be_published_by_one_queue(group: Group) -> None:
    one, other = make_queue(tags=["root6"]), make_queue(tags=["geant4"])
    both = make_queue(tags=["root6"], parameters={"SoftwareTag": "geant4"})
    make_job(group=group, software=["root6", "geant4"])
    assert not is_matched(one, group)
    assert not is_matched(other, group)
    assert is_matched(both, group)


def test_parameters_are_inherited_and_replaced_as_others_are(group: Group) -> None:
    site = make_site()
    Site.objects.filter(pk=site.pk).update(parameters={"SoftwareTag": ["root6"]})
    ce = make_ce(site=site)
    ComputingElement.objects.filter(pk=ce.pk).update(vo_parameters={group.vo.name: {"SoftwareTag": ["geant4"]}})
    replaced, inherited = make_queue(ce=ce), make_queue(ce=make_ce(site=site))
    make_job(group=group, software=["root6"])
    assert not is_matched(replaced, group)
    assert is_matched(inherited, group)


def test_software_published_for_other_vos_is_ignored(group: Group) -> None:
    other = make_vo()
    make_queue(ce=make_ce(site=make_site(vos=[other])), tags=["root6"])
    make_queue(vo_parameters={other.name: {"SoftwareTag": "root6"}})
    make_job(group=group, software=["root6"])
    assert is_matched(make_queue(), group)


def test_tags_that_a_pilot_offers_publish_nothing(group: Group) -> None:
    make_queue(tags=["root6"])
    make_job(group=group, software=["root6"])
    assert not is_matched(make_queue(), group, tags=("root6",))


def test_changes_of_resources_hold_for_jobs_that_wait(group: Group) -> None:
    first, second = make_queue(), make_queue()
    job = make_job(group=group, software=["root6"])
    waits_in = TaskQueue.objects.get().pk
    Queue.objects.filter(pk=first.pk).update(parameters={"SoftwareTag": "root6"})
    assert not is_matched(second, group)
    Queue.objects.filter(pk=second.pk).update(tags=["root6"])
    Queue.objects.filter(pk=first.pk).update(parameters={})
    assert not is_matched(first, group)
    assert TaskQueue.objects.get(queued_jobs=job.pk).pk == waits_in
    assert is_matched(second, group)


def test_the_lease_leaves_out_what_the_queue_publishes(group: Group) -> None:
    publishing = make_queue(tags=["root6"])
    make_job(group=group, software=["root6", "/opt/tool", "python3"])
    pilot = make_pilot(vo=group.vo, queue=publishing)
    request, request_id = OfferRequest(cpu_time_s=300_000, memory_mb=4000), uuid4()
    for _ in ("asked", "asked again"):
        (lease,) = match(request, request_id=request_id, pilot_id=pilot.pk, max_jobs=1, chance=Random(1))
        assert lease.description["software"] == ["/opt/tool", "python3"]


# ---- a queue that is not known


def two_queues(**first: Any) -> tuple[Queue, Queue]:
    site = make_site(name="S.TWO")
    return make_queue(name="first", ce=make_ce(site=site), **first), make_queue(name="second", ce=make_ce(site=site))


@pytest.mark.parametrize(("named", "is_given"), [({"site": "S.TWO"}, False), ({"queue": "first"}, True)])
def test_every_possible_queue_must_publish_it(group: Group, named: dict[str, str], is_given: bool) -> None:
    two_queues(tags=["root6"])
    make_job(group=group, software=["root6"])
    assert bool(leases_of(make_pilot(vo=group.vo), **named)) is is_given


def test_software_published_by_all_possible_queues_is_not_checked_on_the_node(group: Group) -> None:
    _, second = two_queues(tags=["root6"])
    Queue.objects.filter(pk=second.pk).update(parameters={"SoftwareTag": ["root6", "geant4"]})
    make_queue()
    make_job(group=group, software=["root6", "/opt/tool"])
    (lease,) = leases_of(make_pilot(vo=group.vo), site="S.TWO")
    assert lease.description["software"] == ["/opt/tool"]


def test_a_possible_place_without_queue_publishes_nothing(group: Group) -> None:
    first, second = two_queues(tags=["root6"])
    Queue.objects.filter(pk=second.pk).update(tags=["root6"])
    make_ce(site=first.ce.site)
    make_job(group=group, software=["root6"])
    assert not leases_of(make_pilot(vo=group.vo), site="S.TWO")
