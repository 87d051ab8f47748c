"""Races of empty answers that only read, with claims and submissions on other connections."""

from concurrent.futures import ThreadPoolExecutor
from random import Random
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction

from matching.models import Match
from matching.services.claim import Claimant, Claimed, claim, close
from matching.services.empty_answers import empty_answer
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from taskqueues.models import TaskQueue
from taskqueues.services.index.shared import index
from tests.factories import LARGE_SLOT, make_group, make_job, make_pilot, make_queue
from tests.pace import within
from tests.threads import at_once, until_somebody_waits_for_a_lock
from wms.accounts.models import Group

pytestmark = pytest.mark.django_db(transaction=True)

LEFT = {"tags": 0}


@pytest.fixture
def group() -> Group:
    return make_group(shares_jobs=True)


@pytest.fixture
def pilot(group: Group) -> Pilot:
    return make_pilot(vo=group.vo, queue=make_queue(**LARGE_SLOT))


def claimant_of(pilot: Pilot, request_id: UUID) -> Claimant:
    queue = pilot.queue
    assert queue is not None
    return Claimant(
        pilot_id=pilot.pk, request_id=request_id, site_id=queue.ce.site_id, ce_id=queue.ce_id, queue_id=queue.pk
    )


def claim_of(claimant: Claimant, task_queue_id: int) -> Claimed:
    return claim(
        claimant,
        ordinal=0,
        task_queue_id=task_queue_id,
        user_priority=1,
        cpu_segment_s=1000,
        searched=index.renewed().view.seen,
        chance=0.5,
        may_wait=True,
    )


def ask(pilot: Pilot, request_id: UUID | None = None) -> list[int]:
    offer, chance = OfferRequest(cpu_time_s=300_000), Random(1)
    leases = match(offer, request_id=request_id or uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=chance)
    return [lease.job_id for lease in leases]


def known_empty(claimant: Claimant) -> bool:
    return empty_answer(claimant, left=LEFT, searched=None).is_stored


def test_a_request_with_a_running_claim_is_not_answered_by_a_read(group: Group, pilot: Pilot) -> None:
    """The lease of a claim that has not committed is invisible; that claim is known by its lock."""
    make_job(group=group)
    again = claimant_of(pilot, uuid4())
    close(claimant_of(pilot, uuid4()), left=LEFT)
    assert known_empty(again)
    seen: list[bool] = []
    with transaction.atomic():
        queue_id = TaskQueue.objects.get().pk
        lease = claim_of(again, queue_id)
        seen += at_once([lambda: known_empty(again)])
    seen += at_once([lambda: known_empty(again)])
    assert seen == [False, False]
    assert [repeated.match_id for repeated in close(again, left=LEFT)] == [lease.match_id]


def test_a_repeated_request_waits_for_the_claim_of_its_first_try(group: Group, pilot: Pilot) -> None:
    job, request_id = make_job(group=group), uuid4()
    first = claimant_of(pilot, request_id)
    close(claimant_of(pilot, uuid4()), left=LEFT)

    def repeat() -> list[int]:
        try:
            return ask(pilot, request_id)
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as pool:
        with transaction.atomic():
            queue_id = TaskQueue.objects.get().pk
            claim_of(first, queue_id)
            repeated = pool.submit(repeat)
            until_somebody_waits_for_a_lock(or_done=repeated)
            assert not repeated.done()
        assert repeated.result(timeout=within(30)) == [job.pk]
    assert Match.objects.count() == 1


def test_the_lock_of_a_claim_that_was_undone_costs_one_more_write(group: Group, pilot: Pilot) -> None:
    make_job(group=group)
    other = claimant_of(pilot, uuid4())
    close(other, left=LEFT)
    queue_id = TaskQueue.objects.get().pk
    with transaction.atomic():
        claim_of(other, queue_id)
        transaction.set_rollback(True)
    assert not known_empty(other)
    close(other, left=LEFT)
    assert known_empty(other)


def test_a_job_committed_before_the_request_is_never_missed(group: Group, pilot: Pilot) -> None:
    """Each process reads its index about once a second; an empty answer from memory needs none that is newer."""
    for _ in range(20):
        assert ask(pilot) == []
        jobs = at_once([lambda: make_job(group=group).pk])
        assert ask(pilot) == jobs


def test_idle_requests_do_not_read_the_task_queues_again(
    group: Group, pilot: Pilot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def renewed() -> None:
        raise AssertionError("An empty answer waited for the index.")

    make_job(group=group, tags=["gpu"])
    assert [ask(pilot), ask(pilot)] == [[], []]
    monkeypatch.setattr("taskqueues.services.index.shared.index.renewed", renewed)
    assert [ask(pilot) for _ in range(5)] == [[]] * 5
