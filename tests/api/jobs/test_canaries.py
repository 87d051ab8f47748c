"""Canaries: the first jobs of a submission run, while its other jobs are Held until these are Done (ADR 118)."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from rest_framework.test import APIClient

from resources.models import Queue
from taskqueues.models import QueuedJob
from tests import factories
from tests.api.jobs.conftest import SampleData
from wms.jobs.domain.canaries import MAX_CANARIES, at_each_site, reason_of
from wms.jobs.domain.lifecycle import FINAL, JobStatus
from wms.jobs.models import Job, JobHistory, SubmissionCanary
from wms.jobs.services import canaries, counting
from wms.jobs.tasks import decide_canaries
from wms.kernel.clock import current_time

JOBS, REHEARSAL = "/api/v1/jobs/", "/api/v1/jobs/rehearsal/"
DONE, FAILED, HELD, WAITING = JobStatus.DONE, JobStatus.FAILED, JobStatus.HELD, JobStatus.WAITING


def submitted(alice: APIClient, *, canary: object, jobs: int = 4, **fields: object) -> list[dict[str, Any]]:
    body = {"executable": "simulate", "cpu_time_s": 500, "parameters": {"count": jobs}, "canary": canary, **fields}
    answer = alice.post(JOBS, body, format="json")
    assert answer.status_code == 201, answer.json()
    return list(answer.json()["jobs"])


def become(job_id: int, status: JobStatus) -> None:
    QueuedJob.objects.filter(job_id=job_id).delete()
    Job.objects.filter(pk=job_id).update(
        status=status, minor_status="", ended_at=factories.NOW if status in FINAL else None
    )


def decided(*, minutes: int = 1) -> int:
    return canaries.decide_due(now=current_time() + timedelta(minutes=minutes))


def statuses() -> list[str]:
    return list(Job.objects.order_by("pk").values_list("status", flat=True))


def reasons() -> set[str]:
    return set(Job.objects.filter(status=HELD).values_list("minor_status", flat=True))


@pytest.mark.parametrize("number", [1, 2])
def test_the_others_are_held_until_the_canaries_are_done(sample: SampleData, alice: APIClient, number: int) -> None:
    jobs = submitted(alice, canary=number)
    ids = [job["id"] for job in jobs]
    assert [job["status"] for job in jobs] == [WAITING] * number + [HELD] * (4 - number)
    assert [job["task_queue"] is None for job in jobs] == [False] * number + [True] * (4 - number)
    assert statuses() == [job["status"] for job in jobs]
    assert set(QueuedJob.objects.values_list("job_id", flat=True)) == set(ids[:number])
    named = f"job {ids[0]} is" if number == 1 else f"jobs {ids[0]} and {ids[1]} are"
    assert reasons() == {f"Held until canary {named} Done"}
    assert f"Held until canary {named} Done" in str(alice.get(f"{JOBS}{ids[-1]}/explain/").json())
    for minutes, canary in enumerate(ids[:number], start=1):
        assert decided(minutes=minutes) == 0
        become(canary, DONE)
    assert decided(minutes=number + 1) == 4 - number
    assert statuses() == [DONE] * number + [WAITING] * (4 - number)
    assert QueuedJob.objects.count() == 4 - number
    last = JobHistory.objects.filter(job=ids[-1]).order_by("pk").last()
    assert last is not None
    assert (last.minor_status, last.source) == ("Released by its canary", "canary")
    assert not SubmissionCanary.objects.exists()


def test_jobs_stay_held_when_a_canary_fails_until_it_is_done_after_all(sample: SampleData, alice: APIClient) -> None:
    first, *_ = submitted(alice, canary=1)
    become(first["id"], FAILED)
    assert decided() == 0
    assert reasons() == {f"Canary job {first['id']} is Failed: release these jobs, or kill them"}
    become(first["id"], JobStatus.RUNNING)
    assert decided(minutes=2) == 0
    assert reasons() == {f"Held until canary job {first['id']} is Done"}
    become(first["id"], DONE)
    assert decided(minutes=3) == 3
    assert statuses() == [DONE, WAITING, WAITING, WAITING]


def test_what_a_person_decides_is_kept(sample: SampleData, alice: APIClient) -> None:
    first, released, held, _ = (job["id"] for job in submitted(alice, canary=1))
    alice.post(f"{JOBS}{released}/release/")
    alice.post(f"{JOBS}{held}/release/")
    alice.post(f"{JOBS}{held}/hold/", {"reason": "not this one"}, format="json")
    become(first, DONE)
    assert decided() == 1
    assert statuses() == [DONE, WAITING, HELD, WAITING]
    assert reasons() == {"not this one"}


def test_the_row_goes_when_none_is_held_for_it_any_more(sample: SampleData, alice: APIClient) -> None:
    first, *others = (job["id"] for job in submitted(alice, canary=1))
    become(first, FAILED)
    decided()
    for job in others:
        alice.post(f"{JOBS}{job}/kill/")
    decided(minutes=2)
    assert not SubmissionCanary.objects.exists()


def test_a_removed_canary_is_told(sample: SampleData, alice: APIClient) -> None:
    first, *_ = submitted(alice, canary=1)
    become(first["id"], JobStatus.DELETED)
    decided()
    assert reasons() == {f"Canary job {first['id']} is Deleted: release these jobs, or kill them"}


def test_it_is_looked_at_every_ten_seconds_only(sample: SampleData, alice: APIClient) -> None:
    first, *_ = submitted(alice, canary=1)
    become(first["id"], DONE)
    decide_canaries()
    assert statuses()[1] == HELD
    SubmissionCanary.objects.update(due_at=current_time())
    decide_canaries()
    assert statuses()[1] == WAITING


def test_one_job_runs_at_each_site_that_the_jobs_fit(sample: SampleData, alice: APIClient) -> None:
    factories.make_queue(ce=factories.make_ce(site=sample.ral))
    elsewhere = factories.make_site(name="LCG.PIC.es", vos=[sample.vo])
    factories.make_queue(ce=factories.make_ce(site=elsewhere), cpu_time_s=100)
    jobs = submitted(alice, canary="sites")
    assert [job["status"] for job in jobs] == [WAITING, WAITING, HELD, HELD]
    sites = [job.description["sites"] for job in Job.objects.with_description().order_by("pk")]
    assert sites == [["LCG.CERN.ch"], ["LCG.RAL.uk"], [], []]


def test_a_repeated_request_gets_the_same_answer(sample: SampleData, alice: APIClient) -> None:
    request_id = str(uuid4())
    jobs = submitted(alice, canary="sites", request_id=request_id)
    Queue.objects.all().delete()
    assert submitted(alice, canary="sites", request_id=request_id) == jobs
    assert Job.objects.count() == 4


@pytest.mark.parametrize("canary", [None, 0, 4, 9])
def test_nothing_is_held_where_all_are_canaries_or_none_is(
    sample: SampleData, alice: APIClient, canary: object
) -> None:
    submitted(alice, canary=canary)
    assert statuses() == [WAITING] * 4
    assert not SubmissionCanary.objects.exists()


@pytest.mark.parametrize("canary", [-1, MAX_CANARIES + 1, "1", "site", True, 1.0, [1]])
def test_other_values_are_refused(sample: SampleData, alice: APIClient, canary: object) -> None:
    for path in (JOBS, REHEARSAL):
        answer = alice.post(path, {"executable": "simulate", "canary": canary}, format="json")
        assert answer.status_code == 400
        assert answer.json()["errors"]["canary"][0].startswith("canary must be a number of jobs from 0 to 100, or")
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("canary", "fields", "sentence"),
    [
        ("sites", {"tags": ["nowhere"]}, "No site takes these jobs at present"),
        (1, {"input_data": ["/lhcb/a", "/lhcb/b"]}, "Jobs that wait for their input data cannot be held"),
    ],
)
def test_jobs_that_cannot_begin_so_are_refused(
    sample: SampleData, alice: APIClient, canary: object, fields: dict[str, object], sentence: str
) -> None:
    for lfn, site in (("/lhcb/a", sample.cern), ("/lhcb/b", sample.ral)):
        factories.make_replica(lfn, vo=sample.vo, storage_element=factories.make_storage_element(sites=[site]))
    body = {"executable": "simulate", "parameters": {"count": 2}, "canary": canary, **fields}
    for path in (REHEARSAL, JOBS):
        answer = alice.post(path, body, format="json")
        assert answer.status_code == 400
        assert answer.json()["errors"]["canary"][0].startswith(sentence)
    assert not Job.objects.exists()


def test_the_form_has_the_switch_and_the_page_of_the_submission_says_what_is_held(
    sample: SampleData, client: Client
) -> None:
    client.force_login(sample.alice)
    form = {
        "executable": "simulate", "cpu_time_s": "500 s", "priority": "1", "processors": "1", "count": "3",
        "request_id": str(uuid4()),
    }  # fmt: skip
    converted = client.post("/jobs/submit/", {**form, "canary": "1", "action": "show-jdl"})
    assert '<option value="1" selected>one job first</option>' in converted.content.decode()
    page = client.post("/jobs/submit/", {**form, "canary": "1"}, follow=True).content.decode()
    first = Job.objects.earliest("pk")
    assert f"Held until canary job {first.pk} is Done." in page
    assert f'href="/jobs/{first.pk}/"' in page
    become(first.pk, FAILED)
    counting.add_changes()
    failed = client.get(f"/submissions/{first.submission_id}/").content.decode()
    assert "2 jobs are held, and nothing else remains to be done." in failed
    refused = client.post("/jobs/submit/", {**form, "canary": "7"})
    assert "canary" in refused.context["form"].errors


@pytest.mark.parametrize(
    ("kinds", "chosen"),
    [
        ([([0, 1, 2], ["A", "B"])], {0: "A", 1: "B"}),
        ([([0], ["A", "B"]), ([1, 2], ["A", "B"])], {0: "A", 1: "B"}),
        ([([0, 1], ["A"]), ([2], ["B", "C"]), ([3], ["C"])], {0: "A", 2: "B", 3: "C"}),
        ([([0, 1], [])], {}),
    ],
)
def test_each_site_gets_one_job(kinds: list[tuple[list[int], list[str]]], chosen: dict[int, str]) -> None:
    assert at_each_site(kinds) == chosen


def test_at_most_a_hundred_sites_get_one() -> None:
    sites = [f"S{number}" for number in range(200)]
    assert len(at_each_site([(range(60), sites), (range(60, 300), sites)])) == MAX_CANARIES


def test_a_reason_names_few_jobs() -> None:
    ids = [1, 2, 3, 4, 5]
    assert reason_of(ids, dict.fromkeys(ids, DONE)) == ""
    assert reason_of(ids, dict.fromkeys(ids, WAITING)) == "Held until canary jobs 1, 2, 3 and 2 more are Done"
    some = {**dict.fromkeys(ids, DONE), 2: FAILED, 3: JobStatus.KILLED}
    assert reason_of(ids, some) == "Canary jobs 2 and 3 did not become Done: release these jobs, or kill them"
