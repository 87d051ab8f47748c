"""Limits that are created, changed and deleted while pilots match and jobs end, on real connections."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from matching.models import Match
from matching.queries.invariants import violations
from matching.services import limits
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from taskqueues.models import Limit, LimitCount, LimitEvent, LimitHour, LimitSlot
from taskqueues.queries import limit_standings
from taskqueues.services import priorities
from tests.factories import LARGE_SLOT, make_group, make_job, make_pilot, make_queue, make_user
from tests.threads import at_once
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 40


def work(pilot: Pilot, *, seed: int) -> None:
    """Match and end jobs under the current limits."""
    offer, chance = OfferRequest(cpu_time_s=300_000), Random(seed)
    for _ in range(ROUNDS):
        for lease in match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=chance):
            if chance.random() < 0.8:
                now = timezone.now()
                Job.objects.filter(pk=lease.job_id).update(status=JobStatus.DONE, ended_at=now, cpu_s=1.0)
                Match.objects.filter(pk=lease.match_id).update(ended_at=now, end_reason="finished")


def govern(*, group: Group, owner: User, seed: int) -> None:
    """Create limits, change their scope and number, and delete them."""
    chance = Random(seed)
    scopes: list[dict[str, Any]] = [
        {"vo": group.vo, "group": None},
        {"vo": None, "group": group},
        {"vo": group.vo, "user": owner},
    ]
    for _ in range(ROUNDS // 4):
        bounds: dict[str, Any] = {
            "running": chance.randrange(30),
            "delay_s": chance.choice([None, 0.001]),
            "cpu_s_per_day": 10_000,
        }
        limit = Limit.objects.create(**chance.choice(scopes), **bounds)
        Limit.objects.filter(pk=limit.pk).update(running=chance.randrange(30))
        Limit.objects.filter(pk=limit.pk).update(**chance.choice(scopes))
        if chance.random() < 0.8:
            limit.delete()


def sum_up() -> None:
    for _ in range(ROUNDS):
        limits.sum_up()


def test_limits_that_come_change_and_go_amid_matches_stay_right() -> None:
    group = make_group(shares_jobs=True)
    owner = make_user(groups=[group])
    for _ in range(300):
        make_job(group=group, owner=owner)
    pilots = [make_pilot(vo=group.vo, queue=make_queue(**LARGE_SLOT)) for _ in range(4)]
    hands: list[Callable[[], None]] = [partial(work, pilot, seed=seed) for seed, pilot in enumerate(pilots)]
    hands += [partial(govern, group=group, owner=owner, seed=seed) for seed in range(2)]
    at_once([*hands, sum_up])

    limits.sum_up()
    held = Job.objects.filter(status__in=LEASED).count()
    assert {standing.bounds.held for standing in limit_standings()} <= {held}
    kept = set(Limit.objects.values_list("pk", flat=True))
    for rows in (LimitSlot, LimitCount, LimitHour, LimitEvent):
        assert set(rows.objects.values_list("limit", flat=True)) <= kept
    priorities.recalculate()
    assert list(violations()) == []
