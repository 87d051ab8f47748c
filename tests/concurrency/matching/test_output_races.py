"""Names of output are reserved and registered while other leases do the same, or end, on real connections (ADR 72)."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from uuid import uuid4

import pytest
from django.db import transaction

from matching.models import Match
from matching.services import outputs
from matching.services.leases import LeaseEndedError
from matching.services.match import match
from matching.services.offers import OfferRequest
from matching.services.outputs import OutputFile
from resources.domain.files import GivenReplica
from resources.models import OutputName, Replica
from tests.concurrency.matching.test_expiry_races import while_it_waits
from tests.factories import make_group, make_job, make_pilot, make_queue, make_storage_element, make_vo
from tests.pace import within
from tests.threads import at_once
from wms.jobs.models import Job
from wms.kernel.db import database_now

pytestmark = pytest.mark.django_db(transaction=True)
LEASES = 16


def name(number: int = 0) -> str:
    return f"/lhcb/lhcb_user/r{number}.txt"


def leased(number: int, *, files: int = 1) -> Sequence[Match]:
    """Return leases of as many jobs, each of which writes the same names."""
    vo = make_vo(name="lhcb")
    group = make_group(name="lhcb_user", vo=vo, shares_jobs=True)
    queue = make_queue()
    make_storage_element(name="near", vos=[vo], sites=[queue.ce.site])
    for _ in range(number):
        make_job(group=group, output_data=[f"LFN:{name(each)}" for each in range(files)])
    for _ in range(number):
        pilot = make_pilot(vo=vo, queue=queue)
        match(OfferRequest(cpu_time_s=300_000), request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1))
    return list(Match.objects.order_by("job"))


def reserve(lease: Match, *, lfns: Sequence[str] = (name(),)) -> Sequence[str]:
    content = f"sha256:{lease.pk.hex * 2}"
    files = [OutputFile(lfn=lfn, size_bytes=1, checksum=content) for lfn in lfns]
    return [each.stored_as for each in outputs.reserve_names(lease.pk, files, storage_element="near")]


def registered(lease: Match) -> None:
    (lfn,) = reserve(lease)
    replica = GivenReplica(lfn=lfn, storage_element="near", size_bytes=1, checksum=f"sha256:{lease.pk.hex * 2}")
    outputs.register_output(lease.pk, replica)


def test_of_leases_that_reserve_one_name_at_once_one_gets_it() -> None:
    found = leased(LEASES)
    stored = at_once([partial(reserve, lease) for lease in found])
    names = [lfn for lfns in stored for lfn in lfns]
    assert names.count(name()) == 1
    assert len(set(names)) == LEASES
    assert OutputName.objects.get(lfn=name()).match_id in {lease.pk for lease in found}


def test_files_stored_at_once_are_all_registered_once() -> None:
    at_once([partial(registered, lease) for lease in leased(LEASES)])
    assert Replica.objects.count() == Replica.objects.values("lfn").distinct().count() == LEASES


def test_reservations_of_many_names_in_opposite_orders_do_not_deadlock() -> None:
    found = leased(4, files=100)
    lfns = [name(each) for each in range(100)]
    stored = at_once([partial(reserve, lease, lfns=lfns[:: 1 - 2 * (at % 2)]) for at, lease in enumerate(found)])
    names = [lfn for one in stored for lfn in one]
    assert len(set(names)) == 400
    assert set(lfns) < set(names)


@pytest.mark.parametrize("step", [reserve, registered])
def test_a_lease_that_ends_meanwhile_neither_reserves_nor_registers(step: Callable[[Match], object]) -> None:
    (lease,) = leased(1)
    with transaction.atomic():
        # What ends a lease does, in its order.
        Job.objects.select_for_update().get(pk=lease.job_id)
        pool, waiting = while_it_waits(partial(step, lease))
        Match.objects.filter(pk=lease.pk).update(ended_at=database_now(), end_reason="expired")
    with pytest.raises(LeaseEndedError):
        waiting.result(timeout=within(60))
    pool.shutdown()
    assert not Replica.objects.exists()


def test_a_name_is_free_when_the_lease_that_held_it_has_ended() -> None:
    first, second = leased(2)
    assert reserve(first) == [name()]
    Match.objects.filter(pk=first.pk).update(ended_at=database_now(), end_reason="expired")
    assert reserve(second) == [name()]
    assert reserve(second) == [name()]
