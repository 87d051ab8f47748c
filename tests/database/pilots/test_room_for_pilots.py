"""Throttles and limits bound the pilots of a cycle as they bound the matches."""

from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.db import transaction

from matching.services.limits import sum_up
from matching.services.throttles import advertise
from matching.services.throttles import count as count_at
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.services.secrets import issue_secrets
from resources.domain.advertised_load import CURRENT, GATHERING, SUBMITTING
from resources.domain.advertisements import of_classad, of_numbers
from resources.models import Queue, Site, ThrottleState
from taskqueues.models import Limit, LimitHour
from tests.clock import pass_time, stop_clock
from tests.database.pilots.conftest import Fleet
from tests.factories import NOW, make_group, make_job, make_pilot, make_queue, make_task_queue
from wms.accounts.models import Group
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

_job_ids = count(1_000_001)


@pytest.fixture
def group() -> Group:
    return make_group()


@pytest.fixture
def queue() -> Queue:
    return make_queue(max_waiting_pilots=50)


def waiting(jobs: int, *, group: Group, **requirements: Any) -> None:
    make_task_queue(group=group, job_ids=[next(_job_ids) for _ in range(jobs)], **requirements)


def throttle(queue: Queue, **fields: Any) -> Site:
    site = queue.ce.site
    Site.objects.filter(pk=site.pk).update(**fields)
    site.refresh_from_db()
    return site


def held(queue: Queue, **jobs: int) -> None:
    """Add this many leased jobs at the site, by their status in lower case."""
    for status, number in jobs.items():
        for _ in range(number):
            make_job(status=JobStatus(status.capitalize()), site=queue.ce.site)


def cycle(fleet: Fleet) -> int:
    return fleet.cycle()


def test_a_queue_whose_site_starts_pilots_itself_is_not_served(fleet: Fleet, group: Group) -> None:
    make_pilot(vo=group.vo, queue=make_queue(max_waiting_pilots=0))
    waiting(5, group=group)
    assert cycle(fleet) == 0


@pytest.mark.parametrize(
    ("throttled", "jobs", "sent"),
    [
        ({"throttle_policy": "matches", "max_matches": 3}, {"running": 5}, 3),
        ({"throttle_policy": "matches", "max_matches": 0}, {}, 0),
        ({"throttle_policy": "level0", "max_submitting_jobs": 5}, {"matched": 2, "running": 9}, 3),
        ({"throttle_policy": "level0", "max_submitting_jobs": 5}, {"matched": 6}, 0),
        (
            {"throttle_policy": "level1", "max_submitting_and_output_gathering_jobs": 6},
            {"matched": 2, "completing": 1, "running": 4},
            3,
        ),
        (
            {"throttle_policy": "level2", "max_jobs": 9, "max_submitting_and_output_gathering_jobs": 20},
            {"running": 4, "stalled": 3},
            2,
        ),
        ({"throttle_policy": "custom", "throttle_requirements": "CurrentJobs + CurMatches < 4"}, {"running": 2}, 2),
        ({"throttle_policy": "custom", "throttle_requirements": "CurMatches < MaxJobs"}, {}, 0),
        ({"throttle_policy": "level0", "max_submitting_jobs": 5, "throttle_when_expired": "closed"}, {}, 0),
    ],
)
def test_sites_without_advertisements_are_counted_as_for_a_match(
    fleet: Fleet, queue: Queue, group: Group, throttled: dict[str, Any], jobs: dict[str, int], sent: int
) -> None:
    throttle(queue, **throttled)
    held(queue, **jobs)
    waiting(10, group=group)
    assert cycle(fleet) == sent
    assert not ThrottleState.objects.exists()  # the match begins the cycle


@pytest.mark.parametrize(("when_expired", "sent"), [("count", 4), ("closed", 0)])
def test_an_advertisement_expires_after_three_cycles(
    fleet: Fleet, queue: Queue, group: Group, when_expired: str, sent: int
) -> None:
    site = throttle(queue, throttle_policy="level0", max_submitting_jobs=5, throttle_when_expired=when_expired)
    held(queue, matched=1)
    waiting(10, group=group)
    advertise(site.pk, of_numbers({SUBMITTING: 3, GATHERING: 0, CURRENT: 3}))
    pass_time(seconds=901)
    assert cycle(fleet) == sent


