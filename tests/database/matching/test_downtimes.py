"""Before a downtime a place gives only jobs that end by its begin, and none while it lasts (ADR 108)."""

from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from matching.domain.sentences import worded
from matching.queries.explain.explanation import explain
from matching.queries.preview import preview
from matching.services.match import match
from matching.services.offers import OfferRequest, binding_of, of_pilot
from pilots.models import Pilot
from pilots.services.demand_snapshot import take_snapshot
from resources.models import ComputingElement, Queue, Site
from taskqueues.models import QueuedJob
from taskqueues.services.index.shared import index
from tests.cases import quick_cases
from tests.clock import pass_time
from tests.factories import make_ce, make_downtime, make_group, make_job, make_pilot, make_queue, make_site, make_vo
from wms.accounts.models import Group
from wms.jobs.models import Job
from wms.kernel.db import database_now
from wms.kernel.memo import UNCACHED

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

HOUR = timedelta(hours=1)
#: By CPU time alone, and with a wall-clock limit, which then counts instead.
LONG: Sequence[dict[str, Any]] = [{"cpu_time_s": 5000}, {"cpu_time_s": 500, "wall_time_s": 7200}]
SHORT: Sequence[dict[str, Any]] = [{"cpu_time_s": 500}, {"cpu_time_s": 5000, "wall_time_s": 1800}]


def requested_by(pilot: Pilot) -> int:
    offer = OfferRequest(cpu_time_s=300_000)
    return len(match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1)))


def requested(group: Group, queue: Queue | None) -> int:
    """Return the number of jobs that a new pilot gets."""
    return requested_by(make_pilot(vo=group.vo, queue=queue))


def levels_of(queue: Queue) -> list[Site | ComputingElement | Queue]:
    return [queue.ce.site, queue.ce, queue]


@pytest.mark.parametrize("level", [0, 1, 2], ids=["site", "ce", "queue"])
@pytest.mark.parametrize("is_known", [True, False], ids=["known queue", "unknown queue"])
@pytest.mark.parametrize("kind", [0, 1], ids=["CPU time", "wall-clock time"])
def test_only_jobs_that_end_by_its_begin_start_before_a_downtime(level: int, kind: int, is_known: bool) -> None:
    group, queue = make_group(), make_queue()
    make_queue(ce=queue.ce)
    place = queue if is_known else None
    make_downtime(levels_of(queue)[level], begins_at=database_now() + HOUR)
    make_job(group=group, **LONG[kind])
    assert requested(group, place) == 0
    for _ in range(2):
        make_job(group=group, **SHORT[kind])
    assert requested(group, place) == 1
    pass_time(hours=1)
    assert requested(group, place) == 0
    pass_time(hours=2)
    assert [requested(group, place) for _ in range(3)] == [1, 1, 0]


def test_a_downtime_of_another_place_changes_nothing() -> None:
    group, queue = make_group(), make_queue()
    other = make_queue(ce=make_ce(site=queue.ce.site))
    for level in (other.ce, make_queue(ce=queue.ce), make_site()):
        make_downtime(level, begins_at=database_now() - HOUR)
    make_job(group=group, **LONG[0])
    assert requested(group, queue) == 1


@pytest.mark.parametrize(("speed", "jobs"), [(2.0, 1), (0.5, 0), (None, 0), ("fast", 0), (1e9, 0)])
def test_the_cpu_time_until_a_downtime_is_that_of_the_pilots_own_node(speed: object, jobs: int) -> None:
    group, queue = make_group(), make_queue()
    pilot = make_pilot(vo=group.vo, queue=queue)
    Pilot.objects.filter(pk=pilot.pk).update(node={"speed": speed})
    make_downtime(queue, begins_at=database_now() + HOUR)
    make_job(group=group, cpu_time_s=5000)
    assert requested_by(pilot) == jobs


