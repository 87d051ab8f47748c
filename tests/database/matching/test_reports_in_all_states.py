"""Reports in any order on leases in each state: what holds after any of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any, Final
from uuid import uuid4

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from matching.models import Match
from matching.queries.invariants import violations
from matching.services import leases
from matching.services.leases import LeaseRenewal
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from taskqueues.models import Limit, QueuedJob
from tests.cases import examples
from tests.clock import stop_clock
from tests.factories import NOW, make_job, make_pilot
from wms.jobs.domain.lifecycle import FINAL, LEASED, TRANSITIONS, JobStatus
from wms.jobs.models import Job, JobCommand, JobHistory, OutputTail, Sandbox, SandboxUpload, UsageSamples
from wms.kernel.db import database_now
from wms.kernel.errors import WmsError
from wms.wire.protocol import NO_TAILS, Tails, Usage, output_sandbox_name

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

Report = Callable[[Match], object]

#: Outputs: uploaded for the job, and not.
OUTPUT, NO_OUTPUT = (f"sha256:{digit * 64}" for digit in "10")
#: Commands of the job, in the order in which they were given.
COMMANDS: Final = ("drain", "peek", "kill")
#: Of a job whose lease is open.
STATUSES: Final = (*sorted(LEASED), JobStatus.KILLED, JobStatus.RESCHEDULED)


@pytest.fixture
def lease() -> Match:
    """Lease of a job for which an output was uploaded and commands were given, under a limit."""
    stop_clock()
    job = make_job()
    Limit.objects.create(vo=job.vo, running=5)
    offer = OfferRequest(cpu_time_s=300_000)
    match(offer, request_id=uuid4(), pilot_id=make_pilot(vo=job.vo).pk, max_jobs=1, chance=Random(1))
    sandbox = Sandbox.objects.create(digest="1" * 64, size_bytes=1, is_archive=True, created_at=NOW)
    SandboxUpload.objects.create(
        sandbox=sandbox, owner=job.owner, file_name=output_sandbox_name(job.pk), uploaded_at=NOW
    )
    for name in COMMANDS:
        JobCommand.objects.create(job=job, name=name, created_at=NOW)
    return Match.objects.get()


def report(lease: Match, *, status: str, **words: Any) -> LeaseRenewal:
    return leases.report_status(lease.pk, status=JobStatus(status), **words)


def beat(lease: Match, *, acknowledged: Sequence[str] = (), cpu_s: float | None = None, **tails: str) -> LeaseRenewal:
    ids = JobCommand.objects.filter(name__in=acknowledged).values_list("pk", flat=True)
    return leases.heartbeat(lease.pk, usage=Usage(cpu_s=cpu_s), tails=Tails(**tails), acknowledged=list(ids))


def end(lease: Match, *, cpu_s: float | None = None, tails: Tails = NO_TAILS, **said: Any) -> JobStatus:
    said = {"minor": None, "output_sandbox": None, **said}
    return leases.finish(lease.pk, usage=Usage(cpu_s=cpu_s), tails=tails, **said)


@contextmanager
def undone() -> Iterator[None]:
    before = transaction.savepoint()
    try:
        yield
    finally:
        transaction.savepoint_rollback(before)


def arrange(status: JobStatus, **columns: Mapping[str, Any]) -> None:
    """Bring the job of the lease, the lease and the pilot into a state."""
    ended_at = database_now() if status in FINAL else None
    counts = {"reschedules": 1} if status is JobStatus.RESCHEDULED else {}
    Job.objects.update(**{"status": status, "ended_at": ended_at, **counts, **columns.get("job", {})})
    Match.objects.update(**columns.get("lease", {}))
    Pilot.objects.update(**columns.get("pilot", {}))
    if not {JobStatus.KILLED, JobStatus.RESCHEDULED} & {status}:
        JobCommand.objects.filter(name="kill").delete()


def lines() -> list[str]:
    return list(JobHistory.objects.order_by("pk").values_list("status", flat=True))


def rows() -> tuple[object, ...]:
    """Return what reports may change."""
    models = (Job, JobHistory, JobCommand, Match, Pilot, OutputTail, UsageSamples, QueuedJob)
    return tuple(list(model._default_manager.order_by("pk").values()) for model in models)


WORDS: Final = st.sampled_from([None, "", "Event 7", "é \N{GRINNING FACE}"])
CPU_S: Final = st.sampled_from([None, 0.0, 5.5, 7.0])
TAILS: Final = st.sampled_from([None, "", "after"])
ANY_REPORT: Final[st.SearchStrategy[Report]] = st.one_of(
    st.builds(
        partial, st.just(report), status=st.sampled_from(["Running", "Completing"]), minor=WORDS, application=WORDS
    ),
    st.builds(partial, st.just(beat), cpu_s=CPU_S, acknowledged=st.lists(st.sampled_from(COMMANDS)), std_output=TAILS),
    st.builds(
        partial,
        st.just(end),
        cpu_s=CPU_S,
        exit_code=st.sampled_from([0, 0, 1, 126, 222, 222, None]),
        minor=WORDS,
        output_sandbox=st.sampled_from([None, OUTPUT, OUTPUT, NO_OUTPUT]),
        tails=st.builds(Tails, TAILS, TAILS),
        job_at_fault=st.booleans(),
        supervisor_died=st.booleans(),
    ),
)
MOMENTS: Final = st.sampled_from([None, timedelta(days=-1), timedelta(minutes=-3), timedelta(0), timedelta(days=1)])
SELDOM: Final = st.sampled_from([None] * 9 + [timedelta(0)])
STATE: Final = st.fixed_dictionaries(
    {
        "job": st.fixed_dictionaries({"application_status": WORDS.filter(bool), "started_at": MOMENTS, "cpu_s": CPU_S}),
        "lease": st.fixed_dictionaries(
            {
                "reported_at": MOMENTS,
                "expires_at": MOMENTS.filter(lambda at: at is not None),
                "reported_status": st.sampled_from(["Matched", "Running", "Completing"]),
            }
        ),
        "pilot": st.fixed_dictionaries({"revoked_at": SELDOM, "last_seen_at": MOMENTS}),
    }
)


def at(columns: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the columns with moments for the durations relative to *now*."""
    return {name: now + value if isinstance(value, timedelta) else value for name, value in columns.items()}


