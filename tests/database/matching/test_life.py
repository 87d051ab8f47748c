"""The log of a job's life: one search by its id finds each event, after its commit (docs/operators.md, Logs)."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from random import Random
from uuid import uuid4

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from matching.services import expiry, leases, submission
from matching.services.claim import Claimed
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.services.reports import end_pilot
from tests.clock import pass_time, reset_clock
from tests.factories import make_group, make_pilot, make_queue, make_user
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.services import control
from wms.jobs.services.submission import RequestIdConflictError
from wms.kernel.life import JOBS_OF_A_LINE
from wms.kernel.log_lines import LineWithFacts
from wms.wire.protocol import Usage

pytestmark = pytest.mark.django_db

Committed = Callable[[], AbstractContextManager[object]]
LineOf = Callable[[int], list[str]]
FORMATTER = LineWithFacts("%(message)s", ours=["wms"])


@pytest.fixture(autouse=True)
def clock() -> Iterator[None]:
    expiry.expire_leases()
    yield
    reset_clock()


@pytest.fixture
def alice() -> User:
    return make_user(username="alice", groups=[make_group(name="lhcb_user")])


@pytest.fixture
def pilot(alice: User) -> Pilot:
    queue = make_queue()
    vo = alice.memberships.get().group.vo
    queue.ce.site.vos.add(vo)
    return make_pilot(vo=vo, queue=queue)


@pytest.fixture
def committed(django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks) -> Committed:
    """Return a context whose transactions count as committed at its end."""
    return partial(django_capture_on_commit_callbacks, execute=True)


@pytest.fixture
def life_of(caplog: pytest.LogCaptureFixture) -> LineOf:
    """Return the lines on a job that a search finds."""
    caplog.set_level("INFO", logger="wms.life")

    def lines(job_id: int) -> list[str]:
        written = [FORMATTER.format(record) for record in caplog.records if record.name == "wms.life"]
        return [line for line in written if re.search(rf"job={job_id}\b", line)]

    return lines


def submit(owner: User, **description: object) -> list[int]:
    request = parse_submission(description if "jobs" in description else {"executable": "/bin/true", **description})
    return [job.id for job in submission.submit(request, owner=owner, now=timezone.now()).jobs]


def lease_of(pilot: Pilot) -> Claimed:
    offer = OfferRequest(cpu_time_s=300_000)
    (lease,) = match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1))
    return lease


def finish(lease: Claimed, exit_code: int) -> JobStatus:
    return leases.finish(lease.match_id, exit_code=exit_code, minor=None, usage=Usage(), output_sandbox=None)


def test_the_life_of_a_job_that_is_run(committed: Committed, life_of: LineOf, alice: User, pilot: Pilot) -> None:
    with committed():
        (job,) = submit(alice)
        lease = lease_of(pilot)
        for _ in range(2):  # a repeated report is no event
            leases.report_status(lease.match_id, status=JobStatus.RUNNING)
        leases.report_status(lease.match_id, status=JobStatus.COMPLETING)
        for _ in range(2):
            finish(lease, 3)
    submitted, matched, started, ended = life_of(job)
    owner = f"user=alice group=lhcb_user vo={pilot.vo.name}"
    assert re.fullmatch(rf"job.submitted job={job} submission=\S+ {owner}", submitted)
    site = pilot.queue and pilot.queue.ce.site.name
    by = f"job={job} pilot={pilot.pk} lease={lease.match_id}"
    assert matched == f"job.matched {by} {owner} site={site}"
    assert started == f"job.started {by}"
    assert ended == f'job.ended {by} status=Failed exit_code=3 reason="Exited with code 3"'


def test_the_life_of_a_job_that_is_lost_and_given_back_and_killed(
    committed: Committed, life_of: LineOf, alice: User, pilot: Pilot
) -> None:
    with committed():
        (job,) = submit(alice)
        lease_of(pilot)
        with transaction.atomic():
            end_pilot(pilot.pk, status=PilotStatus.ABORTED, reason="its node is gone", now=timezone.now())
        expiry.expire_leases()
        control.apply_to_one(Action.HOLD, job, by=alice, now=timezone.now(), reason="Not now")
        control.apply_to_one(Action.RELEASE, job, by=alice, now=timezone.now())
        control.apply_to_one(Action.KILL, job, by=alice, now=timezone.now())
        control.apply_to_one(Action.DELETE, job, by=alice, now=timezone.now())
    assert [line.partition(" ")[0] for line in life_of(job)] == [
        "job.submitted",
        "job.matched",
        "job.lost",
        "job.rescheduled",
        "job.waiting",
        "job.held",
        "job.waiting",
        "job.killed",
        "job.deleted",
    ]
    (held,) = (line for line in life_of(job) if line.startswith("job.held"))
    assert held == f'job.held job={job} status=Held reason="Not now" source=alice'


def test_a_silent_job_is_stalled_and_its_life_goes_on(
    committed: Committed, life_of: LineOf, alice: User, pilot: Pilot
) -> None:
    with committed():
        (job,) = submit(alice)
        lease = lease_of(pilot)
        leases.report_status(lease.match_id, status=JobStatus.RUNNING)
        for _ in range(16):  # as in a system that runs: after a long pause, leases are lengthened
            pass_time(seconds=10)
            expiry.expire_leases()
    assert life_of(job)[-1].startswith(f"job.stalled job={job} status=Stalled")


def test_many_jobs_share_lines_that_name_each_of_them(committed: Committed, life_of: LineOf, alice: User) -> None:
    with committed():
        jobs = submit(alice, jobs=[{"executable": "/bin/true"}] * (JOBS_OF_A_LINE + 1))
        control.apply(Action.KILL, jobs, by=alice, now=timezone.now())
    first, last = (life_of(jobs[at]) for at in (0, -1))
    assert [line.partition(" ")[0] for line in first] == ["job.submitted", "job.killed"]
    assert [line.count("job=") for line in first] == [JOBS_OF_A_LINE] * 2
    assert [line.count("job=") for line in last] == [1, 1]
    assert max(len(line) for line in first) < 10_000


def test_a_submission_that_is_refused_is_an_event(
    committed: Committed, life_of: LineOf, alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    request_id = str(uuid4())
    with committed():
        submit(alice, request_id=request_id)
        with pytest.raises(RequestIdConflictError):
            submit(alice, request_id=request_id, priority=3)
    refused = FORMATTER.format(caplog.records[-1])
    assert refused.startswith("job.refused user=alice code=request_id_conflict reason=")
