"""Lists of jobs: every part of every filtered list is what the filters alone give, and is read by an index."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from itertools import combinations
from random import Random

import pytest
from django.db.models import Count

from taskqueues.models import TaskQueue
from tests import factories
from tests.factories import NOW
from wms.accounts.models import User
from wms.jobs import queries
from wms.jobs.domain.lifecycle import FINAL, JobStatus
from wms.jobs.filters import JobFilterSet
from wms.jobs.models import Job
from wms.jobs.queries.found_jobs import Extent, newest_of
from wms.jobs.sql.counts import add_count_changes

pytestmark = pytest.mark.django_db

#: Values of each filter; some match nothing.
VALUES: Mapping[str, tuple[str, ...]] = {
    "status": ("Waiting", "Failed,Running", "Deleted", "Stalled"),
    "site": ("CERN", "nowhere"),
    "owner": ("alice", "nobody"),
    "group": ("shared",),
    "vo": ("lhcb", "other"),
    "job_name": ("sim-1", "sim-*", "*1*", "no*thing", "100%", "*%"),
    "job_type": ("User",),
    "exit_code": ("0", "1", "137"),
    "submitted_after": ((NOW + timedelta(minutes=90)).isoformat(),),
    "submitted_before": ((NOW + timedelta(minutes=90)).isoformat(),),
}
EXTENTS = (
    lambda _: Extent(at_most=7),
    lambda _: Extent(at_most=1000, newest_first=False),
    lambda middle: Extent(at_most=5, before=middle),
    lambda middle: Extent(at_most=5, after=middle, newest_first=False),
)


@pytest.fixture(scope="module")
def actors(rows_of_module: None) -> list[User]:
    """Return users who see all, own and shared, a VO's, and no jobs; 240 jobs exist."""
    chance = Random(1)
    lhcb, other = factories.make_vo(name="lhcb"), factories.make_vo(name="other")
    groups = [
        factories.make_group(name="shared", vo=lhcb, shares_jobs=True),
        factories.make_group(name="closed", vo=lhcb),
        factories.make_group(name="else", vo=other),
    ]
    owners = [factories.make_user(username=name, groups=groups) for name in ("alice", "bob", "charlie")]
    sites = [factories.make_site(name=name) for name in ("CERN", "RAL")]
    for number in range(240):
        status = chance.choice([status for status in JobStatus if status is not JobStatus.STALLED])
        waits = status in {JobStatus.WAITING, JobStatus.HELD, JobStatus.RECEIVED, JobStatus.CHECKING}
        job = factories.make_job(
            owner=chance.choice(owners),
            group=chance.choice(groups),
            status=status,
            site=None if waits else chance.choice(sites),
            job_name=chance.choice(["", "sim-1", "sim-20", "100%", "a\\b"]),
            submitted_at=NOW + timedelta(minutes=number),
        )
        if status in FINAL:
            Job.objects.filter(pk=job.pk).update(exit_code=chance.choice([None, 0, 0, 1, 137]))
        if number == 120:
            add_count_changes()
    manager = factories.make_user()
    lhcb.managers.add(manager)
    return [factories.make_user(operator=True), owners[0], manager, factories.make_user()]


#: No filter, and each value alone.
ALONE: list[dict[str, str]] = [{}, *({name: value} for name, values in VALUES.items() for value in values)]
#: Each pair of values, and the first value of each pair of filters.
PAIRS = [{**one, **two} for one, two in combinations(ALONE[1:], 2) if one.keys() != two.keys()]
FIRST_PAIRS = [dict(pair) for pair in combinations([(name, values[0]) for name, values in VALUES.items()], 2)]


