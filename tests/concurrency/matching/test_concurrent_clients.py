"""All operations on waiting jobs, on real connections: no job is lost, and none is leased twice.

A deadlock (40P01), or any other error that is not a refusal, ends its worker and so the test.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from uuid import uuid4

import pytest
from django.utils import timezone

from matching.models import Match
from matching.queries.invariants import violations
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from taskqueues.models import QueuedJob
from taskqueues.services import index_changes, priorities, queueing
from tests.factories import LARGE_SLOT, make_ce, make_group, make_pilot, make_queue, make_site, make_user, submit
from tests.threads import repeat_at_once
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import Action
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job
from wms.jobs.services import control
from wms.kernel.errors import ConflictError

pytestmark = pytest.mark.django_db(transaction=True)

#: Times that each step is done at least, and jobs that are matched at least.
ROUNDS = 15
MATCHES = 300
SUBMITTERS = 16
MATCHERS = 8
FORBIDDEN = "LCG.Forbidden.org"


@dataclass
class SampleData:
    """A VO with two groups, whose jobs all ban one of two sites."""

    groups: list[Group]
    owners: list[User]
    pilots: list[Pilot]
    #: Job ids, as the submissions and the matches were answered.
    submitted: list[int] = field(default_factory=list)
    matched: list[int] = field(default_factory=list)
    withdrawn: list[int] = field(default_factory=list)

    def submit(self, chance: Random) -> None:
        owner = chance.choice(self.owners)
        jobs = [
            {
                "executable": "a",
                "priority": chance.choice([0, 1, 9, 10]),
                "cpu_time_s": chance.choice([500, 5000, 50_000]),
                "job_type": f"type{chance.randrange(20)}",
                "banned_sites": [FORBIDDEN],
            }
            for _ in range(chance.randint(1, 4))
        ]
        answer = submit(parse_submission({"jobs": jobs}), owner=owner, now=timezone.now())
        self.submitted += [job.id for job in answer.jobs]

    def match(self, chance: Random, *, pilot: Pilot, cpu_time_s: int | None = None) -> None:
        offer = OfferRequest(cpu_time_s=cpu_time_s or chance.choice([500, 300_000]))
        leases = match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=chance)
        self.matched += [lease.job_id for lease in leases]

    def withdraw(self, chance: Random) -> None:
        for job_id in QueuedJob.objects.order_by("?").values_list("pk", flat=True)[:3]:
            owner = Job.objects.select_related("owner").get(pk=job_id).owner
            with suppress(ConflictError):  # a pilot was faster
                control.apply_to_one(Action.HOLD, job_id, by=owner, now=timezone.now())
                self.withdrawn.append(job_id)

    def recalculate(self, chance: Random) -> None:
        priorities.recalculate(only_changed=chance.random() < 0.5)

    def clean(self, chance: Random) -> None:
        queueing.remove_empty(now=timezone.now())
        index_changes.remove_old()


@pytest.fixture
def sample() -> SampleData:
    groups = [make_group(shares_jobs=True)]
    groups.append(make_group(vo=groups[0].vo))
    owners = [make_user(groups=[group]) for group in groups for _ in range(3)]
    allowed, forbidden = (
        make_queue(ce=make_ce(site=make_site(name=name)), **LARGE_SLOT) for name in ("LCG.Allowed.org", FORBIDDEN)
    )
    places = [forbidden, *[allowed] * (MATCHERS - 1)]
    return SampleData(
        groups=groups, owners=owners, pilots=[make_pilot(vo=groups[0].vo, queue=queue) for queue in places]
    )


def test_everything_at_once_loses_no_job_and_gives_none_twice(sample: SampleData) -> None:
    steps = [sample.submit] * SUBMITTERS + [partial(sample.match, pilot=pilot) for pilot in sample.pilots]
    steps += [sample.withdraw, sample.recalculate, sample.clean]
    repeat_at_once(steps, until=lambda rounds: rounds >= ROUNDS and len(sample.matched) >= MATCHES)

    drain(sample)
    assert max(Counter(sample.matched).values()) == 1
    assert sorted(sample.matched) == sorted(Match.objects.values_list("job_id", flat=True))
    # None lost: each job that was submitted was matched, or is held by who withdrew it.
    assert set(sample.submitted) == set(sample.matched) | set(sample.withdrawn)
    assert not set(sample.matched) & set(sample.withdrawn)
    assert not Match.objects.filter(queue__ce__site__name=FORBIDDEN).exists()
    queueing.remove_empty(now=timezone.now())
    priorities.recalculate()
    assert list(violations()) == []


def drain(sample: SampleData) -> None:
    """Match until there is no more job; assert that none waits."""
    given = -1
    while len(sample.matched) > given:
        given = len(sample.matched)
        sample.match(Random(1), pilot=sample.pilots[-1], cpu_time_s=300_000)
    assert not QueuedJob.objects.exists()
