"""A web process killed at any step of a match: the job waits or is leased, and the retry gets the same job."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Thread
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.db import connection, transaction

from matching.models import Match
from matching.queries.invariants import violations
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from taskqueues.models import QueuedJob
from tests.factories import LARGE_SLOT, make_group, make_job, make_pilot, make_pilot_token, make_queue
from tests.pace import within
from tests.threads import at_once, until_somebody_waits_for_a_lock
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db(transaction=True)

PROGRAM = Path(__file__).with_name("web_that_dies.py")
NOTHING_HAPPENED = [
    "before the pilot is known",
    "before the task queues are known",
    "before a task queue is drawn",
    "before the claim is sent",
]
LEASED = ["after the claim has committed", "before the answer is written"]


@pytest.fixture
def jobs() -> list[Job]:
    group = make_group(shares_jobs=True)
    return [make_job(group=group) for _ in range(3)]


@pytest.fixture
def pilot(jobs: list[Job]) -> Pilot:
    return make_pilot(vo=jobs[0].vo, queue=make_queue(**LARGE_SLOT))


@contextmanager
def web(step: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Run the program on this test's database; yield its process and its port."""
    database = connection.settings_dict
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "wms.settings",
        "PYTHONPATH": str(settings.BASE_DIR),
        "WMS_SECRET_KEY": settings.SECRET_KEY,
        "WMS_DATABASE_URL": os.environ["WMS_DATABASE_URL"].replace("/wms?", f"/{database['NAME']}?"),
    }
    with subprocess.Popen(
        [sys.executable, PROGRAM, step], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def ask_over_http(port: int, pilot: Pilot, request_id: UUID) -> None:
    """Ask for a job; the answer never comes."""
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=within(60))
    headers = {"Authorization": f"Bearer {make_pilot_token(pilot)}", "Content-Type": "application/json"}
    body = json.dumps({"request_id": str(request_id), "cpu_time_s": 300_000})
    asking.request("POST", "/api/v1/matches/", body, headers)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        asking.getresponse()


def leases() -> list[UUID]:
    return list(Match.objects.values_list("pk", flat=True))


def assert_the_retry_gets_one_job(jobs: list[Job], pilot: Pilot, request_id: UUID) -> None:
    before = leases()
    offer = OfferRequest(cpu_time_s=300_000)
    (lease,) = match(offer, request_id=request_id, pilot_id=pilot.pk, max_jobs=1, chance=Random(1))
    assert leases() == [lease.match_id]
    assert before in ([], [lease.match_id])
    assert Job.objects.get(pk=lease.job_id).status == JobStatus.MATCHED
    assert set(QueuedJob.objects.values_list("pk", flat=True)) == {job.pk for job in jobs} - {lease.job_id}
    assert not [found for found in violations() if "priorities" not in found.invariant]


@pytest.mark.parametrize(("step", "leased"), [*[(s, 0) for s in NOTHING_HAPPENED], *[(s, 1) for s in LEASED]])
def test_a_web_process_that_dies_leaves_the_job_waiting_or_leased(
    jobs: list[Job], pilot: Pilot, step: str, leased: int
) -> None:
    request_id = uuid4()
    with web(step) as (process, port):
        ask_over_http(port, pilot, request_id)
        assert process.wait(timeout=within(60)) == -signal.SIGKILL
    assert Match.objects.count() == leased
    assert QueuedJob.objects.count() == 3 - leased
    assert_the_retry_gets_one_job(jobs, pilot, request_id)


def test_a_web_process_that_dies_while_the_database_works_for_it(jobs: list[Job], pilot: Pilot) -> None:
    """The claim waits for the row of the pilot, which this test holds; its web process is killed; then it goes on."""
    request_id = uuid4()
    with web("never") as (process, port):
        with transaction.atomic():
            Pilot.objects.select_for_update().get(pk=pilot.pk)
            asking = Thread(target=at_once, args=([lambda: ask_over_http(port, pilot, request_id)],))
            asking.start()
            until_somebody_waits_for_a_lock()
            process.kill()
            assert process.wait(timeout=within(60)) == -signal.SIGKILL
        asking.join(timeout=within(60))
    # Whether the claim had its way or was given up, the retry gets one job and there is one lease.
    assert_the_retry_gets_one_job(jobs, pilot, request_id)
