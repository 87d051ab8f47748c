"""Limits on matches: running jobs, delays and CPU time of a day, by user, group and place."""

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection
from django.db.models import F, Sum
from django.utils import timezone

from matching.models import Match
from matching.queries.invariants import violations
from matching.services import limits
from matching.services.limits import FullLimits
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from resources.models import Queue, Site, ThrottleState
from taskqueues.models import Limit, LimitCount, LimitEvent, LimitHour, LimitSlot
from taskqueues.queries import limit_standings, room_in_words, with_counts
from taskqueues.services import priorities
from tests.clock import pass_time, stop_clock
from tests.factories import LARGE_SLOT, NOW, make_group, make_job, make_pilot, make_queue, make_user, make_vo, submit
from wms.accounts.models import Group
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db


@pytest.fixture
def group() -> Group:
    return make_group(priority=100.0, shares_jobs=True)


@pytest.fixture
def queue() -> Queue:
    return make_queue(**LARGE_SLOT)


@pytest.fixture
def pilot(group: Group, queue: Queue) -> Pilot:
    return make_pilot(vo=group.vo, queue=queue)


def take(pilot: Pilot, *, at_most: int = 100, seed: int = 1, **offered: Any) -> list[Job]:
    """Match until there is no more job."""
    request = OfferRequest(**{"cpu_time_s": 300_000, **offered})
    chance = Random(seed)
    taken: list[Job] = []
    while len(taken) < at_most:
        leases = match(request, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=chance)
        if not leases:
            break
        taken.append(Job.objects.get(pk=leases[0].job_id))
    return taken


def end(job: Job, *, status: JobStatus = JobStatus.DONE, cpu_s: float = 0.0) -> None:
    ended_at = timezone.now() if status is JobStatus.DONE else None
    Job.objects.filter(pk=job.pk).update(status=status, ended_at=ended_at, cpu_s=cpu_s)
    Match.objects.filter(job=job).update(ended_at=timezone.now(), end_reason="finished")


SCOPES: dict[str, Callable[[Group, Queue, Job], dict[str, Any]]] = {
    "vo": lambda group, _queue, _job: {"vo": group.vo},
    "site": lambda _group, queue, _job: {"site": queue.ce.site},
    "ce": lambda _group, queue, _job: {"ce": queue.ce},
    "group": lambda group, _queue, _job: {"group": group},
    "user": lambda _group, _queue, job: {"user": job.owner},
    "job_type": lambda _group, _queue, job: {"job_type": job.job_type},
}


@pytest.mark.parametrize("names", [[name] for name in SCOPES] + [["site", "job_type"], ["vo", "user"], [*SCOPES]])
def test_no_more_than_the_limit_run_at_a_time(group: Group, queue: Queue, pilot: Pilot, names: list[str]) -> None:
    owner = make_user(groups=[group])
    jobs = [make_job(group=group, owner=owner) for _ in range(6)]
    scope: dict[str, Any] = {}
    for name in names:
        scope |= SCOPES[name](group, queue, jobs[0])
    Limit.objects.create(running=3, **scope)
    running = take(pilot)
    assert len(running) == 3
    end(running[0])
    assert len(take(pilot)) == 1
    assert take(pilot) == []
    assert list(violations()) == []


def test_jobs_outside_of_the_scope_are_not_limited(group: Group, queue: Queue, pilot: Pilot) -> None:
    limited, free = make_user(groups=[group]), make_user(groups=[group])
    for owner in (limited, free):
        for _ in range(4):
            make_job(group=group, owner=owner)
    Limit.objects.create(running=1, user=limited, site=queue.ce.site)
    taken = take(pilot)
    assert sorted(job.owner_id for job in taken).count(limited.pk) == 1
    assert len(taken) == 5
    elsewhere = make_pilot(vo=group.vo, queue=make_queue(**LARGE_SLOT))
    assert len(take(elsewhere)) == 3


