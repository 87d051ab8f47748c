"""Levels whose jobs are held back: claimed once by each process and place, offered to all others, and read by keys."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from matching.models import Match
from matching.queries.invariants import violations
from matching.services import avoided_places, claim, leases
from matching.services.claim import Claimant, Claimed
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from taskqueues.models import QueuedJob
from taskqueues.services import priorities, queueing
from taskqueues.services.index.shared import index
from tests.clock import pass_time, reset_clock
from tests.database.matching.test_given_back import pilot_at
from tests.factories import LARGE_SLOT, make_group, make_job, make_pilot, make_queue, make_user
from tests.threads import at_once
from wms.accounts.models import Group
from wms.jobs.models import Job
from wms.jobs.services import enqueueing
from wms.kernel.db import database_now
from wms.wire.protocol import Usage

pytestmark = pytest.mark.django_db(transaction=True)

DELAY_S = 60
ELSEWHERE_S = 600


@pytest.fixture(autouse=True)
def clock(settings: Settings) -> Iterator[None]:
    settings.WMS_RESCHEDULE_DELAY_S = DELAY_S
    settings.WMS_RESCHEDULE_ELSEWHERE_S = ELSEWHERE_S
    yield
    reset_clock()


@pytest.fixture
def group() -> Group:
    return make_group(shares_jobs=True)


def ask(pilot: Pilot, *, most: int = 1) -> list[int]:
    offer = OfferRequest(cpu_time_s=300_000, processors=most)
    leased = match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=most, chance=Random(1))
    return [lease.job_id for lease in leased]


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list to which each claimed task queue is added; the claims are real."""
    seen: list[int] = []

    def counted(claimant: Claimant, **arguments: Any) -> Claimed:
        seen.append(arguments["task_queue_id"])
        return claim.claim(claimant, **arguments)

    monkeypatch.setattr("matching.services.search.claim", counted)
    return seen


def later(*, seconds: int) -> None:
    """Advance the clock; the index starts anew, because its own connection's clock does not advance."""
    pass_time(seconds=seconds)
    index.forget()


def give_back(job: Job) -> None:
    lease = Match.objects.get(job=job, ended_at=None)
    leases.finish(lease.pk, exit_code=222, minor="No room", usage=Usage(), output_sandbox=None)


def test_a_level_that_is_held_back_is_claimed_once_and_not_at_each_match(group: Group, claims: list[int]) -> None:
    queue = make_queue()
    bad, same_place, good = pilot_at(queue, group), pilot_at(queue, group), pilot_at(make_queue(), group)
    job = make_job(group=group)
    assert ask(bad) == [job.pk]
    give_back(job)
    claims.clear()
    # The delay holds for all pilots.
    assert [ask(pilot) for pilot in (bad, bad, same_place, good)] == [[]] * 4
    assert len(claims) == 1
    later(seconds=DELAY_S)
    claims.clear()
    # That a place is avoided holds for all pilots at it, and for no others.
    assert [ask(pilot) for pilot in (bad, bad, same_place)] == [[]] * 3
    assert len(claims) == 1
    assert ask(good) == [job.pk]
    assert len(claims) == 2


def test_a_new_job_in_a_held_back_level_is_found(group: Group) -> None:
    owner = make_user(groups=[group])
    pilot = pilot_at(make_queue(**LARGE_SLOT), group)
    first = make_job(group=group, owner=owner)
    ask(pilot)
    give_back(first)
    assert ask(pilot) == []
    second = make_job(group=group, owner=owner)
    assert ask(pilot) == [second.pk]
    # The last that may be had is taken: the level is not empty all the same.
    later(seconds=DELAY_S)
    assert ask(pilot) == [first.pk]


def test_a_held_back_level_is_drawn_again_when_its_jobs_avoid_the_place_no_more(group: Group) -> None:
    bad, other = pilot_at(make_queue(), group), make_queue()
    job = make_job(group=group)
    ask(bad)
    give_back(job)
    later(seconds=DELAY_S)
    assert ask(bad) == []
    assert avoided_places.review(now=database_now()) == 0
    other.delete()
    index.renewed()
    assert ask(bad) == []
    assert avoided_places.review(now=database_now()) == 1
    assert ask(bad) == [job.pk]
    assert list(violations()) == []


def test_an_evaluation_of_priorities_hides_no_level(group: Group) -> None:
    bad, good = pilot_at(make_queue(), group), pilot_at(make_queue(), group)
    job = make_job(group=group)
    ask(bad)
    give_back(job)
    later(seconds=DELAY_S)
    assert ask(bad) == []
    priorities.recalculate()
    assert ask(bad) == []
    assert list(violations()) == []
    assert ask(good) == [job.pk]


