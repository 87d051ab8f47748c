"""Wall-clock time, GPUs, disk and containers, from the job description to the lease."""

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests import factories
from tests.api.matching.conftest import ClientOf, SampleData, offer
from tests.cases import quick_cases
from wms.jobs.models import Job

FORMS: dict[str, Callable[[str, str, object], dict[str, object]]] = {
    "json": lambda field, _, value: {"executable": "x", field: value},
    "jdl": lambda _, name, value: {"jdl": f'Executable = "x"; {name} = {_in_jdl(value)};'},
    "cfg": lambda _, name, value: {"cfg": f"Executable = x\n{name} = {value}\n"},
}


def _in_jdl(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


@pytest.mark.parametrize("form", quick_cases(list(FORMS), quick=1))
@pytest.mark.parametrize(
    ("field", "name", "value", "fits", "too_little"),
    [
        # Times and sizes are rounded up to a step: 601 s wait as 1200 s, and 999 MB as 1000.
        ("wall_time_s", "WallTime", 601, {"wall_time_s": 1200}, {"wall_time_s": 1199}),
        ("wall_time_s", "WallTime", 600, {"wall_time_s": 600}, {"wall_time_s": 599}),
        ("gpus", "GPUs", 2, {"gpus": 2}, {"gpus": 1}),
        ("gpus", "NumberOfGPUs", 1, {"gpus": 1}, {}),
        ("disk_mb", "Disk", 999, {"disk_mb": 1000}, {"disk_mb": 999}),
        ("container", "Container", "docker://alma:9", {"container": True}, {}),
    ],
)
def test_a_pilot_gets_the_job_only_when_it_offers_enough(
    sample: SampleData,
    pilot: APIClient,
    client_of: ClientOf,
    form: str,
    field: str,
    name: str,
    value: object,
    fits: dict[str, object],
    too_little: dict[str, object],
) -> None:
    body = FORMS[form](field, name, value)
    answer = client_of(sample.alice).post("/api/v1/jobs/", body, format="json")
    assert answer.status_code == 201, answer.content
    job_id = answer.json()["jobs"][0]["id"]
    assert Job.objects.get(pk=job_id).description[field] == value

    manager = client_of(sample.mallory)
    for said, expected in ((too_little, 0), (fits, 1)):
        found = manager.post("/api/v1/matches/preview/", offer(**said), format="json").json()["task_queues"]
        assert len(found) == expected
    assert pilot.post("/api/v1/matches/", offer(**too_little), format="json").status_code == 204
    lease = pilot.post("/api/v1/matches/", offer(**fits), format="json").json()
    assert (lease["job"]["id"], lease["job"][field]) == (job_id, value)


@pytest.mark.usefixtures("large_slot")
@pytest.mark.parametrize(
    ("described", "said", "expected"),
    [
        ({"gpus": 1}, {"gpus": 1}, 1),
        ({"gpus": 1}, {"gpus": 2}, 2),
        ({"disk_mb": 1000}, {"disk_mb": 1999}, 1),
        ({"disk_mb": 1000}, {"disk_mb": 2000}, 2),
        ({"wall_time_s": 600}, {"wall_time_s": 600}, 2),
        ({"container": "docker://alma:9"}, {"container": True}, 2),
    ],
)
def test_several_jobs_of_one_request_share_the_resources_of_a_node(
    sample: SampleData, pilot: APIClient, described: dict[str, Any], said: dict[str, object], expected: int
) -> None:
    for _ in range(2):
        factories.make_job(owner=sample.alice, group=sample.prod, **described)
    body = offer(processors=8, memory_mb=8000, max_jobs=8, **said)
    assert len(pilot.post("/api/v1/matches/", body, format="json").json()["leases"]) == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("wall_time_s", -1),
        ("wall_time_s", 366 * 86400 + 1),
        ("wall_time_s", "600"),
        ("gpus", -1),
        ("gpus", True),
        ("gpus", 1025),
        ("disk_mb", 1.5),
        ("disk_mb", 2 * 10**9 + 1),
        ("container", "--privileged"),
        ("container", "instance://other"),
        ("container", "../image.sif"),
        ("container", "docker://"),
        ("container", 5),
    ],
)
def test_impossible_values_are_refused_by_field(
    sample: SampleData, client_of: ClientOf, field: str, value: object
) -> None:
    answer = client_of(sample.alice).post("/api/v1/jobs/", {"executable": "x", field: value}, format="json")
    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == [field]
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("described", "words"),
    [
        ({"wall_time_s": 7200}, "requires 7200 s of wall-clock time"),
        ({"gpus": 2}, "requires 2 GPUs"),
        ({"disk_mb": 5000}, "requires 5000 MB of disk space"),
    ],
)
def test_explain_names_requirements_that_no_queue_offers(
    sample: SampleData, client_of: ClientOf, described: dict[str, Any], words: str
) -> None:
    type(sample.queue).objects.filter(pk=sample.queue.pk).update(wall_time_s=3600, gpus=1, disk_mb=1000)
    job = factories.make_job(owner=sample.alice, group=sample.prod, **described)
    said = client_of(sample.alice).get(f"/api/v1/jobs/{job.pk}/explain/").json()
    assert words in said["summary"]
    assert words in " ".join(said["queues"][0]["reasons"])
