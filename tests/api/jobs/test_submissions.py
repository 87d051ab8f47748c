"""GET /api/v1/submissions/ and one of them, and GET /api/v1/jobs/failures/."""

from collections.abc import Callable
from uuid import uuid4

from rest_framework.test import APIClient

from tests.api.jobs.conftest import SampleData
from tests.factories import make_job, make_submission
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

Clients = Callable[[User], APIClient]


def submit(client: APIClient, **description: object) -> str:
    answer = client.post("/api/v1/jobs/", {"executable": "run.sh", **description}, format="json")
    assert answer.status_code == 201, answer.json()
    return str(answer.json()["job_group_id"])


def test_a_submission_is_listed_with_its_jobs_by_status(sample: SampleData, alice: APIClient) -> None:
    first = submit(alice, job_name="one", job_group="sims")
    many = submit(alice, job_name="sim-%n", parameters={"values": ["a", "b", "c"]})
    job = Job.objects.filter(submission_id=many).order_by("pk")[0]
    assert alice.post(f"/api/v1/jobs/{job.pk}/kill/").status_code == 200
    newest, oldest = alice.get("/api/v1/submissions/").json()["results"]
    assert (newest["job_group_id"], oldest["job_group_id"]) == (many, first)
    assert newest["jobs"] == {"Waiting": 2, "Killed": 1}
    assert (newest["first_job_id"], newest["last_job_id"]) == (job.pk, job.pk + 2)
    assert newest["job_name"] == "sim-*"
    assert (oldest["job_name"], oldest["job_group"], oldest["owner"], oldest["group"]) == (
        *("one", "sims", "alice", "lhcb_user"),
    )


def test_pages_of_submissions_have_no_gap(sample: SampleData, alice: APIClient) -> None:
    submitted = [submit(alice) for _ in range(5)]
    found, address = [], "/api/v1/submissions/?page_size=2"
    while address:
        page = alice.get(address).json()
        found += [row["job_group_id"] for row in page["results"]]
        address = page["next"]
    assert found == submitted[::-1]
    page = alice.get("/api/v1/submissions/?page_size=2").json()
    page = alice.get(alice.get(page["next"]).json()["previous"]).json()
    assert [row["job_group_id"] for row in page["results"]] == [submitted[4], submitted[3]]


def test_the_list_has_own_submissions_only(sample: SampleData, alice: APIClient, client_of: Clients) -> None:
    submitted = submit(alice, group="lhcb_prod")
    for other in (sample.bob, sample.mallory, sample.olga):
        client = client_of(other)
        assert client.get("/api/v1/submissions/").json()["results"] == []
        assert client.get(f"/api/v1/submissions/{submitted}/").status_code == 200
    assert client_of(sample.charlie).get(f"/api/v1/submissions/{submitted}/").status_code == 404
    missing = alice.get(f"/api/v1/submissions/{uuid4()}/")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


def test_one_submission_has_the_places_of_its_jobs_and_its_warnings(sample: SampleData, alice: APIClient) -> None:
    jdl = 'Executable = "run.sh"; LogLevel = "DEBUG";'
    body = {"jdl": jdl, "request_id": str(uuid4())}
    submitted = alice.post("/api/v1/jobs/", body, format="json").json()
    make_job(
        owner=sample.alice,
        group=sample.users,
        submission=Job.objects.get(submission=submitted["job_group_id"]).submission,
        status=JobStatus.DONE,
        site=sample.cern,
    )
    answer = alice.get(f"/api/v1/submissions/{submitted['job_group_id']}/").json()
    assert answer["places"] == [
        {"site": "LCG.CERN.ch", "status": "Done", "jobs": 1},
        {"site": None, "status": "Waiting", "jobs": 1},
    ]
    assert answer["warnings"] == submitted["warnings"] != []
    assert answer["outputs"] == 0


def test_failures_are_grouped_by_reason_and_exit_code(sample: SampleData, alice: APIClient) -> None:
    submission = make_submission(owner=sample.alice, group=sample.users)

    def failed(reason: str, exit_code: int | None, status: JobStatus = JobStatus.FAILED) -> Job:
        job = make_job(owner=sample.alice, group=sample.users, submission=submission, status=status, site=sample.cern)
        Job.objects.filter(pk=job.pk).update(minor_status=reason, exit_code=exit_code)
        return job

    failed("cannot open /data/1.root", 2)
    newest = failed("cannot open /data/2.root", 2)
    failed("Job stalled", None)
    failed("killed by its owner", None, JobStatus.KILLED)
    found = alice.get("/api/v1/jobs/failures/").json()
    assert (found["jobs"], found["is_whole"], found["group_count"]) == (3, True, 2)
    largest, smallest = found["groups"]
    assert (largest["jobs"], largest["exit_code"], largest["pattern"]) == (2, 2, "cannot open *")
    assert largest["places"] == [{"site": "LCG.CERN.ch", "host": "", "jobs": 2}]
    assert largest["example"]["id"] == newest.pk
    assert largest["example"]["minor_status"] == "cannot open /data/2.root"
    assert (smallest["reason"], smallest["exit_code"]) == ("Job stalled", None)
    narrowed = alice.get("/api/v1/jobs/failures/", {"exit_code": "2"}).json()
    assert narrowed["group_count"] == 1
    killed = alice.get("/api/v1/jobs/failures/", {"status": "Killed"}).json()
    assert [group["reason"] for group in killed["groups"]] == ["killed by its owner"]


def test_failures_of_strangers_are_not_counted(sample: SampleData, client_of: Clients) -> None:
    make_job(owner=sample.alice, group=sample.users, status=JobStatus.FAILED)
    assert client_of(sample.charlie).get("/api/v1/jobs/failures/").json()["groups"] == []
    assert client_of(sample.mallory).get("/api/v1/jobs/failures/").json()["jobs"] == 1


def test_a_misspelt_filter_of_failures_is_refused(alice: APIClient) -> None:
    answer = alice.get("/api/v1/jobs/failures/", {"sit": "x"})
    assert answer.status_code == 400
    assert 'mean "site"' in str(answer.json()["errors"]["sit"])
