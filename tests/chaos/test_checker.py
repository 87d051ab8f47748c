"""The checker of the chaos suite finds nothing in a healthy system, and each violation that is planted."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.utils import timezone

from matching.services import leases
from matching.services.match import match
from matching.services.offers import OfferRequest
from taskqueues.models import Limit
from taskqueues.services import priorities
from tests.chaos import checker
from tests.chaos.checker import Rows
from tests.chaos.figures import Violation
from tests.chaos.ledger import DEAD_LEASE, REFUSED, RUN_TWICE, WRONG_ANSWER, Attempt, End, Kind, Ledger
from tests.factories import make_group, make_job, make_pilot
from wms.jobs.models import Job, Sandbox
from wms.wire.protocol import Usage

pytestmark = pytest.mark.django_db

OUTPUT = b"what the job found"


@dataclass(frozen=True, kw_only=True)
class Healthy:
    """A job that is Done, with its output, and one that waits; and what their clients were told."""

    ledger: Ledger
    sandboxes: Path
    done: int
    lease: UUID

    def violations(self) -> set[str]:
        """Return the invariants that the checker finds violated, but for what is left at the end."""
        found: list[Violation] = [
            *checker.broken(query, {**checker.AT_ANY_MOMENT, **checker.SHARES}),
            *checker.against_ledger(query, self.ledger, sandboxes=self.sandboxes),
            *self.ledger.contradictions(),
        ]
        return {violation.invariant for violation in found}


def query(statement: str) -> Rows:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        rows: Rows = cursor.fetchall()
        return rows


def change(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        assert cursor.rowcount > 0, "nothing was planted"


@pytest.fixture
def healthy(tmp_path: Path) -> Healthy:
    group = make_group(priority=50.0)
    Limit.objects.create(vo=group.vo, running=5)
    jobs = [make_job(group=group).pk for _ in range(2)]
    pilot = make_pilot(vo=group.vo)
    (lease,) = match(
        OfferRequest(cpu_time_s=300_000), request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1)
    )
    leases.finish(lease.match_id, exit_code=0, minor=None, usage=Usage(), output_sandbox=None)
    digest = sha256(OUTPUT).hexdigest()
    file = tmp_path / digest[:2] / digest[2:]
    file.parent.mkdir()
    file.write_bytes(OUTPUT)
    row = Sandbox.objects.create(digest=digest, size_bytes=len(OUTPUT), is_archive=True, created_at=timezone.now())
    Job.objects.filter(pk=lease.job_id).update(output_sandbox=row)
    priorities.recalculate()
    ledger = Ledger()
    ledger.submitted([lease.job_id], Kind.SIMULATED)
    ledger.submitted([job for job in jobs if job != lease.job_id], Kind.PARKED)
    ledger.attempts.append(Attempt(job=lease.job_id, lease=str(lease.match_id), began=10.0, ended=20.0))
    end = End(job=lease.job_id, lease=str(lease.match_id), exit_code=0, output=f"sha256:{digest}", told=True)
    ledger.ends.append(end)
    return Healthy(ledger=ledger, sandboxes=tmp_path, done=lease.job_id, lease=lease.match_id)


def _run_twice(healthy: Healthy) -> None:
    (attempt,) = healthy.ledger.attempts
    healthy.ledger.attempts.append(replace(attempt, lease=str(uuid4()), began=19.0, ended=30.0))


def _answered(healthy: Healthy, path: str, status: int, body: object, *, at: float) -> None:
    healthy.ledger.answered(path, status, json.dumps(body).encode(), sent=at, heard=at + 0.5)


def _lease(number: str, healthy: Healthy) -> object:
    return {"match_id": number, "job": {"id": healthy.done}, "expires_at": "2999-01-01T00:00:00Z"}


def _accepted_after_the_end(healthy: Healthy) -> None:
    lease = str(healthy.lease)
    _answered(healthy, "/api/v1/matches/", 201, _lease(lease, healthy), at=10)
    _answered(healthy, f"/api/v1/matches/{lease}/finish/", 200, {}, at=20)
    _answered(healthy, f"/api/v1/matches/{lease}/heartbeat/", 200, {}, at=21)


def _accepted_after_another_lease(healthy: Healthy) -> None:
    older, newer = str(healthy.lease), str(uuid4())
    _answered(healthy, "/api/v1/matches/", 201, _lease(older, healthy), at=10)
    _answered(healthy, "/api/v1/matches/", 201, _lease(newer, healthy), at=20)
    _answered(healthy, f"/api/v1/matches/{older}/status/", 200, {}, at=21)


def _truncate_output(healthy: Healthy) -> None:
    (file,) = [path for path in healthy.sandboxes.rglob("*") if path.is_file()]
    file.write_bytes(OUTPUT[:-1])


#: (The invariant, what violates it).
PLANTED: list[tuple[str, Callable[[Healthy], object]]] = [
    (RUN_TWICE, _run_twice),
    (
        RUN_TWICE,
        lambda healthy: change(
            "INSERT INTO matching_match (id, job_id, pilot_id, request_id, ordinal, cpu_segment_s, leased_at,"
            " expires_at, ended_at, end_reason, reported_status, job_at_fault, died)"
            " SELECT gen_random_uuid(), job_id, pilot_id, gen_random_uuid(), 0, 0, leased_at, expires_at, ended_at,"
            " end_reason, reported_status, job_at_fault, died FROM matching_match"
        ),
    ),
    (DEAD_LEASE, _accepted_after_the_end),
    (DEAD_LEASE, _accepted_after_another_lease),
    (WRONG_ANSWER, lambda healthy: _answered(healthy, "/api/v1/jobs/", 500, {}, at=10)),
    (REFUSED, lambda healthy: _answered(healthy, "/api/v1/matches/", 401, {}, at=10)),
    (checker.LOST, lambda healthy: healthy.ledger.submitted([10**9], Kind.SIMULATED)),
    (checker.UNKNOWN, lambda healthy: healthy.ledger.accepted.pop(healthy.done)),
    (checker.ENDED_OTHERWISE, lambda _: change("UPDATE jobs_job SET status = 'Failed' WHERE status = 'Done'")),
    (checker.ENDED_OTHERWISE, lambda healthy: healthy.ledger.ends.clear()),
    (checker.ENDED_OTHERWISE, lambda healthy: healthy.ledger.killed.add(healthy.done)),
    (checker.NO_OUTPUT, lambda _: change("UPDATE jobs_job SET output_sandbox_id = NULL")),
    (checker.NO_OUTPUT, _truncate_output),
    (checker.QUEUED, lambda _: change("DELETE FROM taskqueues_queuedjob")),
    (checker.LEASED, lambda _: change("UPDATE jobs_job SET status = 'Running', ended_at = NULL WHERE status = 'Done'")),
    (checker.COUNTS, lambda _: change("DELETE FROM jobs_jobcountchange")),
    (checker.COUNTS_OF_SITES, lambda _: change("DELETE FROM jobs_jobcountchange")),
    (checker.LIMITS, lambda _: change("UPDATE taskqueues_limitslot SET used = used + 1 WHERE number = 0")),
    (checker.HISTORY, lambda _: change("UPDATE jobs_jobhistory SET status = 'Running' WHERE status = 'Done'")),
    (checker.TIMES, lambda _: change("UPDATE jobs_jobhistory SET changed_at = changed_at + interval '2 s'")),
    (
        checker.TIMES,
        lambda _: change(
            "UPDATE jobs_jobhistory SET changed_at = changed_at - interval '1 minute' WHERE status = 'Done'"
        ),
    ),
    (checker.SHARED, lambda _: change("UPDATE taskqueues_taskqueue SET priority = priority / 2")),
]


def test_a_healthy_system_violates_nothing(healthy: Healthy) -> None:
    assert healthy.violations() == set()


@pytest.mark.parametrize(("invariant", "plant"), PLANTED)
def test_each_planted_violation_is_found(healthy: Healthy, invariant: str, plant: Callable[[Healthy], object]) -> None:
    plant(healthy)
    assert invariant in healthy.violations()


def test_what_is_left_at_the_end_is_found(healthy: Healthy) -> None:
    (violation_of_job, violation_of_pilot) = checker.broken(query, checker.AT_THE_END)
    assert violation_of_job.invariant == violation_of_pilot.invariant == checker.LEFT_OVER
    assert "Waiting" in violation_of_job.what
    assert "pilot" in violation_of_pilot.what


def test_a_violation_of_each_invariant_is_planted() -> None:
    assert {invariant for invariant, _ in PLANTED} | {checker.LEFT_OVER} == checker.INVARIANTS
