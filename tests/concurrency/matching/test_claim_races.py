"""Races with a claim: other transactions commit between its statements."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from random import Random
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.utils import timezone

from matching.models import Match
from matching.services import draining
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from pilots.services import exclusions
from pilots.services.exclusions import PilotDrainedError
from resources.domain.enums import ResourceState, ThrottlePolicy
from resources.models import ComputingElement, Queue, Site
from taskqueues.models import Limit, PoolQueue, QueuedJob
from taskqueues.services import submit_pools
from tests.factories import (
    LARGE_SLOT,
    make_ce,
    make_downtime,
    make_group,
    make_job,
    make_pilot,
    make_queue,
    make_site,
    make_user,
    make_vo,
)
from tests.pace import within
from tests.threads import at_once, until_somebody_waits_for_a_lock
from wms.accounts.models import VO, Group, Membership, User
from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.models import Job
from wms.jobs.services import control, editing

pytestmark = pytest.mark.django_db(transaction=True)


class Interrupted(Random):
    """A random source that calls a function after the draws of task queue and level, before a job is claimed."""

    def __init__(self, *events: Callable[[], object]) -> None:
        super().__init__(1)
        self.events = list(events)
        self.asked = 0

    def random(self) -> float:
        """Return a number; every third one is the claim's."""
        self.asked += 1
        if self.asked % 3 == 0 and self.events:
            self.events.pop(0)()
        return super().random()


@pytest.fixture
def group() -> Group:
    return make_group(shares_jobs=True)


def ask(pilot: Pilot, *, chance: Random, max_jobs: int = 1, processors: int = 1) -> list[int]:
    offer = OfferRequest(cpu_time_s=300_000, processors=processors)
    leases = match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=max_jobs, chance=chance)
    return [lease.job_id for lease in leases]


@pytest.mark.parametrize("change", ["sites", "banned_sites"])
def test_a_job_that_moves_to_a_queue_that_does_not_fit_meanwhile_is_not_taken(group: Group, change: str) -> None:
    here = make_queue(ce=make_ce(site=make_site(name="LCG.Here.org")), **LARGE_SLOT)
    make_site(name="LCG.There.org")
    job = make_job(group=group)
    changes = {change: ["LCG.There.org" if change == "sites" else "LCG.Here.org"]}

    def edit() -> None:
        at_once([lambda: editing.edit(job.pk, changes=changes, by=job.owner, now=timezone.now())])

    assert ask(make_pilot(vo=group.vo, queue=here), chance=Interrupted(edit)) == []
    job.refresh_from_db()
    assert job.status == JobStatus.WAITING
    assert QueuedJob.objects.filter(pk=job.pk).exists()


#: What a manager, operator or psql may commit while a pilot's request is answered.
CHANGES: Mapping[str, Callable[[Job, Queue], object]] = {
    "site": lambda _, queue: Site.objects.filter(pk=queue.ce.site_id).update(state=ResourceState.BANNED),
    "CE": lambda _, queue: ComputingElement.objects.filter(pk=queue.ce_id).update(state=ResourceState.DRAINING),
    "queue": lambda _, queue: Queue.objects.filter(pk=queue.pk).update(state=ResourceState.BANNED),
    "VOs of the site": lambda _, queue: queue.ce.site.vos.set([make_vo()]),
    "pause": lambda job, _: VO.objects.filter(pk=job.vo_id).update(
        paused_until=timezone.now() + timedelta(hours=1), pause_reason="upgrade"
    ),
    "suspension": lambda job, _: User.objects.filter(pk=job.owner_id).update(is_active=False),
    "membership": lambda job, _: Membership.objects.filter(user=job.owner_id).delete(),
    "pool": lambda _, queue: PoolQueue.objects.filter(queue=queue).delete(),
    "throttle": lambda _, queue: Site.objects.filter(pk=queue.ce.site_id).update(
        throttle_policy=ThrottlePolicy.CUSTOM, throttle_requirements="false"
    ),
    "downtime that runs": lambda _, queue: make_downtime(queue, begins_at=timezone.now() - timedelta(hours=1)),
    "downtime before the end": lambda _, queue: make_downtime(queue, begins_at=timezone.now() + timedelta(minutes=1)),
    "limit": lambda _, queue: Limit.objects.create(running=0, ce=queue.ce),
}


