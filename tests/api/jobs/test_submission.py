"""POST /api/v1/jobs/: accepted bodies and their answers."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from rest_framework.test import APIClient

from taskqueues.models import QueuedJob, SubmitPool, TaskQueue
from tests import factories
from tests.api.jobs.conftest import SampleData
from wms.accounts.models import User
from wms.jobs.domain.description import MAX_CPU_TIME_S
from wms.jobs.models import InputSandbox, Job, JobHistory, Sandbox, SandboxUpload, Submission
from wms.wire.amounts import AMOUNT

JOBS = "/api/v1/jobs/"


def test_a_submitted_job_waits_in_its_task_queue(alice: APIClient, sample: SampleData) -> None:
    response = alice.post(JOBS, {"executable": "run", "sites": ["LCG.CERN.ch"], "priority": 7}, format="json")

    assert response.status_code == 201
    answer = response.json()
    assert set(answer) == {"job_group_id", "jobs", "warnings", "findings"}
    assert answer["warnings"] == []
    [submitted] = answer["jobs"]
    job = Job.objects.get()
    queued = QueuedJob.objects.get()
    assert submitted == {"id": job.pk, "status": "Waiting", "task_queue": queued.task_queue_id}
    assert (job.owner, job.group, job.vo, job.status) == (sample.alice, sample.users, sample.vo, "Waiting")
    assert (queued.job_id, queued.user_priority) == (job.pk, 7)
    assert job.description["setup"] == "LHCb-Production"
    assert str(job.submission_id) == answer["job_group_id"]
    queue = queued.task_queue
    assert (queue.sites, queue.cpu_time_s, queue.setup) == (["LCG.CERN.ch"], 300000, "LHCb-Production")


def test_the_history_begins_with_received_and_waiting(alice: APIClient) -> None:
    alice.post(JOBS, {"executable": "run"}, format="json")

    lines = JobHistory.objects.order_by("pk").values_list("status", "source")
    assert list(lines) == [("Received", "alice"), ("Waiting", "alice")]


def test_the_largest_values_that_are_accepted_can_be_kept(alice: APIClient) -> None:
    """Memory is rounded up for the task queue, whose column ends where that of the description does."""
    largest = {name: AMOUNT[name].most for name in ("memory_mb", "processors")}
    largest |= {"cpu_time_s": MAX_CPU_TIME_S, "priority": 10}
    assert alice.post(JOBS, {"executable": "run", **largest}, format="json").status_code == 201
    assert TaskQueue.objects.get().memory_mb == AMOUNT["memory_mb"].most
    refused = alice.post(JOBS, {"executable": "run", "memory_mb": AMOUNT["memory_mb"].most + 1}, format="json")
    assert refused.status_code == 400
    assert list(refused.json()["errors"]) == ["memory_mb"]


def test_a_jdl_is_the_same_job_as_its_json(alice: APIClient) -> None:
    jdl = '[ Executable = "run"; Site = {"LCG.CERN.ch"}; CPUTime = 3600; JobName = "mine"; ]'
    alice.post(JOBS, {"jdl": jdl}, format="json")
    alice.post(
        JOBS,
        {"executable": "run", "sites": ["LCG.CERN.ch"], "cpu_time_s": 3600, "job_name": "mine"},
        format="json",
    )

    first, second = Job.objects.order_by("pk")
    assert first.description == second.description
    assert TaskQueue.objects.count() == 1


def test_a_list_of_descriptions_and_jdl_is_one_submission(alice: APIClient) -> None:
    body = {
        "jobs": [
            {"executable": "one.sh"},
            {"jdl": 'Executable = "two.sh"; CPUTime = 100;'},
            {"executable": "three.sh", "parameters": {"values": ["a", "b"]}, "arguments": "%s"},
        ]
    }
    answer = alice.post(JOBS, body, format="json").json()

    assert Submission.objects.count() == 1
    jobs = Job.objects.order_by("pk")
    assert [job["id"] for job in answer["jobs"]] == [job.pk for job in jobs]
    assert [job.description["executable"] for job in jobs] == ["one.sh", "two.sh", "three.sh", "three.sh"]
    assert [job.description["arguments"] for job in jobs] == ["", "", "a", "b"]


def test_a_parametric_job_can_name_its_id(alice: APIClient) -> None:
    body = {"executable": "run", "arguments": "%n %j 100%%", "parameters": {"count": 3}}
    alice.post(JOBS, body, format="json")

    assert [job.description["arguments"] for job in Job.objects.order_by("pk")] == [
        f"{number} {job.pk} 100%" for number, job in enumerate(Job.objects.order_by("pk"))
    ]


def test_a_percent_sign_of_a_single_job_stays(alice: APIClient) -> None:
    alice.post(JOBS, {"executable": "date", "arguments": "+%s%%%%j"}, format="json")

    assert Job.objects.get().description["arguments"] == "+%s%%%j"


@pytest.mark.parametrize(
    "body",
    [
        {"executable": "run", "group": "lhcb_prod"},
        {"jdl": 'Executable = "run"; OwnerGroup = "lhcb_prod";'},
        {"jobs": [{"executable": "a"}, {"jdl": 'Executable = "b"; OwnerGroup = "lhcb_prod";'}]},
    ],
)
def test_a_job_is_submitted_in_the_named_group(alice: APIClient, sample: SampleData, body: dict[str, object]) -> None:
    assert alice.post(JOBS, body, format="json").status_code == 201
    assert set(Job.objects.values_list("group__name", flat=True)) == {"lhcb_prod"}


def test_an_input_sandbox_is_given_under_the_name_of_its_upload(alice: APIClient, sample: SampleData) -> None:
    digest = "ab" * 32
    sandbox = Sandbox.objects.create(digest=digest, size_bytes=1, is_archive=False, created_at=factories.NOW)
    SandboxUpload.objects.create(sandbox=sandbox, owner=sample.alice, file_name="data.txt", uploaded_at=factories.NOW)
    body = {"executable": "run.sh", "input_sandbox": [f"sha256:{digest}"], "parameters": {"count": 2}}

    assert alice.post(JOBS, body, format="json").status_code == 201
    given = InputSandbox.objects.values_list("file_name", "sandbox__digest")
    assert list(given) == [("data.txt", digest)] * 2


def test_equal_requirements_register_one_submit_pool(alice: APIClient, sample: SampleData) -> None:
    sample.cern.parameters = {"SoftwareTag": ["v1", "v2"]}
    sample.cern.save()
    jobs = [{"executable": "run", "requirements": {name: ["v1"]}} for name in ("SoftwareTag", "softwaretag")]

    answer = alice.post(JOBS, {"jobs": jobs}, format="json").json()
    pool = SubmitPool.objects.get()
    assert pool.queues.count() == 1
    assert answer["warnings"] == []
    assert [job.submit_pools for job in Job.objects.all()] == [[pool.pk]] * 2
    assert TaskQueue.objects.get().submit_pools == [pool.pk]


def test_requirements_that_no_queue_offers_are_accepted_with_a_warning(alice: APIClient, sample: SampleData) -> None:
    sample.cern.parameters = {"Memory": 1000}
    sample.cern.save()
    jobs = [
        {"executable": "a", "tags": ["quantum", "gpu"]},
        {"executable": "b", "submit_pools": ["nowhere"]},
        {"executable": "c", "cpu_time_s": 400_000},
        {"executable": "d", "requirements": {"Memory": 8000}},
        {"executable": "e", "output_data": ["file"]},
    ]
    response = alice.post(JOBS, {"jobs": jobs}, format="json")

    assert response.status_code == 201
    of_all = ("no pilot gets 3 of the 5 waiting jobs",)
    words = [("output_data",), ("400000", "300000"), of_all, ("quantum",), ("nowhere",), ("Memory", "8000")]
    warnings = response.json()["warnings"]
    assert len(warnings) == len(words)
    for warning, expected in zip(warnings, words, strict=True):
        assert all(word in warning for word in expected)


def test_a_grid_middleware_that_no_computing_element_has_is_warned_of(alice: APIClient, sample: SampleData) -> None:
    job = {"executable": "a", "grid_middlewares": ["Local", "ARX"]}
    sample.cern.ces.update(middleware="ARC")
    warnings = alice.post(JOBS, {"jobs": [job]}, format="json").json()["warnings"]
    assert [warning.partition(";")[0] for warning in warnings] == [
        'No computing element has the grid middleware "ARX" today',
        'No computing element has the grid middleware "Local" today',
    ]
    assert warnings[0].endswith('Did you mean "arc"?')
    sample.cern.ces.update(middleware="")
    job["grid_middlewares"] = ["Local"]
    assert alice.post(JOBS, {"jobs": [job]}, format="json").json()["warnings"] == []


def test_a_job_type_that_no_queue_accepts_is_warned_of(alice: APIClient, sample: SampleData) -> None:
    queue = sample.cern.ces.get().queues.get()
    queue.job_types = ["MCSimulation"]
    queue.save()

    [warning] = alice.post(JOBS, {"executable": "a"}, format="json").json()["warnings"]
    assert "it is of the type User" in warning


def test_a_repeated_submission_returns_the_first_answer(
    alice: APIClient, sample: SampleData, everything: Callable[[], object]
) -> None:
    body = {"executable": "run", "tags": ["quantum"], "request_id": str(uuid4())}
    first = alice.post(JOBS, body, format="json")
    before = everything()
    # What the first found is no longer so, and the order of names has changed.
    sample.cern.delete()
    again = alice.post(JOBS, dict(reversed(body.items())), format="json")

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert everything() == before


def test_a_request_id_cannot_be_used_for_another_request(
    alice: APIClient, sample: SampleData, everything: Callable[[], object]
) -> None:
    request_id = str(uuid4())
    alice.post(JOBS, {"executable": "run", "request_id": request_id}, format="json")
    before = everything()
    response = alice.post(JOBS, {"executable": "other.sh", "request_id": request_id}, format="json")

    assert response.status_code == 409
    assert response.json()["code"] == "request_id_conflict"
    assert everything() == before


def test_a_request_id_belongs_to_its_owner(
    alice: APIClient, sample: SampleData, client_of: Callable[[User], APIClient]
) -> None:
    body = {"executable": "run", "request_id": str(uuid4())}
    first = alice.post(JOBS, body, format="json")
    second = client_of(sample.bob).post(JOBS, body, format="json")

    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["job_group_id"] != second.json()["job_group_id"]


def test_a_failed_request_does_not_use_up_its_id(alice: APIClient) -> None:
    request_id = str(uuid4())
    assert (
        alice.post(JOBS, {"executable": "a", "setup": "None", "request_id": request_id}, format="json").status_code
        == 400
    )
    assert alice.post(JOBS, {"executable": "a", "request_id": request_id}, format="json").status_code == 201


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"sites": ["LCG.CERN.ch LCG.RAL.uk"]}, "sites"),
        ({"sites": ["LCG.CERN.ch,LCG.RAL.uk"]}, "sites"),
        ({"banned_sites": ["LCG.CERN.ch; LCG.RAL.uk"]}, "banned_sites"),
        ({"grid_ces": ["LCG.CERN.ch LCG.RAL.uk"]}, "grid_ces"),
        ({"platforms": ["LCG.CERN.ch LCG.RAL.uk"]}, "platforms"),
        ({"jdl": 'Site = "LCG.CERN.ch LCG.RAL.uk"; Executable = "a";'}, "sites"),
        ({"jdl": 'Site = { "LCG.CERN.ch, LCG.RAL.uk" }; Executable = "a";'}, "sites"),
        ({"cfg": "Site = LCG.CERN.ch LCG.RAL.uk\nExecutable = a"}, "sites"),
    ],
)
def test_several_names_in_one_text_are_refused_with_a_hint(
    alice: APIClient, body: dict[str, object], field: str
) -> None:
    given = body if body.keys() & {"jdl", "cfg"} else {"executable": "a", **body}
    response = alice.post(JOBS, given, format="json")
    assert response.status_code == 400
    [sentence] = response.json()["errors"][field]
    assert sentence.endswith("A name has no spaces, commas or semicolons; give 2 names: LCG.CERN.ch, LCG.RAL.uk."), (
        sentence
    )
    assert not Job.objects.exists()


def test_sites_with_a_comma_between_them_in_a_jdl_are_two(alice: APIClient) -> None:
    answer = alice.post(JOBS, {"jdl": 'Site = "LCG.CERN.ch, LCG.RAL.uk"; Executable = "a";'}, format="json")
    assert answer.status_code == 201
    assert TaskQueue.objects.get().sites == ["LCG.CERN.ch", "LCG.RAL.uk"]