def test_a_job_keeps_its_delay_and_the_places_when_it_moves_to_another_queue(group: Group) -> None:
    pilot = pilot_at(make_queue(), group)
    make_queue()
    job = make_job(group=group)
    ask(pilot)
    give_back(job)
    (before,) = queueing.held_back([job.pk]).values()
    with transaction.atomic():
        kept = queueing.held_back([job.pk])
        queueing.withdraw([job.pk])
        enqueueing.put_back_in_queues([Job.objects.get(pk=job.pk)], now=database_now(), held_back=kept)
    assert queueing.held_back([job.pk]) == {job.pk: before}


def test_concurrent_pilots_share_no_job_that_was_held_back(group: Group) -> None:
    owner, queue = make_user(groups=[group]), make_queue(**LARGE_SLOT)
    jobs = [make_job(group=group, owner=owner) for _ in range(8)]
    first = pilot_at(queue, group)
    assert len(ask(first, most=8)) == 8
    for job in jobs:
        give_back(job)
    QueuedJob.objects.update(not_before=database_now() - timedelta(seconds=1))
    pilots = [make_pilot(vo=group.vo, queue=queue) for _ in range(8)]

    leased = [job_id for found in at_once([partial(ask, pilot) for pilot in pilots]) for job_id in found]
    assert sorted(leased) == [job.pk for job in jobs]


