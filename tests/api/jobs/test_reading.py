"""Lists, summaries, single jobs, their history and their last lines."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from taskqueues.models import QueuedJob
from tests import factories
from tests.api.jobs.conftest import SampleData
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

JOBS = "/api/v1/jobs/"


def _ids(client: APIClient, query: str) -> list[int]:
    response = client.get(f"{JOBS}?{query}")
    assert response.status_code == 200, response.json()
    return [row["id"] for row in response.json()["results"]]


@pytest.fixture
def jobs(sample: SampleData) -> dict[str, Job]:
    """Return jobs of Alice, one of each kind, oldest first."""
    make = factories.make_job
    return {
        "waiting": make(owner=sample.alice, group=sample.users, job_name="first", job_group="set"),
        "running": make(
            owner=sample.alice,
            group=sample.prod,
            status=JobStatus.RUNNING,
            site=sample.cern,
            job_type="MCSimulation",
            submitted_at=factories.NOW + timedelta(hours=1),
        ),
        "done": make(owner=sample.bob, group=sample.prod, status=JobStatus.DONE, site=sample.ral),
        "deleted": make(owner=sample.alice, group=sample.users, status=JobStatus.DELETED),
    }


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["done", "running", "waiting"]),
        ("ordering=id", ["waiting", "running", "done"]),
        ("ordering=submitted_at", ["waiting", "running", "done"]),
        ("ordering=-submitted_at", ["done", "running", "waiting"]),
        ("status=Waiting", ["waiting"]),
        ("status=waiting,%20RUNNING", ["running", "waiting"]),
        ("status=Deleted", ["deleted"]),
        ("status=Deleted,Done", ["deleted", "done"]),
        ("site=LCG.CERN.ch", ["running"]),
        ("site=LCG.NOWHERE", []),
        ("owner=bob", ["done"]),
        ("group=lhcb_prod", ["done", "running"]),
        ("vo=lhcb", ["done", "running", "waiting"]),
        ("vo=atlas", []),
        ("job_name=first", ["waiting"]),
        ("job_group=set", ["waiting"]),
        ("job_type=MCSimulation", ["running"]),
        ("submitted_after=2026-06-01T13:00:00Z", ["running"]),
        ("submitted_after=2026-06-01T15:00:00%2B02:00", ["running"]),
        ("submitted_before=2026-06-01T13:00:00Z", ["done", "waiting"]),
        ("owner=alice&group=lhcb_prod&status=Running", ["running"]),
    ],
)
def test_filters_narrow_the_list(alice: APIClient, jobs: dict[str, Job], query: str, expected: list[str]) -> None:
    assert _ids(alice, query) == [jobs[name].pk for name in expected]


def test_a_submission_is_found_by_its_job_group_id(alice: APIClient, jobs: dict[str, Job]) -> None:
    assert _ids(alice, f"job_group_id={jobs['running'].submission_id}") == [jobs["running"].pk]


def test_jobs_are_found_by_ids_and_ranges(alice: APIClient, jobs: dict[str, Job]) -> None:
    waiting, running, done = (jobs[name].pk for name in ("waiting", "running", "done"))
    assert _ids(alice, f"id={running}") == [running]
    assert _ids(alice, f"id={done},{waiting}") == [done, waiting]
    assert _ids(alice, f"id={waiting}-{done}") == [done, running, waiting]
    assert _ids(alice, f"id={waiting}-{running},{2**50}&status=running") == [running]
    bulk = alice.post(f"{JOBS}bulk/", {"action": "hold", "filter": {"id": waiting}}, format="json")
    assert bulk.json()["done"] == 1
    for wrong in ("x", "5-", "7-5", "5,,6", ",".join(map(str, range(501)))):
        assert alice.get(f"{JOBS}?id={wrong}").status_code == 400


def test_waiting_jobs_are_found_by_their_task_queue(alice: APIClient, jobs: dict[str, Job]) -> None:
    task_queue = QueuedJob.objects.get(pk=jobs["waiting"].pk).task_queue_id
    assert _ids(alice, f"task_queue={task_queue}") == [jobs["waiting"].pk]
    assert _ids(alice, f"task_queue={task_queue}&status=Running") == _ids(alice, f"task_queue={2**63 - 1}") == []
    assert alice.get(f"{JOBS}?task_queue=x").status_code == 400


def test_pages_follow_one_another_and_keep_the_filter(alice: APIClient, sample: SampleData) -> None:
    submission = factories.make_submission(owner=sample.alice, group=sample.users)
    made = [factories.make_job(submission=submission, job_group="x").pk for _ in range(5)]
    factories.make_job(submission=submission)
    seen: list[int] = []
    url: str | None = f"{JOBS}?page_size=2&job_group=x&ordering=submitted_at"
    while url is not None:
        page = alice.get(url).json()
        seen += [row["id"] for row in page["results"]]
        url = page["next"]

    assert seen == made


def test_a_list_of_thirty_jobs_needs_as_many_queries_as_one(alice: APIClient, sample: SampleData) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert alice.get(JOBS).status_code == 200
        return len(captured)

    queue = sample.cern.ces.get().queues.get()
    factories.make_job(owner=sample.alice, group=sample.users)
    for_one = queries()
    for number in range(29):
        status = JobStatus.RUNNING if number % 2 else JobStatus.WAITING
        factories.make_job(owner=sample.alice, group=sample.users, status=status, site=sample.cern, queue=queue)

    assert queries() == for_one == 2


def test_a_summary_groups_by_the_requested_property(alice: APIClient, jobs: dict[str, Job]) -> None:
    def counted(query: str) -> object:
        return alice.get(f"{JOBS}summary/?{query}").json()["results"]

    assert counted("") == [
        {"status": "Done", "count": 1},
        {"status": "Running", "count": 1},
        {"status": "Waiting", "count": 1},
    ]
    assert counted("group_by=site,owner&group=lhcb_prod") == [
        {"site": "LCG.CERN.ch", "owner": "alice", "count": 1},
        {"site": "LCG.RAL.uk", "owner": "bob", "count": 1},
    ]
    assert counted("group_by=group,job_type,status&owner=alice") == [
        {"group": "lhcb_prod", "job_type": "MCSimulation", "status": "Running", "count": 1},
        {"group": "lhcb_user", "job_type": "User", "status": "Waiting", "count": 1},
    ]
    assert counted("status=deleted&group_by=site") == [{"site": None, "count": 1}]


def test_a_waiting_job_shows_its_queue_and_requirements(alice: APIClient, sample: SampleData) -> None:
    job = factories.make_job(owner=sample.alice, group=sample.users, sites=["LCG.CERN.ch"], priority=3)
    answer = alice.get(f"{JOBS}{job.pk}/").json()

    assert answer["task_queue"] is not None
    assert answer["description"]["sites"] == ["LCG.CERN.ch"]
    assert answer["description"]["cpu_time_s"] == 86400
    expected = {
        "id": job.pk,
        "status": "Waiting",
        "minor_status": "",
        "application_status": "",
        "priority": 3,
        "owner": "alice",
        "group": "lhcb_user",
        "vo": "lhcb",
        "site": None,
        "ce": None,
        "queue": None,
        "pilot": None,
        "reschedules": 0,
        "exit_code": None,
        "ended_at": None,
        "job_group_id": str(job.submission_id),
        "submitted_at": "2026-06-01T12:00:00Z",
        "usage": {"cpu_s": None, "wall_s": None, "memory_mb": None, "disk_mb": None},
        "has_output": False,
    }
    assert {name: answer[name] for name in expected} == expected


def test_a_finished_job_shows_its_place_and_usage(alice: APIClient, sample: SampleData) -> None:
    queue = sample.cern.ces.get().queues.get()
    job = factories.make_job(
        owner=sample.alice, group=sample.users, status=JobStatus.DONE, site=sample.cern, queue=queue, pilot_id=7
    )
    Job.objects.update(exit_code=0, cpu_s=1.5, wall_s=2.5, max_memory_mb=100, max_disk_mb=3)
    answer = alice.get(f"{JOBS}{job.pk}/").json()

    assert (answer["site"], answer["ce"], answer["queue"]) == ("LCG.CERN.ch", "ce01.cern.ch", queue.name)
    assert (answer["pilot"], answer["task_queue"], answer["exit_code"]) == (7, None, 0)
    assert answer["usage"] == {"cpu_s": 1.5, "wall_s": 2.5, "memory_mb": 100, "disk_mb": 3}


def test_a_job_matched_at_a_site_removed_meanwhile_has_no_site(alice: APIClient, sample: SampleData) -> None:
    """No constraint holds the site for a claim (ADR 16)."""
    job = factories.make_job(owner=sample.alice, group=sample.users, status=JobStatus.MATCHED, pilot_id=7)
    Job.objects.update(site_id=10**9, queue_id=10**9)
    answer = alice.get(f"{JOBS}{job.pk}/").json()

    assert (answer["site"], answer["ce"], answer["queue"]) == (None, None, None)
    assert [each["site"] for each in alice.get(JOBS).json()["results"]] == [None]


def test_the_history_is_listed_oldest_first(alice: APIClient, sample: SampleData) -> None:
    [submitted] = alice.post(JOBS, {"executable": "a"}, format="json").json()["jobs"]
    alice.post(f"{JOBS}{submitted['id']}/hold/", {"reason": "not yet"}, format="json")
    alice.post(f"{JOBS}{submitted['id']}/release/")
    lines = alice.get(f"{JOBS}{submitted['id']}/history/").json()

    assert [(line["status"], line["minor_status"], line["source"]) for line in lines] == [
        ("Received", "", "alice"),
        ("Waiting", "", "alice"),
        ("Held", "not yet", "alice"),
        ("Waiting", "Released by alice", "alice"),
    ]
    assert sorted(line["changed_at"] for line in lines) == [line["changed_at"] for line in lines]


def test_peek_returns_the_last_lines(alice: APIClient, sample: SampleData) -> None:
    job = factories.make_job(
        owner=sample.alice,
        group=sample.users,
        status=JobStatus.RUNNING,
        std_output_tail="step 1\nstep 2\n",
        std_error_tail="no file\n",
    )
    answer = alice.get(f"{JOBS}{job.pk}/peek/").json()

    assert answer == {
        "id": job.pk,
        "status": "Running",
        "std_output": "step 1\nstep 2\n",
        "std_error": "no file\n",
        "reported_at": None,
    }


def test_peek_returns_lines_of_the_present_attempt_only(alice: APIClient, sample: SampleData) -> None:
    job = factories.make_job(
        owner=sample.alice, group=sample.users, status=JobStatus.RUNNING, std_error_tail="of the first attempt"
    )
    Job.objects.update(reschedules=1)

    assert alice.get(f"{JOBS}{job.pk}/peek/").json()["std_error"] == ""


def test_lists_do_not_load_output_texts(alice: APIClient, jobs: dict[str, Job]) -> None:
    row = alice.get(JOBS).json()["results"][0]

    assert "description" not in row
    assert "std_output" not in row


def test_a_deleted_job_can_be_read_by_its_id(alice: APIClient, jobs: dict[str, Job]) -> None:
    answer = alice.get(f"{JOBS}{jobs['deleted'].pk}/")

    assert (answer.status_code, answer.json()["status"]) == (200, "Deleted")


def test_reading_changes_nothing(alice: APIClient, jobs: dict[str, Job], everything: Callable[[], object]) -> None:
    before = everything()
    for path in ("", "summary/", f"{jobs['waiting'].pk}/", f"{jobs['waiting'].pk}/history/"):
        alice.get(JOBS + path)
    assert everything() == before
