"""Leases ended in one transaction have the effects of as many transactions (docs/architecture.md, Leases)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from random import Random
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import connection, transaction
from pytest_django import Settings

from matching.models import Match
from matching.services import expiry, leases
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from resources.models import Queue
from taskqueues.models import Limit, LimitEvent, QueuedJob, TaskQueueChange
from tests.cases import quick_cases
from tests.clock import reset_clock, stop_clock
from tests.factories import make_ce, make_group, make_job, make_match, make_pilot, make_queue, make_vo
from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.models import CurrentSiteJobCount, CurrentSubmissionJobCount, Job, JobCommand, JobHistory
from wms.jobs.services import control
from wms.kernel.db import database_now
from wms.wire.protocol import NO_TAILS, Usage

pytestmark = pytest.mark.django_db

#: More than the number below which changes of jobs are counted by a trigger.
LEASES = 24


@pytest.fixture(autouse=True)
def clock() -> Iterator[None]:
    expiry.expire_leases()
    stop_clock()
    yield
    reset_clock()


@pytest.fixture(autouse=True)
def short_of_chances(settings: Settings) -> None:
    settings.WMS_MAX_PILOT_DEATHS = 2
    settings.WMS_RESCHEDULE_DELAY_S = 60
    settings.WMS_RESCHEDULE_ELSEWHERE_S = 600


def fill(chance: Random) -> None:
    """Make leases in all states that the expirer may find."""
    vo = make_vo()
    groups = [make_group(vo=vo, shares_jobs=shares) for shares in (False, True)]
    ces = [make_ce(), make_ce()]
    queues = [make_queue(ce=ces[0]), make_queue(ce=ces[0]), make_queue(ce=ces[1]), None]
    Limit.objects.create(vo=vo, running=1000, cpu_s_per_day=10**9)
    Limit.objects.create(site=ces[0].site, running=1000)
    for _ in range(LEASES):
        # Each task queue of the last kind is empty after its match, and is made again.
        make_job(group=chance.choice(groups), cpu_time_s=chance.choice([10, 1000, 100_000 + chance.randrange(99_999)]))
    for _ in range(LEASES):
        pilot = make_pilot(vo=vo, queue=chance.choice(queues))
        seen_at = database_now() - timedelta(seconds=chance.choice([0, 100, 1000, 3000]))
        host = chance.choice(["", "node1", "node2", f"node{pilot.pk}"])
        Pilot.objects.filter(pk=pilot.pk).update(host_name=host, started_at=seen_at, last_seen_at=seen_at)
        match(OfferRequest(cpu_time_s=300_000), request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=chance)
    for lease in Match.objects.select_related("job__owner").order_by("leased_at", "pk"):
        change(lease, queues, chance)


def change(lease: Match, queues: Sequence[Queue | None], chance: Random) -> None:
    """Bring a lease and its job into one of the states."""
    now = database_now()
    for _ in range(chance.choice([0, 0, 1, 2])):
        pilot = make_pilot(vo=lease.job.vo, queue=chance.choice(queues))
        earlier = now - timedelta(hours=chance.randrange(2, 9))
        ended = make_match(job=lease.job, pilot=pilot, leased_at=earlier, ended_at=earlier)
        Match.objects.filter(pk=ended.pk).update(queue=pilot.queue, died=chance.random() < 0.7, end_reason="expired")
    if chance.random() < 0.7:
        leases.report_status(lease.pk, status=JobStatus.RUNNING)
        leases.heartbeat(lease.pk, usage=Usage(cpu_s=0.0), tails=NO_TAILS, acknowledged=[])
        Match.objects.filter(pk=lease.pk).update(reported_at=now - timedelta(seconds=chance.choice([10, 400, 2000])))
    Job.objects.filter(pk=lease.job_id).update(reschedules=chance.choice([0, 0, 1, 3]))
    action = chance.choice([None, None, None, Action.KILL, Action.RESCHEDULE])
    if action is not None:
        control.apply(action, [lease.job_id], by=lease.job.owner, now=now)
    if chance.random() < 0.8:
        Match.objects.filter(pk=lease.pk).update(expires_at=now - timedelta(hours=1))
    if chance.random() < 0.3:
        status = chance.choice([PilotStatus.LOST, PilotStatus.FAILED, PilotStatus.ABORTED])
        ended_at = now - timedelta(seconds=chance.randrange(2000))
        Pilot.objects.filter(pk=lease.pilot_id).update(status=status, ended_at=ended_at, died=chance.random() < 0.5)
    if chance.random() < 0.2:
        Pilot.objects.filter(pk=lease.pilot_id).update(**{chance.choice(["drained_at", "revoked_at"]): now})


def state() -> dict[str, object]:
    """Return all rows that an end of a lease may change; those that are summed up, as sums."""
    histories: dict[int, list[tuple[object, ...]]] = {}
    told = ("status", "minor_status", "application_status", "source", "changed_at")
    for job_id, *line in JobHistory.objects.order_by("pk").values_list("job_id", *told):
        histories.setdefault(job_id, []).append(tuple(line))
    counts: Counter[tuple[object, ...]] = Counter()
    for view, key in ((CurrentSiteJobCount, "site_id"), (CurrentSubmissionJobCount, "submission_id")):
        for *kind, jobs in view.objects.values_list("group_id", "owner_id", "status", key, "jobs"):
            counts[view.__name__, *kind] += jobs
    levels: Counter[tuple[object, ...]] = Counter()
    signatures = dict(QueuedJob.objects.values_list("task_queue_id", "task_queue__signature"))
    for queue_id, level, jobs in TaskQueueChange.objects.values_list("task_queue_id", "user_priority", "jobs"):
        levels[signatures.get(queue_id), level] += jobs
    left: Counter[int] = Counter()
    for limit_id, jobs in LimitEvent.objects.values_list("limit_id", "jobs_left"):
        left[limit_id] += jobs
    held_back = ("not_before", "avoided_until", "avoided_queue_ids", "avoided_host", "is_held_back", "user_priority")
    return {
        "jobs": list(Job.objects.order_by("pk").values()),
        "histories": histories,
        "leases": list(Match.objects.order_by("pk").values()),
        "queued": list(QueuedJob.objects.order_by("pk").values_list("pk", "task_queue__signature", *held_back)),
        "commands": list(JobCommand.objects.order_by("pk").values()),
        "counts": +counts,
        "levels": levels,
        "left": left,
    }


def after_a_run(*, together: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Return the state after a run, which is rolled back."""
    monkeypatch.setattr(expiry, "ENDED_TOGETHER", together)
    before = transaction.savepoint()
    ended = expiry.expire_leases()
    reached = state() | {"ended": ended}
    transaction.savepoint_rollback(before)
    return reached


