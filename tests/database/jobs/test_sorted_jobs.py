"""Short lists of jobs in the order of a column: values, jobs without a value last, and among equal ones the ids."""

from datetime import timedelta
from itertools import pairwise, product
from random import Random
from typing import Any

import pytest

from tests import factories
from tests.cases import examples
from tests.factories import NOW
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.filters import JobFilterSet
from wms.jobs.models import Job
from wms.jobs.queries import sorted_jobs
from wms.jobs.queries.sorted_jobs import SORTED_BY, Order, Position, sorted_part

pytestmark = pytest.mark.django_db

STATUSES = (JobStatus.WAITING, JobStatus.RUNNING, JobStatus.DONE)


@pytest.fixture(scope="module")
def alice(rows_of_module: None) -> User:
    """Return the owner of 40 jobs of few values; 5 are of a stranger."""
    chance, vo = Random(1), factories.make_vo()
    groups = [factories.make_group(vo=vo, name=name) for name in ("one", "two")]
    alice = factories.make_user(groups=groups)
    queues = [factories.make_queue() for _ in range(2)]
    for number in range(45):
        status, queue = chance.choice(STATUSES), chance.choice(queues)
        job = factories.make_job(
            owner=alice if number % 9 else factories.make_user(groups=groups),
            group=chance.choice(groups),
            status=status,
            site=None if status == JobStatus.WAITING else queue.ce.site,
            queue=None if status == JobStatus.WAITING else queue,
            job_name=chance.choice(["", "a", "b"]),
            job_group=chance.choice(["", "x"]),
        )
        Job.objects.filter(pk=job.pk).update(
            cpu_s=chance.choice([None, 0.1, 1 / 3]),
            exit_code=chance.choice([None, -1, 2]) if status == JobStatus.DONE else None,
            started_at=chance.choice([None, NOW, NOW + timedelta(microseconds=1)]),
            status_changed_at=chance.choice([NOW, NOW + timedelta(microseconds=1)]),
        )
    return alice


def ids(alice: User, order: Order, **part: Any) -> list[int]:
    return [job.pk for job in sorted_part(JobFilterSet({}), order, by=alice, **{"at_most": 100, **part}).jobs]


ORDERS = [Order(by=name, is_descending=is_descending) for name in sorted(SORTED_BY) for is_descending in (False, True)]


def test_a_list_is_in_the_order_of_a_column(alice: User, subtests: pytest.Subtests) -> None:
    for order in ORDERS:
        with subtests.test(f"{order}"):
            jobs = sorted_part(JobFilterSet({}), order, by=alice, at_most=100).jobs
            assert {job.pk for job in jobs} == set(Job.objects.filter(owner=alice).values_list("pk", flat=True))
            for earlier, later in pairwise(Position.of(job, order) for job in jobs):
                if earlier.value == later.value:
                    assert (earlier.job_id > later.job_id) == order.is_descending
                else:
                    assert earlier.value is not None
                    assert later.value is None or (earlier.value > later.value) == order.is_descending


@pytest.mark.slow
def test_parts_are_read_from_any_place_in_both_directions(alice: User, subtests: pytest.Subtests) -> None:
    for order in ORDERS:
        with subtests.test(f"{order}"):
            whole = ids(alice, order)
            jobs = Job.objects.in_bulk(whole)
            for number, pk in [*enumerate(whole)][:: len(whole) // examples(8)]:
                # As an address has it.
                place = Position.parse(str(Position.of(jobs[pk], order)), order)
                assert ids(alice, order, after=place, at_most=3) == whole[number + 1 : number + 4]
                assert ids(alice, order, before=place, at_most=3) == whole[max(0, number - 3) : number]


def test_a_part_says_whether_there_are_more(alice: User) -> None:
    order = Order(by="changed", is_descending=True)
    whole = sorted_part(JobFilterSet({}), order, by=alice, at_most=100).jobs
    second, last = Position.of(whole[1], order), Position.of(whole[-1], order)

    def more(**part: Any) -> tuple[bool, bool]:
        found = sorted_part(JobFilterSet({}), order, by=alice, **part)
        return found.has_previous, found.has_next

    assert more(at_most=len(whole)) == (False, False)
    assert more(at_most=len(whole) - 1) == (False, True)
    assert more(at_most=2, after=second) == (True, True)
    assert more(at_most=2, after=last) == (True, False)
    assert more(at_most=2, before=last) == (True, True)
    assert more(at_most=1, before=second) == (False, True)


def test_of_a_long_list_only_the_newest_jobs_are_read(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_jobs, "MOST_SORTED", 5)
    newest = Job.objects.filter(owner=alice).order_by("-pk").values_list("pk", flat=True)[:5]
    assert set(ids(alice, Order(by="name", is_descending=False))) == set(newest)


def test_jobs_of_others_are_not_listed(alice: User) -> None:
    assert ids(factories.make_user(), Order(by="name", is_descending=False)) == []


def test_a_position_beyond_the_column_range_is_no_error(alice: User, subtests: pytest.Subtests) -> None:
    names = ("cpu-time", "exit-code", "reschedules", "priority")
    for name, value in product(names, ("1e400", "9" * 30, "nan", "-inf")):
        with subtests.test(name, value=value):
            order = Order(by=name, is_descending=False)
            place = Position.parse(f"1:{value}", order)
            whole = ids(alice, order)
            assert len(ids(alice, order, after=place)) <= len(whole)
            assert len(ids(alice, order, before=place)) <= len(whole)
