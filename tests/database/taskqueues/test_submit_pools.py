"""Submit pools: one for each distinct set of requirements of a VO, with the queues that satisfy it (RFC7)."""

from datetime import timedelta
from functools import partial

import pytest
from django.db import connection, transaction
from django.db.models.expressions import RawSQL

from resources.domain.enums import RequirementKind
from resources.models import Queue
from taskqueues.models import StaleSubmitPools, SubmitPool
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


def mark(vos: list[VO] | None) -> None:
    with transaction.atomic():
        submit_pools.mark_stale(vos, now=NOW)


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
    submit_pools.refresh_all(now=NOW)
    assert queues_of(pool) == set()


def test_a_mark_refreshes_the_pools_of_its_vo_and_no_others() -> None:
    vo, other = make_vo(), make_vo()
    pools = [register(each, Memory=4000) for each in (vo, other)]
    submit_pools.refresh_stale(now=NOW)
    queue = make_queue(parameters={"Memory": 4000})
    mark([vo])
    assert submit_pools.refresh_stale(now=LATER) == 1
    assert [queues_of(pool) for pool in pools] == [{queue}, set()]
    assert dict(SubmitPool.objects.values_list("vo", "refreshed_at")) == {vo.pk: LATER, other.pk: NOW}
    assert not StaleSubmitPools.objects.exists()
    mark(None)
    assert submit_pools.refresh_stale(now=LATER) == 2
    assert [queues_of(pool) for pool in pools] == [{queue}, {queue}]


def test_nothing_is_marked_for_a_vo_without_pools() -> None:
    vo = make_vo()
    mark([vo])
    mark(None)
    assert not StaleSubmitPools.objects.exists()
    assert submit_pools.refresh_stale(now=NOW) == 0


def test_a_new_pool_is_refreshed_once_more_by_itself() -> None:
    """A resource that changes while its transaction is open was seen neither by it nor by the refresh that followed."""
    vo = make_vo()
    old = register(vo, Memory=4000)
    submit_pools.refresh_stale(now=NOW)
    new = register(vo, Memory=3000)
    queue = make_queue(parameters={"Memory": 5000})
    assert submit_pools.refresh_stale(now=LATER) == 1
    assert [queues_of(pool) for pool in (old, new)] == [set(), {queue}]


@pytest.mark.parametrize("table", ["resources_queue", "taskqueues_submitpool"])
def test_memberships_are_deleted_with_their_queue_or_pool(table: str) -> None:
    queue = make_queue(parameters={"Memory": 4000})
    pool = register(make_vo(), Memory=4000)
    members = SubmitPool.queues.through._default_manager
    assert members.count() == 1
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {table} WHERE id::text = ANY(%s)", [[str(queue.pk), pool.id]])
    assert members.count() == 0


def test_a_refresh_writes_only_memberships_that_change() -> None:
    vo = make_vo()
    kept, lost = make_queue(parameters={"Memory": 4000}), make_queue(parameters={"Memory": 4000})
    pool = register(vo, Memory=4000)
    members = SubmitPool.queues.through._default_manager
    row = members.filter(queue=kept).annotate(row=RawSQL("taskqueues_submitpool_queues.ctid::text", []))
    before = row.get().row
    submit_pools.refresh_all(now=NOW)
    lost.parameters = {}
    lost.save()
    won = make_queue(parameters={"Memory": 8000})
    submit_pools.refresh_all(now=LATER)
    assert queues_of(pool) == {kept, won}
    assert row.get().row == before


def test_a_pool_is_removed_a_grace_period_after_its_last_job() -> None:
    vo = make_vo()
    used, unused = register(vo, A=1), register(vo, B=1)
    task_queue = make_task_queue(submit_pools=[used.id])
    removal = partial(submit_pools.remove_unused, in_use=lambda _pools: ())
    assert removal(now=NOW + timedelta(minutes=59)) == 0
    assert removal(now=LATER) == 1
    assert {pool.pk for pool in SubmitPool.objects.all()} == {used.id} != {unused.id}
    task_queue.delete()
    assert removal(now=LATER + timedelta(minutes=59)) == 0
    assert removal(now=LATER + timedelta(minutes=61)) == 1


def test_a_pool_that_jobs_elsewhere_refer_to_stays() -> None:
    vo = make_vo()
    pools = [register(vo, A=1), register(vo, B=1)]
    assert submit_pools.remove_unused(now=LATER, in_use=lambda asked: {pools[0].id} & {*asked}) == 1
    assert SubmitPool.objects.get().pk == pools[0].id


def test_a_pool_that_a_job_names_itself_is_kept_in_use() -> None:
    vo, other = make_vo(), make_vo()
    make_queue(parameters={"A": 1})
    pool, theirs = register(vo, A=1), register(other, A=1)
    with transaction.atomic():
        assert submit_pools.keep_named([pool.id, theirs.id, "unknown"], vo=vo, now=LATER) == {pool.id: 1}
    assert SubmitPool.objects.get(pk=pool.id).last_used_at == LATER


@pytest.mark.django_db(transaction=True)
def test_sixteen_jobs_with_the_same_new_requirements_make_one_pool() -> None:
    vo = make_vo()
    queue = make_queue(parameters={"Memory": 4000})
    pools = at_once([partial(register, vo, Memory=2000)] * 16)
    assert len(set(pools)) == 1
    assert queues_of(pools[0]) == {queue}
