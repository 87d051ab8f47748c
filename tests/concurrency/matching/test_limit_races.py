"""Many matchers and one limit, on real connections: it is reached and never exceeded."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from django.db.models import Sum
from django.utils import timezone

from matching.models import Match
from matching.queries.invariants import violations
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from taskqueues.models import Limit, LimitSlot
from taskqueues.queries import limit_standings
from taskqueues.services import priorities
from tests.cases import examples
from tests.concurrency.matching.test_match_races import drain
from tests.factories import LARGE_SLOT, make_group, make_job, make_pilot, make_queue, make_user
from tests.threads import at_once
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db(transaction=True)

MATCHERS = 8


def work(pilot: Pilot, *, seed: int) -> int:
    """Match, and end held leases, repeatedly; return the number of ended jobs."""
    chance, ended, empty = Random(seed), 0, 0
    offer = OfferRequest(cpu_time_s=300_000)
    while empty < 20:
        leases = match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=chance)
        if not leases:
            empty += 1
            continue
        held = Job.objects.filter(status__in=LEASED).count()
        assert held <= 20
        now = timezone.now()
        Job.objects.filter(pk=leases[0].job_id).update(status=JobStatus.DONE, ended_at=now)
        Match.objects.filter(pk=leases[0].match_id).update(ended_at=now, end_reason="finished")
        ended += 1
    return ended


@pytest.mark.parametrize("running", [1, 20, 50])
def test_eight_matchers_admit_exactly_the_limit(running: int) -> None:
    group = make_group(shares_jobs=True)
    owner = make_user(groups=[group])
    for _ in range(80):
        make_job(group=group, owner=owner)
    Limit.objects.create(vo=group.vo, running=running)
    pilots = [make_pilot(vo=group.vo, queue=make_queue(**LARGE_SLOT)) for _ in range(MATCHERS)]
    taken = at_once([partial(drain, pilot, seed=seed) for seed, pilot in enumerate(pilots)])
    assert sum(map(len, taken)) == Match.objects.count() == running
    assert LimitSlot.objects.aggregate(Sum("used")) == {"used__sum": running}


def test_jobs_that_end_make_room_and_no_more() -> None:
    group = make_group(shares_jobs=True)
    owner = make_user(groups=[group])
    jobs = examples(300)
    for _ in range(jobs):
        make_job(group=group, owner=owner)
    Limit.objects.create(vo=group.vo, running=20)
    Limit.objects.create(user=owner, running=5)
    pilots = [make_pilot(vo=group.vo, queue=make_queue(**LARGE_SLOT)) for _ in range(MATCHERS)]
    assert sum(at_once([partial(work, pilot, seed=seed) for seed, pilot in enumerate(pilots)])) == jobs
    assert [standing.bounds.held for standing in limit_standings()] == [0, 0]


def test_a_limit_that_is_made_amid_matches_counts_them_all() -> None:
    group = make_group(shares_jobs=True)
    owner = make_user(groups=[group])
    for _ in range(200):
        make_job(group=group, owner=owner)
    pilots = [make_pilot(vo=group.vo, queue=make_queue(**LARGE_SLOT)) for _ in range(MATCHERS - 2)]

    def limit(**scope: Any) -> list[int]:
        while Match.objects.count() < 20:
            pass
        Limit.objects.create(running=100, **scope)
        return []

    matchers: list[Callable[[], list[int]]] = [partial(drain, pilot, seed=seed) for seed, pilot in enumerate(pilots)]
    makers: list[Callable[[], list[int]]] = [partial(limit, vo=group.vo), partial(limit, group=group)]
    taken = at_once([*matchers, *makers])
    assert sum(map(len, taken)) == Match.objects.count() == 100
    assert [standing.bounds.held for standing in limit_standings()] == [100, 100]
    priorities.recalculate()
    assert list(violations()) == []
