"""A job that a pilot gave back is matched elsewhere first, after a growing delay (docs/architecture.md, Matching)."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from random import Random
from uuid import uuid4

import pytest
from pytest_django import Settings

from matching.models import Match
from matching.services import avoided_places, expiry, leases
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.services.reports import end_pilot
from resources.models import Queue
from taskqueues.models import QueuedJob
from tests.clock import pass_time, reset_clock, stop_clock
from tests.factories import LARGE_SLOT, make_group, make_job, make_pilot, make_queue
from wms.accounts.models import Group
from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.models import Job
from wms.jobs.services import control, editing
from wms.kernel.db import database_now
from wms.wire.protocol import RESCHEDULE_EXIT_CODE, Usage

pytestmark = pytest.mark.django_db

DELAY_S = 60
ELSEWHERE_S = 600


@pytest.fixture(autouse=True)
def clock(settings: Settings) -> Iterator[None]:
    settings.WMS_RESCHEDULE_DELAY_S = DELAY_S
    settings.WMS_RESCHEDULE_DELAY_MAX_S = 3600
    settings.WMS_RESCHEDULE_ELSEWHERE_S = ELSEWHERE_S
    expiry.expire_leases()
    stop_clock()
    yield
    reset_clock()


@pytest.fixture
def group() -> Group:
    return make_group()


def pilot_at(queue: Queue | None, group: Group, *, host: str = "") -> Pilot:
    pilot = make_pilot(vo=group.vo, queue=queue)
    Pilot.objects.filter(pk=pilot.pk).update(host_name=host, started_at=database_now(), last_seen_at=database_now())
    return pilot


def jobs_for(pilot: Pilot, *, most: int = 1) -> list[int]:
    """Ask for jobs; return the primary keys of the leased ones."""
    offer = OfferRequest(cpu_time_s=300_000, processors=most)
    leased = match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=most, chance=Random(1))
    return [lease.job_id for lease in leased]


def give_back(job: Job, *, minor: str = "Software is missing on the node: root6") -> JobStatus:
    lease = Match.objects.get(job=job, ended_at=None)
    return leases.finish(lease.pk, exit_code=RESCHEDULE_EXIT_CODE, minor=minor, usage=Usage(), output_sandbox=None)


def test_a_given_back_job_is_matched_elsewhere_first(group: Group) -> None:
    bad, good = pilot_at(make_queue(), group), pilot_at(make_queue(), group)
    job = make_job(group=group)
    assert jobs_for(bad) == [job.pk]
    assert give_back(job) is JobStatus.WAITING
    pass_time(seconds=DELAY_S)
    assert jobs_for(bad) == []
    assert jobs_for(good) == [job.pk]


def test_a_given_back_job_is_not_matched_before_its_delay(group: Group) -> None:
    bad, good = pilot_at(make_queue(), group), pilot_at(make_queue(), group)
    job = make_job(group=group)
    jobs_for(bad)
    give_back(job)
    pass_time(seconds=DELAY_S - 1)
    assert jobs_for(good) == []
    pass_time(seconds=1)
    assert jobs_for(good) == [job.pk]


def test_at_a_single_place_attempts_have_growing_delays(group: Group) -> None:
    only, job = pilot_at(make_queue(), group), make_job(group=group)
    waited = []
    while jobs_for(only) == [job.pk] and give_back(job) is JobStatus.WAITING:
        held_back = QueuedJob.objects.get(pk=job.pk)
        assert (held_back.avoided_queue_ids, held_back.avoided_host) == (None, None)
        assert held_back.not_before is not None
        delay = held_back.not_before - database_now()
        pass_time(seconds=delay.total_seconds() - 1)
        assert jobs_for(only) == []
        pass_time(seconds=1)
        waited.append(delay)
    assert waited == [timedelta(seconds=DELAY_S), timedelta(seconds=2 * DELAY_S), timedelta(seconds=4 * DELAY_S)]
    assert Job.objects.get(pk=job.pk).status == JobStatus.FAILED


def test_the_delay_has_a_limit(group: Group, settings: Settings) -> None:
    settings.WMS_RESCHEDULE_DELAY_MAX_S = 100
    only, job = pilot_at(make_queue(), group), make_job(group=group, reschedules=2)
    jobs_for(only)
    give_back(job)
    assert QueuedJob.objects.get(pk=job.pk).not_before == database_now() + timedelta(seconds=100)


def test_a_place_is_avoided_for_a_bounded_time(group: Group) -> None:
    bad = pilot_at(make_queue(), group)
    make_queue()  # where no pilot comes
    job = make_job(group=group)
    jobs_for(bad)
    give_back(job)
    pass_time(seconds=DELAY_S + ELSEWHERE_S - 1)
    assert jobs_for(bad) == []
    pass_time(seconds=1)
    assert jobs_for(bad) == [job.pk]


def test_a_third_place_is_preferred_to_two_that_gave_the_job_back(group: Group) -> None:
    first, second, third = (pilot_at(make_queue(), group) for _ in range(3))
    job = make_job(group=group)
    for number, bad in enumerate((first, second)):
        assert jobs_for(bad) == [job.pk]
        give_back(job)
        pass_time(seconds=DELAY_S * 2**number)
    assert jobs_for(first) == []
    assert jobs_for(second) == []
    assert jobs_for(third) == [job.pk]


def test_if_all_places_gave_the_job_back_only_the_last_is_avoided(group: Group) -> None:
    first, second = (pilot_at(make_queue(), group) for _ in range(2))
    job = make_job(group=group)
    for number, bad in enumerate((first, second)):
        assert jobs_for(bad) == [job.pk]
        give_back(job)
        pass_time(seconds=DELAY_S * 2**number)
    assert jobs_for(second) == []
    assert jobs_for(first) == [job.pk]


@pytest.mark.parametrize("why", ["banned", "does not fit"])
def test_a_place_is_not_avoided_for_a_queue_that_does_not_fit(group: Group, why: str) -> None:
    only = pilot_at(make_queue(cpu_time_s=300_000), group)
    other = make_queue(cpu_time_s=300_000 if why == "banned" else 500)
    if why == "banned":
        Queue.objects.filter(pk=other.pk).update(state="banned")
    job = make_job(group=group)
    jobs_for(only)
    give_back(job)
    pass_time(seconds=DELAY_S)
    assert jobs_for(only) == [job.pk]


def _banned(queue: Queue) -> None:
    Queue.objects.filter(pk=queue.pk).update(state="banned")


def _draining(queue: Queue) -> None:
    Queue.objects.filter(pk=queue.pk).update(state="draining")


def _too_small(queue: Queue) -> None:
    Queue.objects.filter(pk=queue.pk).update(cpu_time_s=500)


def _gone(queue: Queue) -> None:
    queue.delete()


@pytest.mark.parametrize("become", [_banned, _draining, _too_small, _gone])
def test_a_place_is_avoided_only_as_long_as_another_may_take_the_job(
    group: Group, become: Callable[[Queue], None]
) -> None:
    queue, other = make_queue(cpu_time_s=300_000), make_queue(cpu_time_s=300_000)
    only, job = pilot_at(queue, group), make_job(group=group, cpu_time_s=100_000)
    jobs_for(only)
    give_back(job)
    assert avoided_places.review(now=database_now()) == 0
    pass_time(seconds=DELAY_S)
    assert jobs_for(only) == []
    become(other)
    assert avoided_places.review(now=database_now()) == 1
    assert jobs_for(only) == [job.pk]


def test_the_delay_stays_when_a_place_is_avoided_no_more(group: Group) -> None:
    queue, other = make_queue(), make_queue()
    only, job = pilot_at(queue, group), make_job(group=group)
    jobs_for(only)
    give_back(job)
    _banned(other)
    assert avoided_places.review(now=database_now()) == 1
    assert jobs_for(only) == []
    pass_time(seconds=DELAY_S)
    assert jobs_for(only) == [job.pk]


def test_when_the_other_place_closes_only_the_last_is_avoided(group: Group) -> None:
    queues = [make_queue() for _ in range(3)]
    first, second, third = (pilot_at(queue, group) for queue in queues)
    job = make_job(group=group)
    for number, bad in enumerate((first, second)):
        assert jobs_for(bad) == [job.pk]
        give_back(job)
        pass_time(seconds=DELAY_S * 2**number)
    _banned(queues[2])
    assert avoided_places.review(now=database_now()) == 1
    assert jobs_for(third) == jobs_for(second) == []
    assert jobs_for(first) == [job.pk]


def test_a_host_is_avoided_only_as_long_as_pilots_live_on_others(group: Group) -> None:
    queue = make_queue()
    bad, good = pilot_at(queue, group, host="node1"), pilot_at(queue, group, host="node2")
    job = make_job(group=group)
    jobs_for(bad)
    give_back(job)
    pass_time(seconds=DELAY_S)
    assert avoided_places.review(now=database_now()) == 0
    assert jobs_for(bad) == []
    end_pilot(good.pk, status=PilotStatus.DONE, reason="left", now=database_now())
    assert avoided_places.review(now=database_now()) == 1
    assert jobs_for(bad) == [job.pk]


def test_with_one_queue_the_host_is_avoided_while_other_hosts_live(group: Group) -> None:
    queue = make_queue()
    bad, good = pilot_at(queue, group, host="node1"), pilot_at(queue, group, host="node2")
    same = pilot_at(queue, group, host="node1")
    job = make_job(group=group)
    jobs_for(bad)
    give_back(job)
    pass_time(seconds=DELAY_S)
    assert jobs_for(bad) == []
    assert jobs_for(same) == []
    assert jobs_for(good) == [job.pk]


def test_with_one_host_no_place_is_avoided(group: Group) -> None:
    queue = make_queue()
    only = pilot_at(queue, group, host="node1")
    end_pilot(pilot_at(queue, group, host="node2").pk, status=PilotStatus.DONE, reason="left", now=database_now())
    job = make_job(group=group)
    jobs_for(only)
    give_back(job)
    pass_time(seconds=DELAY_S)
    assert jobs_for(only) == [job.pk]


def test_a_pilot_of_no_known_place_has_only_the_delay(group: Group) -> None:
    anywhere, job = pilot_at(None, group), make_job(group=group)
    make_queue()
    jobs_for(anywhere)
    give_back(job)
    pass_time(seconds=DELAY_S)
    assert jobs_for(anywhere) == [job.pk]


def test_delayed_jobs_do_not_hide_later_jobs_of_a_level(group: Group) -> None:
    pilot, owner = pilot_at(make_queue(**LARGE_SLOT), group), None
    first = make_job(group=group)
    owner = first.owner
    delayed = [first, *(make_job(group=group, owner=owner) for _ in range(11))]
    assert len(jobs_for(pilot, most=12)) == 12
    for job in delayed:
        give_back(job)
    behind = make_job(group=group, owner=owner)
    assert QueuedJob.objects.values("task_queue").distinct().count() == 1
    assert jobs_for(pilot) == [behind.pk]
    assert jobs_for(pilot) == []
    pass_time(seconds=DELAY_S)
    assert jobs_for(pilot)[0] in {job.pk for job in delayed[:10]}


def test_the_ten_oldest_include_available_delayed_jobs(group: Group) -> None:
    pilot = pilot_at(make_queue(**LARGE_SLOT), group)
    old = make_job(group=group)
    jobs_for(pilot)
    give_back(old)
    younger = [make_job(group=group, owner=old.owner).pk for _ in range(20)]
    pass_time(seconds=DELAY_S)
    taken = set()
    for seed in range(10):
        offer = OfferRequest(cpu_time_s=300_000)
        (lease,) = match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(seed))
        taken.add(lease.job_id)
        if lease.job_id == old.pk:
            break
    assert old.pk in taken
    assert taken <= {old.pk, *younger}


def test_a_reschedule_by_the_user_has_no_delay(group: Group) -> None:
    pilot, job = pilot_at(make_queue(), group), make_job(group=group)
    make_queue()
    jobs_for(pilot)
    lease = Match.objects.get(job=job)
    leases.finish(lease.pk, exit_code=1, minor=None, usage=Usage(), output_sandbox=None)
    control.apply_to_one(Action.RESCHEDULE, job.pk, by=job.owner, now=database_now())
    assert jobs_for(pilot) == [job.pk]


def test_a_reschedule_of_a_leased_job_takes_effect_at_the_end_of_its_lease(group: Group) -> None:
    pilot, job = pilot_at(make_queue(), group), make_job(group=group)
    make_queue()
    jobs_for(pilot)
    control.apply_to_one(Action.RESCHEDULE, job.pk, by=job.owner, now=database_now())
    give_back(job, minor="Killed by order")
    assert jobs_for(pilot) == [job.pk]


@pytest.mark.parametrize("edited", [False, True])
def test_a_held_and_released_job_keeps_its_delay_and_avoided_places(group: Group, *, edited: bool) -> None:
    bad, good = pilot_at(make_queue(), group), pilot_at(make_queue(), group)
    job = make_job(group=group)
    jobs_for(bad)
    give_back(job)
    act = partial(control.apply_to_one, by=job.owner, now=database_now())
    act(Action.HOLD, job.pk)
    if edited:
        editing.edit(job.pk, changes={"job_name": "other"}, by=job.owner, now=database_now())
    act(Action.RELEASE, job.pk)
    assert jobs_for(bad) == jobs_for(good) == []
    pass_time(seconds=DELAY_S)
    assert jobs_for(bad) == []
    assert jobs_for(good) == [job.pk]


def test_a_second_hold_restores_no_earlier_delay(group: Group) -> None:
    bad, job = pilot_at(make_queue(), group), make_job(group=group)
    good = pilot_at(make_queue(), group)
    act = partial(control.apply_to_one, by=job.owner, now=database_now())
    jobs_for(bad)
    give_back(job)
    act(Action.HOLD, job.pk)
    act(Action.RELEASE, job.pk)
    pass_time(seconds=DELAY_S)
    jobs_for(good)
    act(Action.RESCHEDULE, job.pk)
    give_back(job)
    act(Action.HOLD, job.pk)
    act(Action.RELEASE, job.pk)
    assert jobs_for(bad) == [job.pk]


def test_a_job_of_a_pilot_reported_as_ended_is_delayed_and_matched_elsewhere(group: Group) -> None:
    queue = make_queue()
    gone, same_place = pilot_at(queue, group), pilot_at(queue, group)
    other, job = pilot_at(make_queue(), group), make_job(group=group)
    jobs_for(gone)
    end_pilot(gone.pk, status=PilotStatus.ABORTED, reason="Killed by SIGKILL", now=database_now())
    expiry.expire_leases()
    assert Job.objects.get(pk=job.pk).status == JobStatus.WAITING
    assert jobs_for(other) == []
    pass_time(seconds=DELAY_S)
    assert jobs_for(same_place) == []
    assert jobs_for(other) == [job.pk]


def test_a_lease_that_ended_in_silence_was_delay_enough(group: Group) -> None:
    queue = make_queue()
    silent, same_place = pilot_at(queue, group), pilot_at(queue, group)
    other, job = pilot_at(make_queue(), group), make_job(group=group)
    jobs_for(silent)
    for _ in range(40):
        pass_time(seconds=10)
        expiry.expire_leases()
    assert Job.objects.get(pk=job.pk).status == JobStatus.WAITING
    assert jobs_for(same_place) == []
    assert jobs_for(other) == [job.pk]


def test_the_minor_status_shows_the_delay_and_the_avoided_place(group: Group) -> None:
    queue = make_queue()
    bad, job = pilot_at(queue, group), make_job(group=group)
    make_queue()
    jobs_for(bad)
    give_back(job)
    until = database_now() + timedelta(seconds=DELAY_S)
    assert Job.objects.get(pk=job.pk).minor_status == (
        f"Software is missing on the node: root6; waits until {until:%Y-%m-%d %H:%M:%S} UTC, then elsewhere than"
        f" {queue.ce.site}/{queue.ce}/{queue} first"
    )
