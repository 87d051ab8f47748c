"""Explain and preview of a job that was given back: the end of its delay, and the avoided places."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pytest_django import Settings

from matching.services import leases
from pilots.models import Pilot
from resources.models import Queue
from tests import factories
from tests.api.matching.conftest import ClientOf, SampleData
from tests.api.matching.test_explain import explained, of_alice
from tests.clock import pass_time, reset_clock, stop_clock
from tests.database.matching.test_given_back import jobs_for, pilot_at
from wms.jobs.models import Job
from wms.kernel.db import database_now
from wms.wire.protocol import Usage

DELAY_S = 60


@pytest.fixture(autouse=True)
def clock(settings: Settings, sample: SampleData) -> Iterator[None]:
    settings.WMS_RESCHEDULE_DELAY_S = DELAY_S
    settings.WMS_RESCHEDULE_ELSEWHERE_S = 600
    stop_clock()
    yield
    reset_clock()


@pytest.fixture
def bad(sample: SampleData) -> Pilot:
    return pilot_at(Queue.objects.get(), sample.prod)


def given_back(job: Job, pilot: Pilot) -> None:
    assert jobs_for(pilot) == [job.pk]
    lease = job.matches.get()
    leases.finish(lease.pk, exit_code=222, minor="No room", usage=Usage(), output_sandbox=None)


def words(moment: timedelta) -> str:
    return f"{database_now() + moment:%Y-%m-%d %H:%M:%S} UTC"


def test_explain_shows_the_delay_and_the_avoided_place(sample: SampleData, client_of: ClientOf, bad: Pilot) -> None:
    factories.make_queue(ce=factories.make_ce(site=factories.make_site(name="S.OTHER"), name="ce2"), name="long")
    job = of_alice(sample)
    given_back(job, bad)
    from_, until = words(timedelta(seconds=DELAY_S)), words(timedelta(seconds=DELAY_S + 600))
    goes_elsewhere = f"until {until} it goes elsewhere than LCG.CERN.ch/ce01.cern.ch/grid first, which gave it back"
    said = explained(client_of(sample.alice), job)
    assert said["summary"] == (
        "It fits 1 of 2 queues and waits because it was given back by a pilot, and no pilot gets it before"
        f" {from_}; {goes_elsewhere}."
    )
    pass_time(seconds=DELAY_S)
    said = explained(client_of(sample.alice), job)
    assert said["summary"].startswith("It fits 1 of 2 queues")
    assert said["summary"].endswith(f"; {goes_elsewhere}.")
    assert {each["queue"]: (each["fits"], each["reasons"]) for each in said["queues"]} == {
        "long": (True, []),
        "grid": (False, [f"this queue gave it back; until {until} other queues come first"]),
    }
    pass_time(seconds=600)
    said = explained(client_of(sample.alice), job)
    assert "gave it back" not in said["summary"]
    assert all(each["fits"] for each in said["queues"])


def test_preview_leaves_out_held_back_jobs(sample: SampleData, client_of: ClientOf, bad: Pilot) -> None:
    other = factories.make_queue(ce=factories.make_ce(site=factories.make_site(name="S.OTHER"), name="ce2"))
    job = of_alice(sample)
    given_back(job, bad)

    def chance(queue: Queue) -> float:
        place = {"site": str(queue.ce.site), "ce": str(queue.ce), "queue": str(queue)}
        offer: dict[str, Any] = {"vo": sample.vo.name, "cpu_time_s": 300_000, **place}
        answer = client_of(sample.mallory).post("/api/v1/matches/preview/", offer, format="json")
        assert answer.status_code == 200, answer.content
        (found,) = answer.json()["task_queues"]
        assert found["jobs"] == 1
        return float(found["chance"])

    assert bad.queue is not None
    assert [chance(bad.queue), chance(other)] == [0, 0]
    pass_time(seconds=DELAY_S)
    assert [chance(bad.queue), chance(other)] == [0, 1]
    pass_time(seconds=600)
    assert [chance(bad.queue), chance(other)] == [1, 1]