def test_a_valid_advertisement_is_not_replaced_by_a_count(fleet: Fleet, queue: Queue, group: Group) -> None:
    stop_clock()
    site = throttle(queue, throttle_policy="level0", max_submitting_jobs=5)
    waiting(10, group=group)
    advertise(site.pk, of_numbers({SUBMITTING: 3, GATHERING: 0, CURRENT: 3}))
    pass_time(seconds=899)
    assert cycle(fleet) == 2


def test_a_site_that_the_server_found_full_gets_pilots_when_its_jobs_have_moved_on(
    fleet: Fleet, queue: Queue, group: Group
) -> None:
    site = throttle(queue, throttle_policy="level0", max_submitting_jobs=2)
    held(queue, matched=2)
    waiting(10, group=group)
    assert not count_at(site.pk)
    assert cycle(fleet) == 0
    Job.objects.filter(status=JobStatus.MATCHED).update(status=JobStatus.RUNNING)
    assert cycle(fleet) == 2


def test_throttles_and_submitted_pilots_bound_the_number_of_pilots(fleet: Fleet, queue: Queue, group: Group) -> None:
    waiting(10, group=group)
    site = throttle(queue, throttle_policy="matches", max_matches=7)
    assert count_at(site.pk)
    ThrottleState.objects.update(matched=1)
    sent = [
        Pilot.objects.create(
            vo=group.vo,
            queue=queue,
            stamp=f"s{number}",
            status=PilotStatus.WAITING,
            submitted_at=NOW - timedelta(minutes=1),
        )
        for number in range(2)
    ]
    with transaction.atomic():
        issue_secrets(sent, now=NOW)
    assert cycle(fleet) == 4


def test_jobs_refused_by_an_expression_get_no_pilots_at_the_site(fleet: Fleet, queue: Queue, group: Group) -> None:
    site = throttle(queue, throttle_policy="custom", throttle_requirements='CurMatches < 9 && TARGET.JobType == "User"')
    waiting(4, group=group)
    waiting(5, group=group, job_type="Merge")
    assert cycle(fleet) == 4
    advertise(site.pk, of_classad("CurMatches = 9"))
    Pilot.objects.all().delete()
    assert cycle(fleet) == 0


@pytest.mark.parametrize(
    ("requirements", "sent"),
    [('TARGET.JobType == "User"', 3), ('TARGET.JobType == "Merge"', 2), ("CurMatches < 2", 2), ("false", 0)],
)
def test_advertised_requirements_bound_the_number_of_pilots(
    fleet: Fleet, queue: Queue, group: Group, requirements: str, sent: int
) -> None:
    site = throttle(queue, throttle_policy="level0", max_submitting_jobs=3)
    waiting(4, group=group)
    waiting(2, group=group, job_type="Merge")
    advertise(site.pk, of_classad(f"CurrentSubmittingJobs = 0; Requirements = {requirements}"))
    assert cycle(fleet) == sent


def test_a_limit_bounds_pilots_for_its_jobs_only(fleet: Fleet, queue: Queue, group: Group) -> None:
    other = make_group(vo=group.vo)
    waiting(10, group=group)
    waiting(5, group=other)
    Limit.objects.create(running=3, group=group, ce=queue.ce)
    assert cycle(fleet) == 8


def test_a_quota_of_cpu_time_gets_pilots_again_when_its_day_is_over(fleet: Fleet, queue: Queue, group: Group) -> None:
    """Nobody asks for jobs of a quota for which no pilots are sent; so no claim sums up what it has used."""
    limit = Limit.objects.create(cpu_s_per_day=100, group=group)
    job = make_job(group=group, status=JobStatus.RUNNING, site=queue.ce.site)
    waiting(3, group=group)
    Job.objects.filter(pk=job.pk).update(cpu_s=100.0)
    sum_up()
    assert LimitHour.objects.get().limit == limit
    assert cycle(fleet) == 0
    pass_time(seconds=23 * 3600)
    sum_up()
    assert cycle(fleet) == 0
    pass_time(seconds=3 * 3600)
    sum_up()
    assert not LimitHour.objects.exists()
    assert cycle(fleet) == 3