@pytest.mark.parametrize(
    ("chosen", "found_at_least"),
    [
        pytest.param(ALONE + FIRST_PAIRS, 20, id="first values"),
        pytest.param(ALONE + PAIRS, 60, id="all values", marks=pytest.mark.slow),
    ],
)
def test_every_part_of_every_list_is_what_the_filters_give(
    actors: list[User], chosen: list[dict[str, str]], found_at_least: int
) -> None:
    middle = Job.objects.order_by("pk")[100].pk
    found_some = 0
    for number, values in enumerate(chosen):
        actor = actors[number % len(actors)]
        filters = JobFilterSet(values)
        assert filters.is_valid(), values
        extent = EXTENTS[number % len(EXTENTS)](middle)
        ordered = JobFilterSet(values, Job.objects.visible_to(actor)).qs.order_by(
            "-pk" if extent.newest_first else "pk"
        )
        expected = list(extent.within(ordered).values_list("pk", flat=True)[: extent.at_most])
        assert [job.pk for job in queries.listed(filters, extent, by=actor)] == expected, (values, actor, extent)
        found_some += bool(expected)
    assert found_some > found_at_least
    assert len(ALONE + PAIRS) > 200


@pytest.mark.slow
def test_every_summary_has_the_numbers_of_the_jobs_that_the_filters_give(actors: list[User]) -> None:
    grouped = (("status",), ("site", "owner"), ("group",), ("job_type", "status"))
    counted_some = 0
    for number, values in enumerate(ALONE + PAIRS):
        actor, group_by = actors[number % len(actors)], grouped[number // len(actors) % len(grouped)]
        filters = JobFilterSet(values)
        assert filters.is_valid(), values
        jobs = JobFilterSet(values, Job.objects.visible_to(actor)).qs.values_list(*map(queries.GROUP_BY.get, group_by))
        tallies = {
            tuple(tally.values.values()): tally.count for tally in queries.summary(filters, by=actor, group_by=group_by)
        }
        assert tallies == Counter(jobs), (values, actor, group_by)
        counted_some += len(tallies) > 1
    assert counted_some > 60


def test_the_jobs_of_one_submission_are_found(actors: list[User]) -> None:
    job = Job.objects.exclude(status=JobStatus.DELETED).filter(owner=actors[1])[0]
    filters = JobFilterSet({"job_group_id": str(job.submission_id)})
    for actor, sees in zip(actors, (True, True, job.vo.name == "lhcb", False), strict=True):
        assert [found.pk for found in queries.listed(filters, Extent(at_most=3), by=actor)] == [job.pk] * sees


def test_the_jobs_of_one_task_queue_are_found(actors: list[User]) -> None:
    owned = TaskQueue.objects.filter(owner=actors[1], vo__name="lhcb").annotate(jobs=Count("queued_jobs"))
    task_queue = owned.order_by("-jobs", "pk")[0]
    its_jobs = sorted(task_queue.queued_jobs.values_list("pk", flat=True), reverse=True)
    assert 0 < len(its_jobs) < Job.objects.filter(owner=actors[1], status=JobStatus.WAITING).count()
    filters = JobFilterSet({"task_queue": str(task_queue.pk)})
    for actor, sees in zip(actors, (True, True, True, False), strict=True):
        assert [found.pk for found in queries.listed(filters, Extent(at_most=100), by=actor)] == its_jobs * sees
        tallies = [*queries.summary(filters, by=actor, group_by=("status",))]
        assert [tally.count for tally in tallies] == [len(its_jobs)] * sees
    of_another = JobFilterSet({"task_queue": str(task_queue.pk), "owner": "bob"})
    assert queries.listed(of_another, Extent(at_most=100), by=actors[0]) == []


def test_the_newest_job_of_an_owner_counts_deleted_ones_too(actors: list[User]) -> None:
    newest = Job.objects.filter(owner=actors[1]).latest("pk")
    Job.objects.filter(pk=newest.pk).update(status=JobStatus.DELETED, ended_at=NOW)
    assert list(newest_of(actors[1])) == [newest]
    assert queries.group_of_last_job(actors[1]) == newest.group_id
    assert queries.group_of_last_job(actors[3]) is None