def test_each_of_several_limits_holds(group: Group, queue: Queue, pilot: Pilot) -> None:
    for number in range(8):
        make_job(group=group, job_type="Merge" if number % 2 else "User")
    Limit.objects.create(running=5, vo=group.vo)
    Limit.objects.create(running=2, job_type="Merge")
    taken = take(pilot)
    assert len(taken) == 5
    assert sum(job.job_type == "Merge" for job in taken) <= 2
    held = {standing.limit.pk: standing.bounds.held for standing in limit_standings()}
    assert sorted(held.values()) == sorted([5, sum(job.job_type == "Merge" for job in taken)])


@pytest.mark.parametrize("status", [JobStatus.DONE, JobStatus.RESCHEDULED])
def test_a_job_that_leaves_its_pilot_frees_its_limit_once(group: Group, pilot: Pilot, status: JobStatus) -> None:
    for _ in range(4):
        make_job(group=group)
    Limit.objects.create(running=1, vo=group.vo)
    (job,) = take(pilot)
    Job.objects.filter(pk=job.pk).update(status=JobStatus.RUNNING)
    Job.objects.filter(pk=job.pk).update(status=JobStatus.STALLED)
    assert take(pilot) == []
    end(job, status=status)
    assert len(take(pilot)) == 1
    assert list(LimitSlot.objects.values_list("part", "used")) == [(1, 1)]


def test_a_killed_job_frees_its_limit_at_once(group: Group, pilot: Pilot) -> None:
    owner = make_user(groups=[group])
    for _ in range(2):
        make_job(group=group, owner=owner)
    Limit.objects.create(running=1, user=owner)
    (job,) = take(pilot)
    Job.objects.filter(pk=job.pk).update(status=JobStatus.KILLED, ended_at=timezone.now())
    assert len(take(pilot)) == 1


def test_jobs_that_run_already_count_in_a_new_limit(group: Group, queue: Queue, pilot: Pilot) -> None:
    for _ in range(10):
        make_job(group=group)
    running = take(pilot, at_most=4)
    limit = Limit.objects.create(running=5, vo=group.vo)
    assert len(take(pilot)) == 1
    for job in running:
        end(job)
    assert len(take(pilot)) == 4
    Limit.objects.filter(pk=limit.pk).update(running=2)
    assert take(pilot) == []
    (standing,) = limit_standings()
    assert (standing.bounds.held, standing.bounds.room(now=timezone.now())) == (5, 0)


def test_a_limit_of_zero_allows_no_job(group: Group, pilot: Pilot) -> None:
    make_job(group=group)
    Limit.objects.create(running=0, vo=group.vo)
    assert take(pilot) == []


def test_a_wide_limit_is_in_slots_that_add_up_to_it(group: Group) -> None:
    Limit.objects.create(running=100, vo=group.vo)
    slots = LimitSlot.objects.aggregate(part=Sum("part"), used=Sum("used"))
    assert (LimitSlot.objects.count(), slots) == (16, {"part": 100, "used": 0})


def test_a_limit_of_a_site_is_one_slot(queue: Queue) -> None:
    Limit.objects.create(running=100, site=queue.ce.site)
    assert list(LimitSlot.objects.values_list("part", flat=True)) == [100]


def test_a_removed_limit_has_no_effect(group: Group, pilot: Pilot) -> None:
    for _ in range(3):
        make_job(group=group)
    limit = Limit.objects.create(running=1, vo=group.vo)
    (job,) = take(pilot)
    limit.delete()
    end(job)
    assert len(take(pilot)) == 2


def test_a_full_limit_keeps_the_proportions_of_other_queues(group: Group, pilot: Pilot) -> None:
    """Not the pilot goes away empty: the queue leaves the draw (docs/architecture.md, Matching)."""
    limited = make_user(groups=[group])
    for _ in range(5):
        make_job(group=group, owner=limited)
    others = [make_job(group=group, owner=make_user(groups=[group])) for _ in range(5)]
    Limit.objects.create(running=0, user=limited)
    assert {job.pk for job in take(pilot)} == {job.pk for job in others}