@pytest.mark.slow
@settings(
    max_examples=examples(80),
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(status=st.sampled_from(STATUSES), state=STATE, reports=st.lists(ANY_REPORT, min_size=1, max_size=4))
def test_reports_in_any_order_keep_what_always_holds(
    lease: Match, status: JobStatus, state: Mapping[str, Mapping[str, Any]], reports: Sequence[Report]
) -> None:
    with undone():
        arrange(status, **{name: at(columns, database_now()) for name, columns in state.items()})
        for send in reports:
            before, job, its, had = rows(), Job.objects.get(), Match.objects.get(), lines()
            try:
                answer = send(lease)
            except WmsError:
                assert rows() == before, "a refused report changes nothing"
                continue
            _check(answer, job, its, had)


def _check(answer: object, job_before: Job, lease_before: Match, had: Sequence[str]) -> None:
    job, lease = Job.objects.get(), Match.objects.get()
    assert not list(violations())
    # Each line of the history is reached from the one before it, or has other words.
    for one, next_one in pairwise([job_before.status, *lines()[len(had) :]]):
        assert next_one == one or next_one in TRANSITIONS[JobStatus(one)]
    assert lines()[: len(had)] == had
    assert job.status == ([job_before.status, *lines()[len(had) :]])[-1]
    assert (job.ended_at is not None) == (job.status in FINAL)
    # At most one copy runs: what waits has no lease, and what has a lease does not wait.
    assert QueuedJob.objects.exists() == (job.status == JobStatus.WAITING)
    assert (lease.ended_at is None) or job.status not in LEASED | {JobStatus.RESCHEDULED}
    if job_before.status in FINAL:
        assert job.status == job_before.status
    if job.status != JobStatus.WAITING:
        assert (job.cpu_s or 0) >= (job_before.cpu_s or 0)
    unacknowledged = JobCommand.objects.filter(acknowledged_at__isnull=True).order_by("pk")
    if lease.ended_at is not None:
        assert not unacknowledged.exists()
        assert lease.end_reason in {"finished", "killed"}
    elif isinstance(answer, LeaseRenewal):
        assert answer.commands == list(unacknowledged)
        assert answer.expires_at == lease.expires_at
        assert lease.reported_at == database_now()
        if lease_before.reported_at is not None:
            assert lease.expires_at >= lease_before.expires_at
    if isinstance(answer, JobStatus):
        assert answer == job.status
        assert lease.end_reason
