"""Comparison of the amounts that jobs ask for with those that the last jobs of their name used."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from tests import factories
from tests.api.jobs.conftest import SampleData
from wms.jobs.domain.asked_and_used import LEAST_JOBS, AskedAmounts, UsedAmounts, compared, stem_of
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

JOBS, REHEARSAL = "/api/v1/jobs/", "/api/v1/jobs/rehearsal/"
LAST: dict[str, Any] = {"executable": "simulate", "job_name": "scan-%n", "parameters": {"count": 12}}


def ended(alice: APIClient, *, cpu_s: float = 600, memory_mb: float | None = 900, **fields: object) -> None:
    jobs = alice.post(JOBS, {**LAST, **fields}, format="json").json()["jobs"]
    Job.objects.filter(pk__in=[job["id"] for job in jobs]).update(
        status=JobStatus.DONE, cpu_s=cpu_s, max_memory_mb=memory_mb, ended_at=factories.NOW
    )


def told(alice: APIClient, **fields: object) -> list[str]:
    body = {**LAST, "cpu_time_s": 86_400, **fields}
    answers = [alice.post(path, body, format="json").json() for path in (REHEARSAL, JOBS)]
    found = [
        [each for each in answer["findings"] if each["field"] in ("cpu_time_s", "memory_mb")] for answer in answers
    ]
    assert found[0] == found[1]
    assert all(not each["surely_fails"] for each in found[0])
    return [f"{each['sentence']} {each['cure']}" for each in found[0]]


def test_far_more_than_was_used_is_told_in_dry_run_and_submission(sample: SampleData, alice: APIClient) -> None:
    ended(alice)
    assert told(alice, memory_mb=16_000) == [
        (
            "It asks for 24 h of CPU time; the last 12 jobs of this name used at most 10 min. "
            "Ask for 20 min: shorter queues fit, too, and more pilots take it."
        ),
        (
            "It asks for 16000 MB of memory; the last 12 jobs of this name used at most 900 MB. "
            "Ask for 2000 MB: more pilots have as much."
        ),
    ]


def test_less_memory_than_was_used_is_told(sample: SampleData, alice: APIClient) -> None:
    ended(alice, memory_mb=3100.4)
    assert told(alice, cpu_time_s=3000, memory_mb=2000) == [
        (
            "It asks for 2000 MB of memory; the last 12 jobs of this name used up to 3100 MB. "
            "Ask for 3500 MB: a job that uses more than it asks for may be ended."
        )
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"cpu_time_s": 3000},
        {"cpu_time_s": 5000, "processors": 1},
        {"job_name": "other-%n"},
        {"job_name": ""},
        {"cpu_time_s": 5000, "memory_mb": 3000},
    ],
)
def test_nothing_is_told_of_other_jobs(sample: SampleData, alice: APIClient, fields: dict[str, object]) -> None:
    ended(alice)
    assert told(alice, **fields) == []


def test_jobs_of_others_and_jobs_that_are_not_done_tell_nothing(
    sample: SampleData, alice: APIClient, client_of: Any
) -> None:
    ended(client_of(sample.dora))
    ended(alice)
    Job.objects.filter(owner=sample.alice).update(status=JobStatus.FAILED)
    assert told(alice) == []


@pytest.mark.parametrize(
    ("names", "stem"),
    [
        (["scan-7"], "scan-7"),
        (["scan-7", "scan-7"], "scan-7"),
        (["scan-10", "scan-11"], "scan-"),
        (["a-up", "a-down"], "a-"),
        (["x", "y"], ""),
    ],
)
def test_the_stem_is_that_of_the_submission(sample: SampleData, alice: APIClient, names: list[str], stem: str) -> None:
    assert stem_of(names) == stem
    jobs = [{"executable": "simulate", "job_name": name} for name in names]
    alice.post(JOBS, {"jobs": jobs}, format="json")
    assert Job.objects.latest("pk").submission.content.name_prefix == stem


def test_cpu_time_is_that_of_one_processor_and_few_jobs_tell_nothing() -> None:
    used = UsedAmounts(jobs=LEAST_JOBS, cpu_s=4 * 7200, memory_mb=0)
    assert list(compared(AskedAmounts(10 * 7200 - 1, 0, 4), used)) == []
    (found,) = compared(AskedAmounts(10 * 7200, 0, 4), used)
    assert "used at most 2 h" in found.sentence
    assert list(compared(AskedAmounts(10 * 7200, 0, 4), used._replace(jobs=LEAST_JOBS - 1))) == []