def test_a_full_limit_is_checked_again_when_no_other_job_fits(
    group: Group, pilot: Pilot, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_limits = FullLimits(clock=lambda: 0.0)  # never forgets
    monkeypatch.setattr("matching.services.search.full_limits", full_limits)
    owner = make_user(groups=[group])
    for _ in range(2):
        make_job(group=group, owner=owner)
    limit = Limit.objects.create(running=1, user=owner)
    (job,) = take(pilot)
    assert limit.pk in full_limits.recent()
    end(job)
    assert len(take(pilot)) == 1  # though it was remembered as full


@pytest.mark.usefixtures("clock")
def test_matches_keep_their_delay(group: Group, queue: Queue, pilot: Pilot) -> None:
    stop_clock()
    for _ in range(10):
        make_job(group=group)
    Limit.objects.create(delay_s=10.0, burst=3, site=queue.ce.site)
    assert len(take(pilot)) == 3
    pass_time(seconds=9)
    assert take(pilot) == []
    pass_time(seconds=1.5)
    assert len(take(pilot)) == 1
    pass_time(seconds=300)
    assert len(take(pilot)) == 3  # after a pause no more at once than the burst


def test_a_delay_of_an_attribute_holds_for_its_jobs_only(group: Group, queue: Queue, pilot: Pilot) -> None:
    for number in range(6):
        make_job(group=group, job_type="Merge" if number % 2 else "User")
    Limit.objects.create(delay_s=60.0, site=queue.ce.site, job_type="Merge")
    taken = take(pilot)
    assert sorted(job.job_type for job in taken) == ["Merge", "User", "User", "User"]


@pytest.mark.usefixtures("clock")
def test_cpu_time_of_a_day_is_a_quota(group: Group, pilot: Pilot) -> None:
    owner, other = make_user(groups=[group]), make_user(groups=[group])
    for _ in range(6):
        make_job(group=group, owner=owner)
    make_job(group=group, owner=other)
    Limit.objects.create(user=owner, cpu_s_per_day=100)
    first, second, third = [job for job in take(pilot, at_most=4) if job.owner == owner][:3]
    Job.objects.filter(pk=first.pk).update(cpu_s=60)
    Job.objects.filter(pk=first.pk).update(cpu_s=70)
    end(second, cpu_s=29)
    assert len(take(pilot, at_most=1)) == 1
    end(third, cpu_s=1)
    assert {job.owner for job in take(pilot)} <= {other}
    limits.sum_up()
    assert not LimitEvent.objects.exists()
    assert LimitHour.objects.aggregate(Sum("cpu_s")) == {"cpu_s__sum": 100.0}
    assert take(pilot) == []
    pass_time(hours=26)
    assert take(pilot)


def test_events_of_a_deleted_limit_do_not_stop_the_summing_up(group: Group, pilot: Pilot) -> None:
    """A job may end, and report CPU time, while its limit is being removed."""
    for _ in range(2):
        make_job(group=group)
    kept = Limit.objects.create(vo=group.vo, cpu_s_per_day=100, running=5)
    LimitEvent.objects.create(limit_id=kept.pk - 1, jobs_left=1, cpu_s=5.0)
    (job,) = take(pilot, at_most=1)
    end(job, cpu_s=7.0)
    limits.sum_up()
    connection.check_constraints()
    assert not LimitEvent.objects.exists()
    assert list(LimitHour.objects.values_list("limit", "cpu_s")) == [(kept.pk, 7.0)]


def test_rescheduling_uses_no_cpu_time_twice(group: Group, pilot: Pilot) -> None:
    make_job(group=group)
    Limit.objects.create(vo=group.vo, cpu_s_per_day=100)
    (job,) = take(pilot)
    Job.objects.filter(pk=job.pk).update(cpu_s=40)
    Job.objects.filter(pk=job.pk).update(status=JobStatus.RESCHEDULED, cpu_s=None)
    assert LimitEvent.objects.aggregate(Sum("cpu_s")) == {"cpu_s__sum": 40.0}


@pytest.mark.slow
def test_the_others_keep_their_proportion_beside_a_full_limit() -> None:
    vo = make_vo()
    limited, one, three = (make_group(vo=vo, priority=priority, shares_jobs=True) for priority in (600, 100, 300))
    for group in (limited, one, three):
        jobs = parse_submission({"jobs": [{"executable": "a.sh"}] * 400, "group": group.name})
        submit(jobs, owner=make_user(groups=[group]), now=NOW)
    priorities.recalculate()
    Limit.objects.create(running=0, group=limited)
    taken = take(make_pilot(vo=vo, queue=make_queue(**LARGE_SLOT)), at_most=400)
    ones = sum(job.group_id == one.pk for job in taken)
    assert all(job.group_id != limited.pk for job in taken)
    # 100 of 400 are expected; four standard deviations.
    assert 65 <= ones <= 135


# ---- Bounds, and what verify tells -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"delay_s": 86_401.0}, "limit_delay_is_at_most_a_day"),
        ({"delay_s": float("inf")}, "limit_delay_is_at_most_a_day"),
        ({"delay_s": float("nan")}, "limit_delay_is_at_most_a_day"),
        ({"delay_s": -0.1}, "limit_delay_is_at_most_a_day"),
        ({"delay_s": 1.0, "burst": 0}, "limit_burst_is_at_least_one_and_not_endless"),
        ({"delay_s": 1.0, "burst": 100_001}, "limit_burst_is_at_least_one_and_not_endless"),
    ],
)
def test_a_delay_beyond_the_date_range_is_refused(group: Group, fields: dict[str, Any], constraint: str) -> None:
    with pytest.raises(IntegrityError, match=constraint):
        Limit.objects.create(vo=group.vo, **fields)