@pytest.mark.parametrize("queue_is_known", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_is_committed_before_a_claim_stops_it(group: Group, change: str, queue_is_known: bool) -> None:
    """The search has compared the former configuration; the claim sees that it changed, and all is compared anew."""
    queue = make_queue(ce=make_ce(site=make_site(name="S.ONE", parameters={"Memory": 16000})), **LARGE_SLOT)
    with transaction.atomic():
        pool = submit_pools.register(vo=group.vo, requirements={"Memory": 16000}, now=timezone.now())
    job = make_job(group=group, submit_pools=[pool.id])
    pilot = make_pilot(vo=group.vo, queue=queue if queue_is_known else None)

    def commit() -> None:
        at_once([lambda: CHANGES[change](job, queue)])

    assert ask(pilot, chance=Interrupted(commit)) == []
    job.refresh_from_db()
    assert job.status == JobStatus.WAITING
    assert not Match.objects.exists()


@pytest.mark.parametrize("queue_is_known", [True, False])
def test_a_change_elsewhere_before_a_claim_costs_another_search_only(group: Group, queue_is_known: bool) -> None:
    site, other = make_site(name="S.ONE"), make_site(name="S.OTHER", vos=[make_vo()])
    queue = make_queue(ce=make_ce(site=site), **LARGE_SLOT)
    job = make_job(group=group)
    pilot = make_pilot(vo=group.vo, queue=queue if queue_is_known else None)
    changed: list[int] = []

    def commit() -> None:
        changed.extend(at_once([lambda: Site.objects.filter(pk=other.pk).update(state=ResourceState.BANNED)]))

    assert ask(pilot, chance=Interrupted(commit)) == [job.pk]
    assert changed == [1]


def test_a_configuration_that_changes_before_each_claim_ends_the_request_without_a_job(group: Group) -> None:
    queue = make_queue(**LARGE_SLOT)
    make_job(group=group)
    pilot = make_pilot(vo=group.vo, queue=queue)

    def commit() -> None:
        at_once([lambda: Queue.objects.filter(pk=queue.pk).update(max_pilots=1)])

    assert ask(pilot, chance=Interrupted(*[commit] * 100)) == []
    assert ask(pilot, chance=Random(1)) != []


def test_several_leases_for_one_request_do_not_deadlock_with_an_action_on_the_same_jobs(group: Group) -> None:
    """The action locks jobs in the order of their ids; the match draws them in another one."""
    owner = make_user(groups=[group])
    later_drawn = make_job(group=group, owner=owner, priority=1).pk
    first_drawn = make_job(group=group, owner=owner, priority=10).pk
    pilot = make_pilot(vo=group.vo)
    with ThreadPoolExecutor(max_workers=1) as pool:
        refused: list[Future[object]] = []

        def reschedule() -> object:
            try:
                return control.apply(Action.RESCHEDULE, [later_drawn, first_drawn], by=owner, now=timezone.now())
            finally:
                connection.close()

        def start() -> None:
            refused.append(pool.submit(reschedule))
            until_somebody_waits_for_a_lock(or_done=refused[0])

        leased = ask(pilot, chance=Interrupted(lambda: None, start), max_jobs=2, processors=2)
        outcome = refused[0].result(timeout=within(60))

    assert leased == [first_drawn, later_drawn]
    assert isinstance(outcome, control.BulkOutcome)
    assert set(Match.objects.values_list("job_id", flat=True)) == {first_drawn, later_drawn}


def test_a_locked_job_is_skipped_without_waiting(group: Group) -> None:
    """Nine of ten are held by somebody who does not let go; the tenth is taken all the same."""
    owner = make_user(groups=[group])
    ids = [make_job(group=group, owner=owner).pk for _ in range(10)]
    pilot = make_pilot(vo=group.vo)
    with transaction.atomic():
        held = set(QueuedJob.objects.order_by("pk").select_for_update().values_list("pk", flat=True)[:9])
        assert at_once([lambda: ask(pilot, chance=Random(1))], timeout_s=30) == [[ids[9]]]
    assert held == set(ids[:9])


def test_jobs_beyond_the_ten_oldest_are_claimed_when_those_are_locked(group: Group) -> None:
    owner = make_user(groups=[group])
    ids = [make_job(group=group, owner=owner).pk for _ in range(12)]
    pilot = make_pilot(vo=group.vo)
    with transaction.atomic():
        list(QueuedJob.objects.order_by("pk").select_for_update().values_list("pk", flat=True)[:11])
        assert at_once([lambda: ask(pilot, chance=Random(1))], timeout_s=30) == [[ids[11]]]


def test_a_pilot_waits_for_a_locked_only_job(group: Group) -> None:
    job = make_job(group=group)
    pilot = make_pilot(vo=group.vo)
    with ThreadPoolExecutor(max_workers=1) as pool:

        def one() -> object:
            try:
                return ask(pilot, chance=Random(1))
            finally:
                connection.close()

        with transaction.atomic():
            QueuedJob.objects.select_for_update().get(pk=job.pk)
            asking: Future[object] = pool.submit(one)
            until_somebody_waits_for_a_lock(or_done=asking)
            assert not asking.done()
        assert asking.result(timeout=within(60)) == [job.pk]


def test_after_a_queue_is_emptied_the_next_segment_is_drawn(group: Group) -> None:
    owner = make_user(groups=[group])
    high = make_job(group=group, owner=owner, cpu_time_s=300_000)
    low = make_job(group=group, owner=owner, cpu_time_s=500)

    def kill() -> None:
        at_once([lambda: control.apply_to_one(Action.KILL, high.pk, by=owner, now=timezone.now())])

    assert ask(make_pilot(vo=group.vo), chance=Interrupted(kill)) == [low.pk]
    assert Job.objects.get(pk=high.pk).status == JobStatus.KILLED


def test_after_an_exclusion_the_selection_starts_again_at_the_highest_segment_that_is_left(group: Group) -> None:
    owner = make_user(groups=[group])
    for _ in range(20):
        make_job(group=group, owner=owner, cpu_time_s=500)
    middle = make_job(group=group, owner=owner, cpu_time_s=5000)
    high = make_job(group=group, owner=owner, cpu_time_s=50_000)

    def kill() -> None:
        at_once([lambda: control.apply_to_one(Action.KILL, high.pk, by=owner, now=timezone.now())])

    assert ask(make_pilot(vo=group.vo), chance=Interrupted(kill)) == [middle.pk]


def test_a_job_committed_before_the_request_is_found_however_old_the_index_is(group: Group) -> None:
    """The index of this process was read before the job came, and has nothing to give."""
    pilot = make_pilot(vo=group.vo)
    assert ask(pilot, chance=Random(1)) == []
    jobs = [make_job(group=group).pk for _ in range(20)]
    assert sorted(ask(pilot, chance=Random(1))[0] for _ in jobs) == jobs


def test_a_pilot_that_is_drained_while_it_claims_has_that_job_at_most(group: Group) -> None:
    for _ in range(2):
        make_job(group=group)
    pilot = make_pilot(vo=group.vo, queue=make_queue(processors=2))

    def drain() -> None:
        exclusions.drain(Pilot.objects.filter(pk=pilot.pk), reason="", now=timezone.now())

    # Between the first claim and the second of one request.
    assert len(ask(pilot, chance=Interrupted(lambda: None, drain), max_jobs=2, processors=2)) == 1
    with pytest.raises(PilotDrainedError):
        ask(pilot, chance=Random(1))
    assert Match.objects.count() == 1
    assert draining.tell_drained_pilots(now=timezone.now()) == 1


def test_a_claim_waits_for_the_drain_of_its_pilot(group: Group) -> None:
    make_job(group=group)
    pilot = make_pilot(vo=group.vo)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            Pilot.objects.filter(pk=pilot.pk).update(drained_at=timezone.now())
            asking: Future[object] = pool.submit(_ask_and_disconnect, pilot)
            until_somebody_waits_for_a_lock(or_done=asking)
        with pytest.raises(PilotDrainedError):
            asking.result(timeout=within(60))
    assert QueuedJob.objects.count() == 1


def _ask_and_disconnect(pilot: Pilot) -> list[int]:
    try:
        return ask(pilot, chance=Random(1))
    finally:
        connection.close()
