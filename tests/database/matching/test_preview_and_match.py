"""A preview agrees with a match under the same throttles and limits."""

from random import Random
from typing import Any
from uuid import uuid4

import pytest

from matching.queries.preview import preview
from matching.services.match import match
from matching.services.offers import OfferRequest, binding_of, of_pilot
from resources.models import Queue, Site
from taskqueues.models import Limit, QueuedJob
from tests.cases import quick_cases
from tests.factories import make_ce, make_group, make_job, make_pilot, make_queue, make_site, make_user, make_vo
from wms.accounts.models import VO
from wms.jobs.domain.lifecycle import LEASED
from wms.jobs.models import Job
from wms.kernel.db import database_now
from wms.kernel.memo import UNCACHED

pytestmark = pytest.mark.django_db

THROTTLES: tuple[dict[str, Any], ...] = (
    {},
    {"throttle_policy": "level0", "max_submitting_jobs": 2},
    {"throttle_policy": "matches", "max_matches": 2},
    {"throttle_policy": "level2", "max_jobs": 3, "max_submitting_and_output_gathering_jobs": 2},
    {"throttle_policy": "custom", "throttle_requirements": "CurMatches + CurrentJobs < 2"},
    {"throttle_policy": "custom", "throttle_requirements": 'TARGET.JobType == "Merge" && CurMatches < 2'},
    {"throttle_policy": "level0", "max_submitting_jobs": 2, "throttle_when_expired": "closed"},
)


@pytest.mark.parametrize("seed", quick_cases(range(25), quick=3))
def test_a_match_gives_exactly_the_jobs_of_the_preview(seed: int) -> None:
    chance = Random(seed)
    vo = make_vo()
    groups = [
        make_group(vo=vo, shares_jobs=chance.random() < 0.5, priority=chance.choice([0.0, 1.0])) for _ in range(2)
    ]
    owners = [make_user(groups=groups) for _ in range(2)]
    queues = [make_queue(ce=make_ce(site=make_site())) for _ in range(2)]
    for queue in queues:
        Site.objects.filter(pk=queue.ce.site_id).update(**chance.choice(THROTTLES))
    for _ in range(12):
        kind: dict[str, Any] = {"job_type": chance.choice(["User", "Merge"]), "cpu_time_s": chance.choice([500, 5000])}
        make_job(group=chance.choice(groups), owner=chance.choice(owners), **kind)
    for _ in range(chance.randrange(3)):
        scopes: list[dict[str, Any]] = [
            {"vo": vo},
            {"group": groups[0]},
            {"user": owners[0], "job_type": "Merge"},
            {"site": queues[0].ce.site},
            {"ce": queues[1].ce, "job_type": "User"},
        ]
        bounds: dict[str, Any] = chance.choice(
            [{"running": chance.randrange(4)}, {"delay_s": 1000.0, "burst": 2}, {"cpu_s_per_day": 0}]
        )
        Limit.objects.create(**chance.choice(scopes), **bounds)
    for _ in range(15):
        _ask(chance, queues[chance.randrange(2)], vo=vo)
        Job.objects.filter(pk=chance.choice(_held() or [0])).update(status="Running")


def _held() -> list[int]:
    return list(Job.objects.filter(status__in=LEASED).order_by("pk").values_list("pk", flat=True))


def _ask(chance: Random, queue: Queue, *, vo: VO) -> None:
    pilot = make_pilot(vo=vo, queue=queue)
    request = OfferRequest(cpu_time_s=chance.choice([500, 5000]))
    offer, where = of_pilot(request, binding_of(pilot.pk), now=database_now(), lookups=UNCACHED)
    promised = {each.task_queue.pk for each in preview(offer, place=where.place).task_queues if each.chance > 0}
    stood_in = dict(QueuedJob.objects.values_list("job_id", "task_queue"))
    leases = match(request, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=chance)
    assert [stood_in[lease.job_id] in promised for lease in leases] == [True] * bool(promised)