def test_the_longest_delay_with_the_largest_burst_is_kept(group: Group, pilot: Pilot) -> None:
    for _ in range(3):
        make_job(group=group)
    limit = Limit.objects.create(vo=group.vo, delay_s=86_400.0, burst=100_000)
    assert len(take(pilot)) == 3
    LimitCount.objects.update(free_at=timezone.now() + timedelta(days=110_000))
    make_job(group=group)
    assert take(pilot) == []
    assert "are matched every 86400 s, the next in" in room_in_words(
        with_counts(Limit.objects.filter(pk=limit.pk)).get(), now=timezone.now()
    )


DAMAGES: dict[str, Callable[[], object]] = {
    "slots are lost": lambda: LimitSlot.objects.all().delete(),
    "a part has grown": lambda: LimitSlot.objects.filter(number=0).update(part=F("part") + 1),
    "the count is lost": lambda: LimitCount.objects.all().delete(),
    "too many are used": lambda: LimitSlot.objects.filter(number=0).update(used=F("used") + 1),
    "one has left that did not": lambda: LimitEvent.objects.create(limit=Limit.objects.get(), jobs_left=1),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_verify_reports_damaged_counters(group: Group, damage: str) -> None:
    Limit.objects.create(vo=group.vo, running=10, delay_s=1.0)
    assert list(violations()) == []
    DAMAGES[damage]()
    assert [violation.row for violation in violations()] == [str(Limit.objects.get())]


def test_verify_reports_matches_that_a_throttle_did_not_count(group: Group, queue: Queue, pilot: Pilot) -> None:
    Site.objects.update(throttle_policy="level0", max_submitting_jobs=5)
    for _ in range(2):
        make_job(group=group)
    assert len(take(pilot, at_most=1)) == 1
    assert len(take(make_pilot(vo=group.vo), at_most=1, site=queue.ce.site.name)) == 1
    assert list(violations()) == []
    for counted in (1, 0):
        ThrottleState.objects.update(matched=counted)
        assert {violation.invariant for violation in violations()} == {"A throttle counts every match"}


def test_a_limit_with_a_changed_scope_is_counted_anew(group: Group, pilot: Pilot) -> None:
    make_job(group=group)
    Limit.objects.create(vo=group.vo, running=5, cpu_s_per_day=100, delay_s=1000.0)
    (job,) = take(pilot)
    Job.objects.filter(pk=job.pk).update(cpu_s=50)
    limits.sum_up()
    Job.objects.filter(pk=job.pk).update(cpu_s=60)
    Limit.objects.update(cpu_s_per_day=90)
    (standing,) = limit_standings()
    assert (standing.bounds.cpu_s, standing.bounds.held) == (60, 1)
    assert standing.bounds.free_at is not None
    Limit.objects.update(vo=None, group=group)
    (standing,) = limit_standings()
    assert (standing.bounds.cpu_s, standing.bounds.held, standing.bounds.free_at) == (0, 1, None)
    assert not LimitHour.objects.exists()
    assert list(violations()) == []
