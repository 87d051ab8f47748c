"""Submit pools: one for each distinct set of requirements of a VO, with the queues that satisfy it (RFC7)."""

from datetime import timedelta
from functools import partial

import pytest
from django.db import transaction

from resources.domain.words import RequirementKind
from resources.models import Queue
from taskqueues.models import SubmitPool
from taskqueues.services import submit_pools
from taskqueues.services.submit_pools import RegisteredPool
from tests.factories import NOW, make_queue, make_requirement_definition, make_task_queue, make_vo
from tests.threads import at_once
from wms.accounts.models import VO

pytestmark = pytest.mark.django_db

LATER = NOW + timedelta(hours=2)


def register(vo: VO, **requirements: object) -> RegisteredPool:
    with transaction.atomic():
        return submit_pools.register(vo=vo, requirements=requirements, now=NOW)


def queues_of(pool: RegisteredPool) -> set[Queue]:
    return set(SubmitPool.objects.get(pk=pool.id).queues.all())


def test_a_pool_has_the_queues_that_satisfy_it() -> None:
    vo = make_vo()
    big, small = make_queue(parameters={"Memory": 4000}), make_queue(parameters={"Memory": 3999})
    make_queue()
    pool = register(vo, Memory=4000)
    assert queues_of(pool) == {big}
    assert pool.queues == 1
    assert queues_of(register(vo, Memory=3000)) == {big, small}


def test_equal_requirements_share_a_pool_and_those_of_another_vo_do_not() -> None:
    vo, other = make_vo(), make_vo()
    first = register(vo, SoftwareTag=["b", "a", "b"], Memory=4000)
    assert register(vo, memory=4000.0, SOFTWARETAG=["a", "b"]) == first
    assert register(other, memory=4000, softwaretag=["a", "b"]).id != first.id
    assert SubmitPool.objects.count() == 2


def test_a_refresh_follows_the_resources() -> None:
    vo, queue = make_vo(), make_queue(parameters={"CPUModel": "Xeon"})
    pool = register(vo, CPUModel="Xeon")
    make_task_queue(submit_pools=[pool.id])
    queue.parameters = {"CPUModel": "Epyc"}
    queue.save()
    submit_pools.refresh_all(now=LATER)
    assert queues_of(pool) == set()
    assert SubmitPool.objects.get().refreshed_at == LATER


def test_a_changed_definition_changes_what_satisfies() -> None:
    vo = make_vo()
    definition = make_requirement_definition(name="Release", kind=RequirementKind.CAPACITY)
    queue = make_queue(parameters={"Release": 9})
    pool = register(vo, Release=8)
    assert queues_of(pool) == {queue}
    definition.kind = RequirementKind.EXACT
    definition.save()
    with transaction.atomic():
        submit_pools.refresh(now=NOW)
    assert queues_of(pool) == set()


def test_an_unused_pool_goes_after_its_grace_and_a_used_one_stays() -> None:
    vo = make_vo()
    used, unused = register(vo, A=1), register(vo, B=1)
    make_task_queue(submit_pools=[used.id])
    submit_pools.refresh_all(now=NOW + timedelta(minutes=59))
    assert set(SubmitPool.objects.values_list("pk", flat=True)) == {used.id, unused.id}
    submit_pools.refresh_all(now=LATER)
    assert set(SubmitPool.objects.values_list("pk", flat=True)) == {used.id}


@pytest.mark.django_db(transaction=True)
def test_sixteen_jobs_with_the_same_new_requirements_make_one_pool() -> None:
    vo = make_vo()
    queue = make_queue(parameters={"Memory": 4000})
    pools = at_once([partial(register, vo, Memory=2000)] * 16)
    assert len(set(pools)) == 1
    assert queues_of(pools[0]) == {queue}