@pytest.mark.parametrize(
    ("begins_in", "reason"),
    [
        (-HOUR, "queue grid is in downtime until {ends:%Y-%m-%d %H:%M} UTC: new disks"),
        (HOUR, "it would not end before the downtime of queue grid from {begins:%Y-%m-%d %H:%M} UTC on: new disks"),
    ],
    ids=["running", "ahead"],
)
def test_an_explanation_names_the_downtime(begins_in: timedelta, reason: str) -> None:
    group, queue = make_group(), make_queue(name="grid")
    downtime = make_downtime(queue, begins_at=database_now() + begins_in, reason="new disks.")
    job = Job.objects.with_description().select_related("owner", "group__vo", "vo")
    row = job.get(pk=make_job(group=group, **LONG[0]).pk)
    task_queue = QueuedJob.objects.get(job_id=row.pk).task_queue_id
    text = worded(explain(row, task_queue_id=task_queue, now=database_now()))
    expected = reason.format(begins=downtime.begins_at, ends=downtime.ends_at)
    assert [each.reasons for each in text.queues] == [[expected]]
    assert text.summary == f"It waits because the only queue that it fits accepts no jobs at present: {expected}."


def test_directors_send_pilots_before_a_downtime_only_for_jobs_that_end_by_its_begin() -> None:
    group, queue = make_group(), make_queue()
    for kind in (LONG[0], SHORT[0]):
        make_job(group=group, **kind)
    downtime = make_downtime(queue.ce, begins_at=database_now() + HOUR)

    def served() -> list[int]:
        demand = take_snapshot([queue], index.renewed(), now=database_now())
        return sorted(demand.columns.cpu_time_s[demand.sends[0]].tolist())

    assert served() == [500]
    downtime.delete()
    assert served() == [500, 5000]
    make_downtime(queue.ce, begins_at=database_now() - HOUR)
    assert served() == []


def _random_downtimes(chance: Random, queues: Sequence[Queue]) -> None:
    for _ in range(chance.randrange(4)):
        level = chance.choice(levels_of(chance.choice(queues)))
        make_downtime(level, begins_at=database_now() + chance.choice([-3, -1, 0.1, 0.4, 1, 30]) * HOUR)


def _explained(job: Job, queue: Queue) -> bool:
    """Return whether the explanation says that the job fits the queue."""
    row = Job.objects.with_description().select_related("owner", "group__vo", "vo").get(pk=job.pk)
    task_queue = QueuedJob.objects.get(job_id=job.pk).task_queue_id
    found = explain(row, task_queue_id=task_queue, now=database_now())
    return next(not each.causes for each in found.queues if each.queue_id == queue.pk)


def _kinds(group: Group) -> list[Job]:
    return [make_job(group=group, **kind) for kind in (*LONG, *SHORT, {"cpu_time_s": 50_000, "wall_time_s": 300})]


@pytest.mark.parametrize("seed", quick_cases(range(30), quick=5))
def test_preview_explanation_directors_and_match_agree_on_downtimes(seed: int) -> None:
    chance, vo = Random(seed), make_vo()
    group, site = make_group(vo=vo), make_site()
    queues = [make_queue(ce=ce) for ce in (make_ce(site=site), make_ce(site=site), make_ce()) for _ in range(2)]
    jobs = _kinds(group)
    _random_downtimes(chance, queues)
    queue = chance.choice(queues)
    pilot = make_pilot(vo=vo, queue=queue)
    offer, where = of_pilot(
        OfferRequest(cpu_time_s=300_000), binding_of(pilot.pk), now=database_now(), lookups=UNCACHED
    )
    stands_in = dict(QueuedJob.objects.values_list("job_id", "task_queue"))
    promised = {each.task_queue.pk for each in preview(offer, place=where.place).task_queues}
    demand = take_snapshot([queue], index.renewed(), now=database_now())
    assert {*demand.columns.task_queue_id[demand.sends[0]].tolist()} == promised
    assert {stands_in[job.pk] for job in jobs if _explained(job, queue)} == promised
    assert sum(requested(group, queue) for _ in jobs) == sum(stands_in[job.pk] in promised for job in jobs)
    assert {*QueuedJob.objects.values_list("task_queue", flat=True)}.isdisjoint(promised)
