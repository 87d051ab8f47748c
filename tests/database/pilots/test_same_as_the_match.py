"""Directors send pilots exactly for the jobs that a match there would give, and no more than wait."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from itertools import count
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Director, Pilot
from resources.domain.enums import ResourceState
from resources.models import Queue, Site
from taskqueues.models import Limit, QueuedJob, TaskQueue
from tests.cases import quick_cases
from tests.database.pilots.conftest import Fleet, ScriptedBackend
from tests.factories import (
    make_ce,
    make_group,
    make_job,
    make_pilot,
    make_queue,
    make_site,
    make_task_queue,
    make_user,
    make_vo,
)
from wms.accounts.models import VO, Group, User
from wms.kernel.db import database_now

pytestmark = pytest.mark.django_db

_job_ids = count(1)


@pytest.fixture
def group() -> Group:
    return make_group(vo=make_vo(name="lhcb", setups=["Production", "Development"]))


@pytest.fixture
def queue() -> Queue:
    """Return a queue with a bit of every resource."""
    return make_queue(
        ce=make_ce(name="ce.cern.ch", site=make_site(name="LCG.CERN.ch")),
        cpu_time_s=50_000,
        wall_time_s=72_000,
        platforms=["x86_64-el9"],
        processors=4,
        memory_mb=4000,
        gpus=1,
        disk_mb=1000,
        container=True,
        job_types=["MCSimulation", "User"],
        tags=["Big"],
        required_tags=["Farm"],
        setup="Production",
    )


def would_match(queue: Queue, *, group: Group, owner: User | None = None) -> bool:
    """Return whether a pilot in a slot of the queue gets a job; with an owner it is a private one."""
    pilot = make_pilot(vo=group.vo, queue=queue, group=group if owner else None, owner=owner)
    offer = OfferRequest(
        cpu_time_s=queue.cpu_time_s,
        tags=tuple(queue.tags),
        required_tags=tuple(queue.required_tags),
        processors=queue.processors,
        memory_mb=queue.memory_mb,
        gpus=queue.gpus,
        disk_mb=queue.disk_mb,
        container=queue.container,
    )
    return bool(match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1)))


@pytest.mark.parametrize(
    ("refused", "accepted"),
    quick_cases(
        [
            ({"setup": "Development"}, {"setup": "Production"}),
            ({"cpu_time_s": 50_001}, {"cpu_time_s": 50_000}),
            ({"wall_time_s": 72_001}, {"wall_time_s": 72_000}),
            ({"pilot_types": ["private"]}, {"pilot_types": ["generic", "private"]}),
            ({"sites": ["LCG.RAL.uk"]}, {"sites": ["LCG.CERN.ch", "LCG.RAL.uk"]}),
            ({"banned_sites": ["LCG.CERN.ch"]}, {"banned_sites": ["LCG.RAL.uk"]}),
            ({"grid_ces": ["ce.ral.uk"]}, {"grid_ces": ["ce.cern.ch"]}),
            ({"platforms": ["aarch64-el9"]}, {"platforms": ["aarch64-el9", "x86_64-el9"]}),
            ({"submit_pools": ["0" * 64]}, {}),
            ({"tags": ["Farm", "Rare"]}, {"tags": ["Big", "Farm"]}),
            ({"tags": ["Big"]}, {"tags": ["Farm"]}),
            ({"job_type": "Merge"}, {"job_type": "MCSimulation"}),
            ({"processors": 5}, {"processors": 4}),
            ({"memory_mb": 4001}, {"memory_mb": 4000}),
            ({"gpus": 2}, {"gpus": 1}),
            ({"disk_mb": 1001}, {"disk_mb": 1000}),
            ({"priority": 10, "sites": ["LCG.RAL.uk"]}, {"priority": 0}),
        ],
        quick=8,
    ),
    ids=str,
)
def test_pilots_are_sent_where_a_match_would_give_a_job(
    fleet: Fleet, queue: Queue, group: Group, refused: Mapping[str, Any], accepted: Mapping[str, Any]
) -> None:
    Director.objects.create(name="generic", private_fraction=0.0)
    queue.ce.pilot_types = ["generic"]
    queue.ce.save()
    make_job(group=group, **{"cpu_time_s": 500, "tags": ["Farm"], **refused})
    assert fleet.cycle() == 0
    assert not would_match(queue, group=group)
    make_job(group=group, **{"cpu_time_s": 500, "tags": ["Farm"], **accepted})
    assert fleet.cycle(after=timedelta(minutes=1)) == 1
    assert would_match(queue, group=group)


def test_published_software_is_respected_by_directors(fleet: Fleet, queue: Queue, group: Group) -> None:
    make_queue(tags=["root6"], state=ResourceState.BANNED)
    make_job(group=group, tags=["Farm"], cpu_time_s=500, software=["root6", "/opt/tool"])
    assert fleet.cycle() == 0
    assert not would_match(queue, group=group)
    Queue.objects.filter(pk=queue.pk).update(parameters={"SoftwareTag": "root6"})
    assert fleet.cycle(after=timedelta(minutes=1)) == 1
    assert would_match(queue, group=group)


@pytest.mark.parametrize("state", [ResourceState.ACTIVE, ResourceState.DRAINING, ResourceState.BANNED])
@pytest.mark.parametrize("limit", [None, 1, 0])
@pytest.mark.parametrize("most", [None, 1, 0])
def test_closed_places_get_no_pilots(
    fleet: Fleet, queue: Queue, group: Group, state: ResourceState, limit: int | None, most: int | None
) -> None:
    make_job(group=group, tags=["Farm"], cpu_time_s=500)
    if limit is not None:
        Limit.objects.create(running=limit, site=queue.ce.site, job_type="User")
    if most is not None:
        Site.objects.update(throttle_policy="matches", max_matches=most)
    Queue.objects.update(state=state)
    queue.refresh_from_db()
    is_open = state == ResourceState.ACTIVE and limit != 0 and most != 0
    assert fleet.cycle() == int(is_open)
    assert would_match(queue, group=group) is is_open


def test_held_back_jobs_get_pilots_only_where_they_may_run(fleet: Fleet, queue: Queue, group: Group) -> None:
    delayed, avoiding = (make_job(group=group, tags=["Farm"], cpu_time_s=500) for _ in range(2))
    moment = database_now()
    later = {"is_held_back": True, "not_before": moment + timedelta(hours=1)}
    QueuedJob.objects.filter(pk=delayed.pk).update(**later)
    avoided = {"is_held_back": True, "not_before": moment, "avoided_until": moment + timedelta(hours=1)}
    QueuedJob.objects.filter(pk=avoiding.pk).update(**avoided, avoided_queue_ids=[queue.pk])
    assert fleet.cycle() == 0
    assert not would_match(queue, group=group)
    QueuedJob.objects.filter(pk=avoiding.pk).update(avoided_host="node1")
    assert fleet.cycle(after=timedelta(minutes=1)) == 1
    assert would_match(queue, group=group)


def test_a_job_that_avoids_a_queue_is_demand_at_others(fleet: Fleet, queue: Queue, group: Group) -> None:
    other = make_queue(ce=queue.ce, cpu_time_s=50_000)
    job, moment = make_job(group=group, cpu_time_s=500), database_now()
    Queue.objects.update(tags=[], required_tags=[])
    avoided = {"is_held_back": True, "not_before": moment, "avoided_until": moment + timedelta(hours=1)}
    QueuedJob.objects.filter(pk=job.pk).update(**avoided, avoided_queue_ids=[queue.pk])
    assert fleet.cycle() == 1
    assert list(Pilot.objects.values_list("queue", flat=True)) == [other.pk]


def test_private_pilots_are_sent_where_they_would_match(fleet: Fleet, queue: Queue, group: Group) -> None:
    alice, bob = make_user(groups=[group]), make_user(groups=[group])
    queue.ce.pilot_types = ["private"]
    queue.ce.save()
    make_job(group=group, owner=alice, tags=["Farm"], cpu_time_s=500)
    assert fleet.cycle() == 1
    assert list(Pilot.objects.values_list("group", "owner")) == [(group.pk, alice.pk)]
    assert not would_match(queue, group=group, owner=bob)
    assert would_match(queue, group=group, owner=alice)


# ---- random queues and jobs ------------------------------------------------------------------------------------------

_TAGS = st.lists(st.sampled_from(["a", "b"]), unique=True)
_QUEUES = st.fixed_dictionaries(
    {
        "tags": _TAGS,
        "processors": st.integers(1, 4),
        "max_waiting_pilots": st.integers(0, 6),
        "max_pilots": st.integers(0, 8),
    }
)
_CES = st.lists(st.tuples(st.integers(0, 9), st.lists(_QUEUES, max_size=3)), max_size=3)
_TASK_QUEUES = st.lists(st.tuples(st.integers(0, 7), _TAGS, st.integers(1, 4), st.integers(0, 1)), max_size=4)
_DIRECTORS = st.lists(
    st.tuples(st.integers(1, 100), st.floats(0, 1), st.sampled_from(["site", "taskqueue"])), max_size=2
)


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(ces=_CES, task_queues=_TASK_QUEUES, directors=_DIRECTORS, cycles=st.integers(1, 3), chance=st.integers(0, 9))
def test_all_directors_together_send_no_more_pilots_than_waiting_jobs(
    fleet: Fleet,
    backend: ScriptedBackend,
    ces: list[tuple[int, list[dict[str, Any]]]],
    task_queues: list[tuple[int, list[str], int, int]],
    directors: list[tuple[int, float, str]],
    cycles: int,
    chance: int,
) -> None:
    for rows in (Pilot.objects, Director.objects, QueuedJob.objects, TaskQueue.objects, Site.objects):
        rows.all().delete()  # of the previous example
    backend.free = min([free for free, _ in ces], default=0)
    queues = [make_queue(ce=ce, **columns) for ce, of_ce in [(make_ce(), own) for _, own in ces] for columns in of_ce]
    vos = [VO.objects.filter(name=name).first() or make_vo(name=name) for name in ("one", "other")]
    waiting: Counter[tuple[int, frozenset[str], int]] = Counter()
    for jobs, tags, processors, vo in task_queues:
        make_task_queue(
            group=make_group(vo=vos[vo]),
            tags=tags,
            processors=processors,
            job_ids=[next(_job_ids) for _ in range(jobs)],
        )
        waiting[vos[vo].pk, frozenset(tags), processors] += jobs
    for number, (pilots_per_cycle, fraction, kind) in enumerate(directors):
        Director.objects.create(
            name=f"d{number}", pilots_per_cycle=pilots_per_cycle, private_fraction=fraction, kind=kind
        )

    for minute in range(cycles):
        fleet.cycle(after=timedelta(minutes=minute), chance=chance)

    sent = list(Pilot.objects.select_related("queue"))
    of_vo = Counter(pilot.vo_id for pilot in sent)
    for one in vos:
        assert of_vo[one.pk] <= sum(jobs for (vo_id, *_), jobs in waiting.items() if vo_id == one.pk)
    for queue in queues:
        here = [pilot for pilot in sent if pilot.queue == queue]
        assert len(here) <= min(queue.max_waiting_pilots, queue.max_pilots, cycles * backend.free)
        # What could run here, and no more than that.
        served = [
            jobs
            for (_, tags, processors), jobs in waiting.items()
            if tags <= set(queue.tags) and processors <= queue.processors
        ]
        assert len(here) <= sum(served)
