"""Many matchers at one throttled site, on real connections: it accepts exactly the matches of its throttle (SAM)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from matching.models import Match
from matching.services.throttles import advertise
from resources.domain.advertised_load import CUR_MATCHES, CURRENT, GATHERING, SUBMITTING
from resources.domain.advertisements import Advertisement
from resources.models import Queue, Site, ThrottleState
from tests.cases import quick_cases
from tests.concurrency.matching.test_match_races import drain
from tests.factories import LARGE_SLOT, make_ce, make_group, make_job, make_pilot, make_queue, make_site, make_user
from tests.threads import at_once
from wms.accounts.models import Group
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db(transaction=True)

MATCHERS = 8
IDLE = Advertisement(numbers={CUR_MATCHES: 0, SUBMITTING: 0, GATHERING: 0, CURRENT: 0})


@pytest.fixture
def group() -> Group:
    return make_group(shares_jobs=True)


@pytest.fixture
def queue() -> Queue:
    return make_queue(ce=make_ce(site=make_site()), **LARGE_SLOT)


@pytest.fixture(autouse=True)
def jobs(group: Group) -> None:
    owner = make_user(groups=[group])
    for number in range(80):
        make_job(group=group, owner=owner, cpu_time_s=500 if number % 2 else 5000)


def drained_by_all(group: Group, queue: Queue) -> int:
    pilots = [make_pilot(vo=group.vo, queue=queue) for _ in range(MATCHERS)]
    return sum(map(len, at_once([partial(drain, pilot, seed=seed) for seed, pilot in enumerate(pilots)])))


THROTTLES: dict[str, dict[str, Any]] = {
    "matches": {"throttle_policy": "matches", "max_matches": 20},
    "level0": {"throttle_policy": "level0", "max_submitting_jobs": 20},
    "level1": {"throttle_policy": "level1", "max_submitting_and_output_gathering_jobs": 20},
    "level2": {"throttle_policy": "level2", "max_submitting_and_output_gathering_jobs": 30, "max_jobs": 20},
    "custom": {"throttle_policy": "custom", "throttle_requirements": "CurMatches < 20"},
    "custom by job": {
        "throttle_policy": "custom",
        "throttle_requirements": "TARGET.CPUTime > 500 && CurMatches < 20",
    },
}


@pytest.mark.parametrize("throttle", quick_cases(THROTTLES, quick=2))
@pytest.mark.parametrize("advertises", [True, False])
def test_eight_matchers_at_a_site_with_room_for_twenty(
    group: Group, queue: Queue, throttle: str, *, advertises: bool
) -> None:
    Site.objects.filter(pk=queue.ce.site_id).update(**THROTTLES[throttle])
    if advertises:
        advertise(queue.ce.site_id, IDLE)
    assert drained_by_all(group, queue) == Match.objects.count() == 20
    assert ThrottleState.objects.get().advertised_at is None or ThrottleState.objects.get().matched == 20
    if throttle == "custom by job":
        assert {job.description["cpu_time_s"] for job in Job.objects.filter(status=JobStatus.MATCHED)} == {5000}


def test_advertisements_during_matches_lose_no_match(group: Group, queue: Queue) -> None:
    Site.objects.filter(pk=queue.ce.site_id).update(throttle_policy="level0", max_submitting_jobs=20)
    advertise(queue.ce.site_id, IDLE)
    pilots = [make_pilot(vo=group.vo, queue=queue) for _ in range(MATCHERS - 1)]

    def advertise_old_news() -> list[int]:
        while Match.objects.count() < 5:
            pass
        for _ in range(10):
            # Measured before the first match: all of them came after it.
            advertise(queue.ce.site_id, Advertisement(numbers=IDLE.numbers, measured_s_ago=60.0))
        return []

    works: list[Callable[[], list[int]]] = [partial(drain, pilot, seed=seed) for seed, pilot in enumerate(pilots)]
    assert sum(map(len, at_once([*works, advertise_old_news]))) == Match.objects.count() == 20


def test_pilots_at_other_sites_get_jobs(group: Group, queue: Queue) -> None:
    Site.objects.filter(pk=queue.ce.site_id).update(throttle_policy="matches", max_matches=3)
    elsewhere = make_pilot(vo=group.vo, queue=make_queue(**LARGE_SLOT))
    throttled = [make_pilot(vo=group.vo, queue=queue) for _ in range(3)]
    works = [partial(drain, pilot, seed=seed) for seed, pilot in enumerate([elsewhere, *throttled])]
    assert sum(map(len, at_once(works))) == 80
    assert Match.objects.filter(queue=queue).count() == 3
