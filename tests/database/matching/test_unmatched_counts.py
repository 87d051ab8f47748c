"""The numbers of waiting jobs that no batch queue fits, and their way into the accounting (ADR 64)."""

from collections.abc import Mapping

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from matching import tasks
from matching.queries.unmatched_counts import unmatched_counts
from resources.domain.enums import PilotType, ResourceState
from taskqueues.services import submit_pools
from tests.factories import NOW, make_ce, make_group, make_job, make_queue, make_site, make_user, make_vo
from wms.accounts.models import Group, User
from wms.jobs.domain.accounting import Width
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import JobBucket

pytestmark = pytest.mark.django_db


@pytest.fixture
def group() -> Group:
    return make_group()


@pytest.fixture
def alice(group: Group) -> User:
    return make_user(groups=[group])


def counted() -> Mapping[tuple[int, int, str], int]:
    return {(each.owner_id, each.group_id, each.job_type): each.jobs for each in unmatched_counts(NOW)}


def test_jobs_that_no_queue_fits_are_counted_by_owner_group_and_type(alice: User, group: Group) -> None:
    make_queue(memory_mb=4000)
    bob = make_user(groups=[group])
    make_job(owner=alice, group=group)
    for owner, job_type in ((alice, "User"), (alice, "User"), (alice, "MC"), (bob, "User")):
        make_job(owner=owner, group=group, job_type=job_type, memory_mb=64_000)
    # Another task queue of the same kind.
    make_job(owner=alice, group=group, memory_mb=65_000)
    make_job(owner=alice, group=group, memory_mb=64_000, status=JobStatus.HELD)
    assert counted() == {
        (alice.pk, group.pk, "User"): 3,
        (alice.pk, group.pk, "MC"): 1,
        (bob.pk, group.pk, "User"): 1,
    }


def test_one_queue_that_fits_is_enough_even_if_it_is_closed(alice: User, group: Group) -> None:
    make_queue(memory_mb=1000)
    make_job(owner=alice, group=group, memory_mb=2000, sites=("LCG.CERN.ch",))
    assert counted() == {(alice.pk, group.pk, "User"): 1}
    site = make_site(name="LCG.CERN.ch", state=ResourceState.BANNED)
    make_queue(ce=make_ce(site=site), state=ResourceState.DRAINING)
    assert counted() == {}


def test_queues_at_sites_of_other_vos_do_not_count(alice: User, group: Group) -> None:
    other = make_group(vo=make_vo())
    make_queue(ce=make_ce(site=make_site(vos=[other.vo])))
    for of_group in (group, other):
        make_job(owner=alice, group=of_group)
    assert counted() == {(alice.pk, group.pk, "User"): 1}


def test_jobs_for_pilots_that_no_computing_element_takes_are_counted(alice: User, group: Group) -> None:
    make_queue(ce=make_ce(pilot_types=[PilotType.GENERIC]))
    make_job(owner=alice, group=group, pilot_types=("private",))
    assert counted() == {(alice.pk, group.pk, "User"): 1}
    make_queue(ce=make_ce(pilot_types=[PilotType.PRIVATE]))
    assert counted() == {}


def test_jobs_of_a_suspended_owner_wait_for_another_reason(alice: User, group: Group) -> None:
    make_job(owner=alice, group=group)
    assert counted() == {(alice.pk, group.pk, "User"): 1}
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert counted() == {}


def test_requirements_are_met_by_the_queues_of_their_pool(alice: User, group: Group) -> None:
    make_queue(parameters={"SoftwareTag": ["v3"]})
    with transaction.atomic():
        pool = submit_pools.register(vo=group.vo, requirements={"softwaretag": ["v2"]}, now=NOW)
    make_job(owner=alice, group=group, submit_pools=[pool.id])
    assert counted() == {(alice.pk, group.pk, "User"): 1}
    make_queue(parameters={"SoftwareTag": ["v2"]})
    submit_pools.refresh_all(now=NOW)
    assert counted() == {}


@pytest.mark.django_db(transaction=True)
def test_unmatched_jobs_are_accounted_for_separately(alice: User, group: Group) -> None:
    make_queue(memory_mb=4000)
    for memory_mb in (1000, 1000, 64_000):
        make_job(owner=alice, group=group, memory_mb=memory_mb)
    tasks.account_jobs()
    bucket = JobBucket.objects.get(width_s=Width.HOUR)
    assert (bucket.waiting, bucket.waiting_unmatched) == (2, 1)


def test_many_queues_are_read_at_once(alice: User, group: Group) -> None:
    make_job(owner=alice, group=group, memory_mb=64_000)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert counted()
        return len(captured)

    site = make_site()
    make_queue(ce=make_ce(site=site))
    few = queries()
    for _ in range(20):
        make_queue(ce=make_ce(site=site))
    assert queries() <= few