@pytest.mark.parametrize("seed", quick_cases(range(4), quick=1))
def test_many_leases_end_together_as_they_would_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(Random(seed))
    one_by_one = after_a_run(together=1, monkeypatch=monkeypatch)
    together = after_a_run(together=LEASES, monkeypatch=monkeypatch)
    for part, rows in one_by_one.items():
        assert together[part] == rows, part
    assert one_by_one["ended"] > LEASES / 2  # type: ignore[operator]


@pytest.mark.parametrize(
    ("expires_in", "expected"), [(timedelta(days=-1), JobStatus.WAITING), (timedelta(days=1), JobStatus.STALLED)]
)
def test_a_job_that_cannot_be_changed_delays_no_other(
    expires_in: timedelta, expected: JobStatus, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether its lease should end, or it should be marked Stalled."""
    damaged = [make_match() for _ in range(9)][4].job
    silent = database_now() - timedelta(seconds=1.5 * expiry.MISSED_HEARTBEATS * settings.WMS_HEARTBEAT_S)
    Match.objects.update(reported_at=silent, expires_at=database_now() + expires_in)
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'damaged'; END $$;"
            f" CREATE TRIGGER refuse BEFORE UPDATE ON jobs_job FOR EACH ROW WHEN (OLD.id = {damaged.pk})"
            " EXECUTE FUNCTION refuse()"
        )
    expiry.expire_leases()
    assert Counter(Job.objects.values_list("status", flat=True)) == {expected: 8, JobStatus.RUNNING: 1}
    damaged.refresh_from_db()
    assert damaged.status == JobStatus.RUNNING
    assert {(record.message, "damaged" in record.__dict__["reason"]) for record in caplog.records} == {
        ("lease.not_expired", True)
    }
