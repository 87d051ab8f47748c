"""A drained pilot gets no new jobs, and heartbeats report the drain to a busy one."""

from collections.abc import Iterator
from random import Random
from uuid import UUID, uuid4

import pytest

from matching.models import Match
from matching.services import leases
from matching.services.draining import tell_drained_pilots
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from pilots.services import exclusions
from pilots.services.exclusions import PilotDrainedError
from tests.clock import reset_clock
from tests.factories import make_group, make_job, make_pilot, make_queue
from wms.accounts.models import Group
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, JobCommand
from wms.kernel.db import database_now
from wms.wire.protocol import NO_TAILS, Usage

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock() -> Iterator[None]:
    yield
    reset_clock()


@pytest.fixture
def group() -> Group:
    return make_group(shares_jobs=True)


@pytest.fixture
def pilot(group: Group) -> Pilot:
    return make_pilot(vo=group.vo, queue=make_queue(processors=8))


def ask(pilot: Pilot, *, request_id: UUID | None = None, max_jobs: int = 1) -> list[Match]:
    offer = OfferRequest(cpu_time_s=300_000, processors=max_jobs)
    found = match(offer, request_id=request_id or uuid4(), pilot_id=pilot.pk, max_jobs=max_jobs, chance=Random(1))
    return [Match.objects.get(pk=lease.match_id) for lease in found]


def drain(pilot: Pilot, reason: str = "drained by bob") -> int:
    return exclusions.drain(Pilot.objects.filter(pk=pilot.pk), reason=reason, now=database_now())


def test_a_drained_pilot_gets_no_job_and_the_reason(group: Group, pilot: Pilot) -> None:
    make_job(group=group)
    assert drain(pilot) == 1
    with pytest.raises(PilotDrainedError, match="finish those that run, and leave: drained by bob"):
        ask(pilot)
    assert Job.objects.get().status == JobStatus.WAITING
    assert drain(pilot, "again") == 0
    pilot.refresh_from_db()
    assert pilot.drain_reason == "drained by bob"


def test_a_drained_pilot_gets_the_reason_without_waiting_jobs(pilot: Pilot) -> None:
    drain(pilot)
    with pytest.raises(PilotDrainedError):
        ask(pilot)


def test_the_leases_of_an_answer_that_was_lost_are_still_given(group: Group, pilot: Pilot) -> None:
    for _ in range(3):
        make_job(group=group)
    request_id = uuid4()
    given = ask(pilot, request_id=request_id, max_jobs=2)
    drain(pilot)
    assert ask(pilot, request_id=request_id, max_jobs=2) == given
    # It has room for more, and gets none.
    assert ask(pilot, request_id=request_id, max_jobs=3) == given
    assert Match.objects.count() == 2


def test_the_drain_command_is_sent_on_each_lease_until_acknowledged(group: Group, pilot: Pilot) -> None:
    for _ in range(3):
        make_job(group=group)
    one, other = ask(pilot, max_jobs=2)
    (elsewhere,) = ask(make_pilot(vo=group.vo))
    now = database_now()
    assert tell_drained_pilots(now=now) == 0
    drain(pilot)
    assert tell_drained_pilots(now=now) == 2
    assert tell_drained_pilots(now=now) == 0

    def beat(lease: Match, *acknowledged: int) -> list[JobCommand]:
        return list(leases.heartbeat(lease.pk, usage=Usage(), tails=NO_TAILS, acknowledged=acknowledged).commands)

    (order,) = beat(one)
    assert (order.name, order.arguments) == ("drain", {})
    assert beat(one) == [order]
    assert beat(one, order.pk) == []
    assert [command.name for command in beat(other)] == ["drain"]
    assert beat(elsewhere) == []
    # It is no order to stop: the job goes on to its end.
    assert leases.finish(one.pk, exit_code=0, minor=None, usage=Usage(), output_sandbox=None) == JobStatus.DONE


def test_the_drain_command_is_not_sent_to_the_next_pilot(group: Group, pilot: Pilot) -> None:
    make_job(group=group)
    (lease,) = ask(pilot)
    drain(pilot)
    tell_drained_pilots(now=database_now())
    leases.finish(lease.pk, exit_code=222, minor=None, usage=Usage(), output_sandbox=None)
    (again,) = ask(make_pilot(vo=group.vo))
    assert leases.report_status(again.pk, status=JobStatus.RUNNING).commands == []
