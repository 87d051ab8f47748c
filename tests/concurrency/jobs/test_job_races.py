"""Submitting and controlling jobs over several connections."""

import random
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from django.db import connection, transaction

from taskqueues.models import QueuedJob
from taskqueues.services import queueing
from tests import factories
from tests.factories import NOW, submit
from tests.pace import within
from tests.threads import at_once, until_somebody_waits_for_a_lock
from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, JobCommand, JobHistory, Submission
from wms.jobs.services import control, editing, rescheduling, transitions
from wms.jobs.services.submission import RequestIdConflictError, SubmissionResult
from wms.kernel.errors import ConflictError

pytestmark = pytest.mark.django_db(transaction=True)


def _elsewhere(work: Callable[[], object]) -> None:
    """Do *work* on a connection of its own, and wait for it."""

    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(run).result(timeout=within(60))


def _assert_queues_hold_exactly_the_waiting_jobs() -> None:
    waiting = set(Job.objects.filter(status=JobStatus.WAITING).values_list("pk", flat=True))
    assert set(QueuedJob.objects.values_list("pk", flat=True)) == waiting


def test_identical_requests_at_once_are_one_submission() -> None:
    group = factories.make_group()
    owner = factories.make_user(groups=[group])
    request = parse_submission({"executable": "a", "parameters": {"count": 20}, "request_id": str(uuid4())})
    answers = at_once([lambda: submit(request, owner=owner, now=NOW)] * 8)

    assert all(answer == answers[0] for answer in answers)
    assert Submission.objects.count() == 1
    assert Job.objects.count() == QueuedJob.objects.count() == 20
    assert JobHistory.objects.count() == 40


def test_one_of_concurrent_requests_with_one_id_is_accepted() -> None:
    group = factories.make_group()
    owner = factories.make_user(groups=[group])
    request_id = str(uuid4())
    requests = [parse_submission({"executable": f"{number}", "request_id": request_id}) for number in range(8)]

    def attempt(number: int) -> SubmissionResult | None:
        try:
            return submit(requests[number], owner=owner, now=NOW)
        except RequestIdConflictError:
            return None

    answers = at_once([lambda number=number: attempt(number) for number in range(8)])  # type: ignore[misc]

    assert sum(answer is not None for answer in answers) == 1
    assert Job.objects.count() == 1


def test_killing_a_job_while_a_pilot_takes_it_stops_the_pilot() -> None:
    job = factories.make_job()
    with ThreadPoolExecutor(max_workers=1) as pool, transaction.atomic():
        # What the claim does, in its order.
        QueuedJob.objects.filter(pk=job.pk).delete()

        def kill() -> None:
            try:
                control.apply_to_one(Action.KILL, job.pk, by=job.owner, now=NOW)
            finally:
                connection.close()

        killing = pool.submit(kill)
        until_somebody_waits_for_a_lock()
        transitions.move(job.pk, status=JobStatus.MATCHED, source="matcher", now=NOW)
        transaction.on_commit(lambda: killing.result(timeout=within(60)))

    job.refresh_from_db()
    assert (job.status, job.minor_status) == ("Killed", "Marked for termination")
    assert JobCommand.objects.get().job_id == job.pk
    assert [line.status for line in job.history.order_by("pk")] == ["Matched", "Killed"]


@pytest.mark.parametrize("action", [Action.KILL, Action.HOLD, Action.DELETE])
def test_a_job_queued_during_its_kill_is_removed(action: Action, monkeypatch: pytest.MonkeyPatch) -> None:
    job = factories.make_job(status=JobStatus.HELD)
    withdraw = queueing.withdraw
    calls: list[Collection[int]] = []

    def withdraw_just_before_the_release(job_ids: Collection[int]) -> frozenset[int]:
        withdrawn = withdraw(job_ids)
        if not calls:
            release = lambda: control.apply_to_one(Action.RELEASE, job.pk, by=job.owner, now=NOW)  # noqa: E731
            _elsewhere(release)
        calls.append(job_ids)
        return withdrawn

    monkeypatch.setattr(queueing, "withdraw", withdraw_just_before_the_release)
    control.apply_to_one(action, job.pk, by=job.owner, now=NOW)

    job.refresh_from_db()
    assert job.status == {"kill": "Killed", "hold": "Held", "delete": "Deleted"}[action]
    assert not QueuedJob.objects.exists()
    assert len(calls) == 2


def test_editing_a_job_that_was_just_matched_is_refused() -> None:
    job = factories.make_job()
    outcome: list[type[Exception]] = []
    with ThreadPoolExecutor(max_workers=1) as pool, transaction.atomic():
        QueuedJob.objects.filter(pk=job.pk).delete()

        def edit() -> None:
            try:
                editing.edit(job.pk, changes={"priority": 9}, by=job.owner, now=NOW)
            except ConflictError as error:
                outcome.append(type(error))
            finally:
                connection.close()

        editing_it = pool.submit(edit)
        until_somebody_waits_for_a_lock()
        transitions.move(job.pk, status=JobStatus.MATCHED, source="matcher", now=NOW)
        transaction.on_commit(lambda: editing_it.result(timeout=within(60)))

    job.refresh_from_db()
    assert outcome == [editing.NotEditableError]
    assert (job.status, job.priority) == ("Matched", 1)
    assert not QueuedJob.objects.exists()


def test_concurrent_actions_keep_queues_and_statuses_consistent() -> None:
    submission = factories.make_submission()
    factories.make_job(submission=submission)
    request = parse_submission({"executable": "a", "parameters": {"count": 60}})
    ids = [job.id for job in submit(request, owner=submission.owner, now=NOW).jobs]

    def act(seed: int) -> Counter[str]:
        chance = random.Random(seed)
        done: Counter[str] = Counter()
        for _ in range(12):
            some = chance.sample(ids, 30)
            action = chance.choice([Action.HOLD, Action.RELEASE, Action.HOLD, Action.RELEASE, Action.RESCHEDULE])
            done[action] += len(control.apply(action, some, by=submission.owner, now=NOW).done)
            for job_id in some[:5]:  # pilots take some of them, and are lost again
                with transaction.atomic():
                    if queueing.withdraw([job_id]):
                        transitions.move(job_id, status=JobStatus.MATCHED, source="matcher", now=NOW)
                with transaction.atomic():
                    rescheduling.reschedule_or_fail({job_id: "lost"}, source="expirer", now=NOW)
        return done

    done = sum(at_once([lambda seed=seed: act(seed) for seed in range(6)]), Counter())  # type: ignore[misc]

    assert done["hold"]
    assert done["release"]
    _assert_queues_hold_exactly_the_waiting_jobs()


def test_overlapping_kills_kill_each_job_once() -> None:
    submission = factories.make_submission()
    request = parse_submission({"executable": "a", "parameters": {"count": 200}})
    ids = [job.id for job in submit(request, owner=submission.owner, now=NOW).jobs]

    def kill(seed: int) -> int:
        return len(control.apply(Action.KILL, random.Random(seed).sample(ids, 150), by=submission.owner, now=NOW).done)

    killed = sum(at_once([lambda seed=seed: kill(seed) for seed in range(6)]))  # type: ignore[misc]

    assert killed == JobHistory.objects.filter(status=JobStatus.KILLED).count()
    assert killed == Job.objects.filter(status=JobStatus.KILLED).count()
    _assert_queues_hold_exactly_the_waiting_jobs()
