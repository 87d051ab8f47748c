"""An offer that names less never fits more task queues than that of a pilot at any queue where it may be (ADR 27)."""

from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from matching.services.offers import ANY, OfferRequest, PilotBinding, of_pilot
from resources.domain.enums import ResourceState
from resources.models import Queue, Site
from taskqueues.models import Limit, SubmitPool
from taskqueues.services.index.shared import index
from taskqueues.services.index.snapshot import Snapshot
from tests.cases import examples, quick_cases
from tests.factories import NOW, make_ce, make_group, make_platform, make_queue, make_site, make_task_queue, make_user
from wms.accounts.models import VO
from wms.kernel.db import database_now
from wms.kernel.memo import CachedLookups

pytestmark = pytest.mark.django_db

SITES, CES, QUEUES = ("S.A", "S.B", "S.C"), ("ce1", "ce2"), ("grid", "long")
PLATFORMS = ("el7", "el8", "el9")
POOLS = ("P1", "P2", "P3")
TYPES = ("User", "Merge", "MCSimulation")


def some(chance: Random, names: tuple[str, ...]) -> list[str]:
    return sorted(chance.sample(names, chance.choice([0, 0, 1, 2, len(names)])))


def make_vo_with_sites(seed: int) -> VO:
    """Make three sites with up to four queues each, some of them closed, throttled or limited, and 60 task queues."""
    chance = Random(seed)
    group = make_group(shares_jobs=True)
    owner = make_user(groups=[group])
    for pool in POOLS:
        SubmitPool.objects.create(pk=pool, vo=group.vo, requirements={}, refreshed_at=NOW, last_used_at=NOW)
    for site_name in SITES[: chance.choice([1, 2, 3])]:
        site = make_site(name=site_name, state=ResourceState.BANNED if chance.random() < 0.05 else ResourceState.ACTIVE)
        if chance.random() < 0.1:
            Site.objects.filter(pk=site.pk).update(throttle_policy="matches", max_matches=5)
        for ce_name in CES[: chance.choice([0, 1, 2, 2])]:
            ce = make_ce(name=ce_name, site=site)
            for queue_name in QUEUES[: chance.choice([0, 1, 2, 2])]:
                queue = make_queue(
                    name=queue_name,
                    ce=ce,
                    platforms=some(chance, PLATFORMS),
                    job_types=some(chance, TYPES),
                    required_tags=chance.choice([[], [], ["gpu"]]),
                    wall_time_s=chance.choice([None, 3600, 7200]),
                )
                queue.submit_pools.set(SubmitPool.objects.filter(pk__in=some(chance, POOLS)))
    for _ in range(chance.choice([0, 0, 1])):
        site = chance.choice(list(Site.objects.order_by("pk")))
        Limit.objects.create(site=site, running=5, job_type=chance.choice(["", *TYPES]))
    for _ in range(60):
        sites = some(chance, SITES)
        make_task_queue(
            owner=owner,
            group=group,
            sites=sites,
            banned_sites=[] if sites else some(chance, SITES),
            grid_ces=some(chance, CES),
            platforms=some(chance, PLATFORMS),
            submit_pools=some(chance, POOLS),
            job_type=chance.choice(TYPES),
            tags=chance.choice([[], ["gpu"]]),
            wall_time_s=chance.choice([0, 3600, 7200]),
            memory_mb=len(sites) * 500,
            processors=chance.choice([1, 2]),
            cpu_time_s=chance.choice([500, 5000]),
            disk_mb=chance.randrange(10**6),
        )
    return group.vo


def names(*known: str) -> st.SearchStrategy[Any]:
    return st.sampled_from([None, None, ANY, *known])


class Fits:
    """The task queues of one snapshot that fit an offer."""

    def __init__(self, vo: VO, snapshot: Snapshot) -> None:
        self._vo, self._snapshot = vo, snapshot
        self._known, self._now = CachedLookups({}), database_now()

    def __call__(self, request: OfferRequest, *, queue: Queue | None = None) -> frozenset[int]:
        binding = PilotBinding(
            vo_id=self._vo.pk, group_id=None, owner_id=None, queue_id=None if queue is None else queue.pk
        )
        offer, _ = of_pilot(request, binding, now=self._now, lookups=self._known)
        fits = self._snapshot.masks.accepting(offer)
        return frozenset(self._snapshot.columns.task_queue_id[fits].tolist())


@given(data=st.data())
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def check(fits: Fits, data: st.DataObject) -> None:
    told: dict[str, Any] = {
        "cpu_time_s": 5000,
        "memory_mb": 4000,
        "processors": 2,
        "disk_mb": 10**6,
        "tags": data.draw(st.sampled_from([(), ("gpu",)])),
        "platforms": data.draw(st.none() | st.lists(st.sampled_from(PLATFORMS), max_size=2).map(tuple)),
        "submit_pools": data.draw(st.none() | st.lists(st.sampled_from(POOLS), max_size=3).map(tuple)),
        "job_types": data.draw(st.none() | st.just(("User",))),
        "wall_time_s": data.draw(st.sampled_from([None, 3600])),
        "container": data.draw(st.booleans()),
    }
    sites = list(Site.objects.order_by("name").values_list("name", flat=True))
    ces = list(Queue.objects.order_by("ce__name").values_list("ce__name", flat=True).distinct())
    queues = list(Queue.objects.order_by("name").values_list("name", flat=True).distinct())
    named = {
        "site": data.draw(names(*sites)),
        "ce": data.draw(names(*ces)),
        "queue": data.draw(names(*queues)),
    }
    filters = {"site": "ce__site__name", "ce": "ce__name", "queue": "name"}
    wanted = {filters[level]: name for level, name in named.items() if name not in {None, ANY}}
    possible = list(Queue.objects.filter(**wanted).select_related("ce__site").order_by("pk"))
    if wanted and not possible:
        return
    given_here = fits(OfferRequest(**told, **named))
    for queue in possible:
        assert given_here <= fits(OfferRequest(**told), queue=queue)
        path = {"site": queue.ce.site.name, "ce": queue.ce.name, "queue": queue.name}
        for levels in product((True, False), repeat=3):
            more: dict[str, Any] = {
                level: path[level] if named_too else named[level] for level, named_too in zip(path, levels, strict=True)
            }
            assert given_here <= fits(OfferRequest(**told, **more))


@pytest.mark.parametrize("seed", quick_cases(range(12), quick=2))
def test_an_offer_that_names_less_never_fits_more(seed: int) -> None:
    make_platform(name="el9", runs=["el8", "el7"])
    vo = make_vo_with_sites(seed)
    check(Fits(vo, index.renewed()))