def test_thousands_that_are_held_back_are_not_read_on_the_way_to_others(group: Group) -> None:
    owner, pilot = make_user(groups=[group]), pilot_at(make_queue(), group)
    job = make_job(group=group, owner=owner)
    row = QueuedJob.objects.get(pk=job.pk)
    tomorrow = database_now() + timedelta(days=1)
    QueuedJob.objects.bulk_create(
        QueuedJob(
            job_id=-number,  # older than the one that is to be found
            task_queue_id=row.task_queue_id,
            user_priority=row.user_priority,
            is_held_back=True,
            not_before=tomorrow,
        )
        for number in range(1, 3001)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE taskqueues_queuedjob")
        cursor.execute("SET enable_seqscan = off")
        cursor.execute(
            "EXPLAIN (ANALYZE, FORMAT JSON) SELECT job_id FROM taskqueues_queuedjob WHERE task_queue_id = %s"
            " AND user_priority = %s AND NOT is_held_back ORDER BY job_id LIMIT 10",
            [row.task_queue_id, row.user_priority],
        )
        ((plan,),) = cursor.fetchall()
        cursor.execute("RESET enable_seqscan")
    scan = plan[0]["Plan"]["Plans"][0]
    assert scan["Index Name"] == "queued_job_oldest_of_its_kind"
    assert "Rows Removed by Filter" not in scan
    assert scan["Actual Rows"] == 1
    assert ask(pilot) == [job.pk]


def rows_read() -> int:
    """Return the number of rows of waiting jobs that were read by an index so far."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'taskqueues_queuedjob'")
        ((read,),) = cursor.fetchall()
    return int(read)


def hold_back(task_queue_id: int, level: int, *, number: int, **columns: Any) -> None:
    """Add waiting jobs to a level that are older than all others, and held back."""
    first = QueuedJob.objects.filter(pk__lt=0).count()
    QueuedJob.objects.bulk_create(
        QueuedJob(
            job_id=-first - position, task_queue_id=task_queue_id, user_priority=level, is_held_back=True, **columns
        )
        for position in range(1, number + 1)
    )


@pytest.mark.parametrize("analysed", [False, True])
def test_a_claim_reads_few_jobs_however_many_avoid_its_place(group: Group, *, analysed: bool) -> None:
    owner, queue = make_user(groups=[group]), make_queue()
    pilot, now = pilot_at(queue, group, host="node1"), database_now()
    row = QueuedJob.objects.get(pk=make_job(group=group, owner=owner).pk)
    hold = partial(hold_back, row.task_queue_id, row.user_priority, not_before=now - timedelta(seconds=9))
    hold(number=2000, avoided_until=now + timedelta(days=1), avoided_queue_ids=[queue.pk])
    hold(number=1000, avoided_until=now + timedelta(days=1), avoided_queue_ids=[7, queue.pk])
    hold(number=1000, avoided_until=now + timedelta(days=1), avoided_queue_ids=[queue.pk], avoided_host="node1")
    hold_back(row.task_queue_id, row.user_priority, number=1000, not_before=now + timedelta(days=1))
    if analysed:
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE taskqueues_queuedjob")
    before = rows_read()
    assert ask(pilot) == [row.pk]
    leased = rows_read()
    assert ask(pilot) == []
    assert leased - before < 200
    assert rows_read() - leased < 200


@pytest.mark.parametrize("seed", range(12))
def test_a_claim_finds_a_job_if_there_is_one_that_the_pilot_may_have(group: Group, seed: int) -> None:
    chance, now = Random(seed), database_now()
    queues = [make_queue(), make_queue()]
    pilots = [pilot_at(queue, group, host=host) for queue in queues for host in ("node1", "node2", "")]
    pilots.append(pilot_at(None, group))
    task_queue = QueuedJob.objects.get(pk=make_job(group=group).pk).task_queue_id
    level = 7
    for _ in range(chance.choice((1, 3, 12, 30))):
        not_before = now + timedelta(seconds=chance.choice((-900, -60, 60, 900)))
        columns: dict[str, Any] = {"not_before": not_before}
        if chance.random() < 0.9:
            place = chance.sample([queue.pk for queue in queues], chance.choice((1, 2)))
            until = not_before + timedelta(seconds=chance.choice((300, 1800)))
            columns |= {"avoided_until": until, "avoided_queue_ids": place}
            columns["avoided_host"] = chance.choice((None, "node1", "node2")) if len(place) == 1 else None
        hold_back(task_queue, level, number=1, **columns)
    rows = list(QueuedJob.objects.filter(user_priority=level))

    def free_from(row: QueuedJob, pilot: Pilot) -> datetime:
        assert row.not_before is not None
        at_place = pilot.queue_id in (row.avoided_queue_ids or ()) and row.avoided_host in {None, pilot.host_name}
        return max(row.not_before, row.avoided_until) if at_place and row.avoided_until else row.not_before

    for pilot in pilots:
        pilot.refresh_from_db()
        times = {row.job_id: free_from(row, pilot) for row in rows}
        for may_wait in (False, True):
            with transaction.atomic():
                queue = pilot.queue
                found = claim.claim(
                    Claimant(
                        pilot_id=pilot.pk,
                        request_id=uuid4(),
                        site_id=queue.ce.site_id if queue else None,
                        ce_id=queue.ce_id if queue else None,
                        queue_id=queue.pk if queue else None,
                    ),
                    ordinal=0,
                    task_queue_id=task_queue,
                    user_priority=level,
                    cpu_segment_s=1000,
                    searched=index.renewed().view.seen,
                    chance=chance.random(),
                    may_wait=may_wait,
                )
                transaction.set_rollback(True)
            if min(times.values()) <= now:
                # These rows are of no jobs: that is found out when one of them has been taken.
                assert (found.answer, found.reason) == ("contended", "job_does_not_wait")
                assert times[found.job_id] <= now
            else:
                everybody = min(row.not_before for row in rows if row.not_before)
                assert found.answer == "held_back"
                assert found.opens_at == (everybody if everybody > now else min(times.values()))
                assert (found.reason == claim.HeldFor.ALL) is (everybody > now)


def test_a_claim_answers_for_whom_a_level_is_held_back(group: Group) -> None:
    queue = make_queue()
    bad = pilot_at(queue, group, host="node1")
    pilot_at(queue, group, host="node2")
    job = make_job(group=group)
    ask(bad)
    give_back(job)
    row = QueuedJob.objects.get(pk=job.pk)

    def answer(pilot: Pilot) -> tuple[str, str | None, datetime | None]:
        site = queue.ce.site_id
        claimant = Claimant(pilot_id=pilot.pk, request_id=uuid4(), site_id=site, ce_id=queue.ce_id, queue_id=queue.pk)
        found = claim.claim(
            claimant,
            ordinal=0,
            task_queue_id=row.task_queue_id,
            user_priority=row.user_priority,
            cpu_segment_s=1000,
            searched=index.renewed().view.seen,
            chance=0.0,
            may_wait=False,
        )
        return found.answer, found.reason, found.opens_at

    # For all pilots until the delay is over, whatever places come last after that.
    assert answer(bad) == ("held_back", claim.HeldFor.ALL, row.not_before)
    later(seconds=DELAY_S)
    assert answer(bad) == ("held_back", claim.HeldFor.PILOT, row.avoided_until)
    assert answer(pilot_at(queue, group, host="node3")) == ("leased", "", None)
