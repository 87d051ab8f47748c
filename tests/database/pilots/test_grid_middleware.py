"""Pilots for jobs that ask for a grid middleware go only to computing elements of that kind (TQM, ADR 37)."""

from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from pilots.models import Director, Pilot
from resources.models import ComputingElement, Queue
from taskqueues.models import Limit, TaskQueue
from tests.cases import quick_cases
from tests.database.pilots.conftest import Fleet
from tests.database.pilots.test_provisioning import sent_pilots
from tests.factories import make_ce, make_group, make_queue, make_site, make_task_queue
from wms.accounts.models import Group

pytestmark = pytest.mark.django_db

_job_ids = count(5_000_001)


@pytest.fixture
def group() -> Group:
    return make_group()


@pytest.fixture
def local() -> Queue:
    """Return a queue with free room, of a CE that names no middleware and so has that of its type."""
    return make_queue(max_waiting_pilots=90, ce=make_ce(type="local"))


@pytest.fixture
def arc() -> Queue:
    """Return a queue of a CE whose middleware differs from its type."""
    queue = make_queue(max_waiting_pilots=50, ce=make_ce(type="ssh", options={"host": "h"}))
    ComputingElement.objects.filter(pk=queue.ce_id).update(middleware="ARC")
    return queue


def waiting(jobs: int, *, group: Group, middlewares: Sequence[str] = (), **requirements: Any) -> TaskQueue:
    ids = [next(_job_ids) for _ in range(jobs)]
    return make_task_queue(group=group, job_ids=ids, grid_middlewares=middlewares, **requirements)


def sent_to() -> Counter[int | None]:
    return Counter(Pilot.objects.filter(submitted_at__isnull=False).values_list("queue_id", flat=True))


@pytest.mark.parametrize("kind", ["site", "taskqueue"])
@pytest.mark.parametrize(
    ("middlewares", "places"),
    quick_cases(
        [([], {"local", "arc"}), (["ARC"], {"arc"}), (["arc"], {"arc"}), (["Local"], {"local"}), (["ssh"], set())],
        quick=2,
    ),
)
def test_pilots_go_to_computing_elements_of_the_middleware(
    fleet: Fleet, local: Queue, arc: Queue, group: Group, kind: str, middlewares: list[str], places: set[str]
) -> None:
    Director.objects.create(name="all", kind=kind, pilots_per_cycle=200)
    waiting(100, group=group, middlewares=middlewares)
    fleet.cycle()
    assert set(sent_to()) == {{"local": local, "arc": arc}[place].pk for place in places}


def test_several_middlewares_are_any_of_them(fleet: Fleet, local: Queue, arc: Queue, group: Group) -> None:
    waiting(5, group=group, middlewares=["ARC", "gLite"])
    assert fleet.cycle() == 5
    assert sent_to() == {arc.pk: 5}


def test_pilots_that_wait_elsewhere_are_not_counted_for_them(
    fleet: Fleet, local: Queue, arc: Queue, group: Group
) -> None:
    waiting(3, group=group, middlewares=["ARC"])
    sent_pilots(local, vo=group.vo, number=5)
    assert fleet.cycle() == 3
    assert sent_to() == {local.pk: 5, arc.pk: 3}


def test_each_demand_is_counted_once_where_it_is_served(fleet: Fleet, local: Queue, arc: Queue, group: Group) -> None:
    waiting(4, group=group, middlewares=["ARC"])
    waiting(3, group=group)
    sent_pilots(local, vo=group.vo, number=3)  # for those that ask for nothing
    sent_pilots(arc, vo=group.vo, number=1)
    assert fleet.cycle() == 3
    assert sent_to() == {local.pk: 3, arc.pk: 4}


def test_a_full_place_of_the_middleware_sends_no_pilots_elsewhere(
    fleet: Fleet, local: Queue, arc: Queue, group: Group
) -> None:
    Queue.objects.filter(pk=arc.pk).update(max_waiting_pilots=2)
    waiting(10, group=group, middlewares=["ARC"])
    assert fleet.cycle() == 2
    assert sent_to() == {arc.pk: 2}


def test_pilots_elsewhere_that_may_take_the_jobs_count_against_a_limit(
    fleet: Fleet, local: Queue, arc: Queue, group: Group
) -> None:
    Limit.objects.create(vo=group.vo, running=4)
    waiting(10, group=group, middlewares=["ARC"])
    sent_pilots(local, vo=group.vo, number=3)
    assert fleet.cycle() == 1


def test_a_director_of_a_site_without_such_a_computing_element_sends_nothing(
    fleet: Fleet, local: Queue, arc: Queue, group: Group
) -> None:
    director = Director.objects.create(name="elsewhere")
    director.sites.add(local.ce.site, make_site())
    waiting(3, group=group, middlewares=["ARC"])
    assert fleet.cycle() == 0
