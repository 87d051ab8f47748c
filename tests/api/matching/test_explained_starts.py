"""The predicted start in the explanation of waiting jobs, in words and over REST, for their owner and for others."""

from datetime import timedelta

import pytest

from matching.domain.sentences import worded
from matching.models import Match
from matching.queries.explain.explanation import explain_selection
from pilots.models import Pilot
from taskqueues.services import priorities
from tests import factories
from tests.api.matching.conftest import ClientOf, SampleData
from tests.api.matching.test_explain import explained, of_alice
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.filters import JobFilterSet
from wms.jobs.models import Job
from wms.kernel.db import database_now

#: Seconds that every payload runs.
RUN_S = 1500


@pytest.fixture
def waiting(sample: SampleData) -> list[Job]:
    """Return thirty waiting jobs of Alice, for three pilots that have run her jobs for hours, one after another."""
    now = database_now()
    Pilot.objects.all().delete()
    for number in range(3):
        pilot = factories.make_pilot(vo=sample.vo, queue=sample.queue)
        begun_at = now - timedelta(seconds=500 * number + 100)
        for earlier in range(12):
            leased_at = begun_at - timedelta(seconds=RUN_S * earlier)
            factories.make_match(
                job=of_alice(sample, status=JobStatus.DONE if earlier else JobStatus.RUNNING),
                pilot=pilot,
                leased_at=leased_at,
                ended_at=leased_at + timedelta(seconds=RUN_S) if earlier else None,
            )
    Match.objects.update(queue=sample.queue)
    jobs = [of_alice(sample) for _ in range(30)]
    priorities.recalculate()
    return jobs


def test_the_range_follows_from_the_place_in_the_line_and_the_turnover_of_the_pilots(
    waiting: list[Job], sample: SampleData, client_of: ClientOf
) -> None:
    alice = client_of(sample.alice)
    said = explained(alice, waiting[-1])
    # Thirty jobs with three at a time: the last waits for ten ends of each, less what has run.
    start = said["start_s"]
    assert start["least"] < 30 / 3 * RUN_S < start["most"] <= 3 * start["least"]
    in_words = "Next in line at 1 queue; 3 pilots run there, all busy with your jobs; 30 of yours wait for them."
    assert said["summary"].startswith(f"{in_words} It should start in 2 h")
    assert explained(alice, waiting[19])["start_s"]["most"] < start["most"]
    to_a_mate = explained(client_of(sample.bob), waiting[-1])["summary"]
    assert "3 pilots run there, all busy with jobs of alice; 30 jobs of alice wait for them." in to_a_mate


def test_jobs_of_others_and_idle_pilots_change_the_sentence(
    waiting: list[Job], sample: SampleData, client_of: ClientOf
) -> None:
    alice = client_of(sample.alice)
    before = explained(alice, waiting[-1])["start_s"]
    other = factories.make_group(vo=sample.vo, priority=sample.prod.priority * 3, shares_jobs=True)
    owner = factories.make_user(groups=[other])
    for _ in range(60):
        factories.make_job(group=other, owner=owner)
    priorities.recalculate()
    said = explained(alice, waiting[-1])
    assert said["summary"].startswith("In line at 1 queue, behind 1 task queue of lhcb, with 25 % of the priorities of")
    # Three of four matches are theirs until their jobs have gone.
    assert said["start_s"]["least"] > 1.5 * before["least"]
    factories.make_pilot(vo=sample.vo, queue=sample.queue)
    assert (
        "; 1 of 4 pilots there has no job and asks for one soon. It should" in explained(alice, waiting[-1])["summary"]
    )


def test_of_a_selection_the_first_and_the_last_are_estimated(waiting: list[Job], sample: SampleData) -> None:
    found = explain_selection(JobFilterSet({"status": "Waiting"}), by=sample.alice, now=database_now())
    (task_queue,) = found.task_queues
    assert task_queue.explanation.findings is not None
    first, last = task_queue.explanation.findings.starts
    assert last is not None
    assert first is None or first.most_s < last.least_s
    assert " in 2 h" in worded(task_queue.explanation, reader="alice").summary


def test_a_list_is_explained_over_rest_by_task_queue(
    waiting: list[Job], sample: SampleData, client_of: ClientOf
) -> None:
    nowhere = of_alice(sample, memory_mb=64_000)
    priorities.recalculate()
    alice = client_of(sample.alice)
    found = alice.get("/api/v1/jobs/explain/?owner=alice").json()
    assert (found["jobs"], found["has_more"], found["further_task_queues"]) == (31, False, 0)
    many, one = found["task_queues"]
    assert (many["jobs"], many["example"], many["owner"]) == (30, waiting[0].pk, "alice")
    assert "all busy with your jobs; 30 of yours wait for them. " in many["summary"]
    assert many["last_start_s"]["least"] > 3600
    assert (one["example"], one["first_start_s"]) == (nowhere.pk, None)
    assert one["advice"] == ["With 4000 MB of memory instead of 64000 MB it would fit 1 queue: LCG.CERN.ch."]
    ids = f"{waiting[3].pk}-{waiting[5].pk}"
    assert [each["jobs"] for each in alice.get(f"/api/v1/jobs/explain/?id={ids}").json()["task_queues"]] == [3]
    assert client_of(factories.make_user()).get("/api/v1/jobs/explain/").json()["task_queues"] == []


def test_nothing_is_estimated_where_no_job_has_ended(sample: SampleData, client_of: ClientOf) -> None:
    Pilot.objects.all().delete()
    factories.make_match(pilot=factories.make_pilot(vo=sample.vo, queue=sample.queue))
    Match.objects.update(queue=sample.queue)
    said = explained(client_of(sample.alice), of_alice(sample))
    assert said["summary"].endswith("; 1 pilot runs there, busy with other jobs. No estimate yet.")
    assert said["start_s"] is None
