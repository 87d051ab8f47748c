"""Kill, reschedule, hold, release, delete and change, one job and many."""

from collections.abc import Callable, Iterable
from itertools import product

import pytest
from django.conf import LazySettings
from rest_framework.test import APIClient

from taskqueues.models import QueuedJob
from tests import factories
from tests.api.jobs.conftest import SampleData
from wms.jobs.domain.lifecycle import FINAL, LEASED, JobStatus, sources_of
from wms.jobs.models import Job, JobCommand, JobHistory

JOBS = "/api/v1/jobs/"


def _act(client: APIClient, job: Job, action: str, **body: object) -> tuple[int, dict[str, object]]:
    response = client.post(f"{JOBS}{job.pk}/{action}/", body, format="json")
    return response.status_code, response.json()


def test_killing_a_waiting_job_removes_it_from_its_queue(alice: APIClient, sample: SampleData) -> None:
    job = factories.make_job(owner=sample.alice, group=sample.users)
    code, answer = _act(alice, job, "kill")

    assert (code, answer["status"], answer["minor_status"]) == (200, "Killed", "Killed by alice")
    assert answer["task_queue"] is None
    assert answer["ended_at"] is not None
    assert not QueuedJob.objects.exists()
    assert not JobCommand.objects.exists()


@pytest.mark.parametrize("status", sorted(LEASED))
def test_killing_a_leased_job_sends_a_command_to_its_pilot(
    alice: APIClient, sample: SampleData, status: JobStatus
) -> None:
    job = factories.make_job(owner=sample.alice, group=sample.users, status=status)
    code, answer = _act(alice, job, "kill")

    assert (code, answer["status"], answer["minor_status"]) == (200, "Killed", "Marked for termination")
    command = JobCommand.objects.get()
    assert (command.job, command.name, command.acknowledged_at) == (job, "kill", None)


@pytest.mark.parametrize("status", sorted(LEASED))
def test_a_rescheduled_leased_job_is_queued_after_its_lease(
    alice: APIClient, sample: SampleData, status: JobStatus
) -> None:
    job = factories.make_job(owner=sample.alice, group=sample.users, status=status)
    code, answer = _act(alice, job, "reschedule")

    assert (code, answer["status"], answer["reschedules"]) == (200, "Rescheduled", 1)
    assert not QueuedJob.objects.exists()
    assert JobCommand.objects.get().name == "kill"
    assert _act(alice, job, "reschedule")[0] == 409
    assert _act(alice, job, "release")[0] == 409


def test_killing_a_job_being_rescheduled_sends_one_command(alice: APIClient, sample: SampleData) -> None:
    job = factories.make_job(owner=sample.alice, group=sample.users, status=JobStatus.RUNNING)
    _act(alice, job, "reschedule")
    code, answer = _act(alice, job, "kill")

    assert (code, answer["status"]) == (200, "Killed")
    assert JobCommand.objects.count() == 1


def test_a_rescheduled_failed_job_waits_at_once_as_new(alice: APIClient, sample: SampleData) -> None:
    queue = sample.cern.ces.get().queues.get()
    job = factories.make_job(
        owner=sample.alice,
        group=sample.users,
        status=JobStatus.FAILED,
        site=sample.cern,
        queue=queue,
        pilot_id=7,
        std_output_tail="boom",
        priority=4,
    )
    Job.objects.update(exit_code=1, cpu_s=5, started_at=factories.NOW, matched_at=factories.NOW)
    code, answer = _act(alice, job, "reschedule")

    assert (code, answer["status"], answer["reschedules"]) == (200, "Waiting", 1)
    assert QueuedJob.objects.get().user_priority == 4
    assert {answer[name] for name in ("site", "ce", "queue", "pilot", "exit_code", "started_at", "ended_at")} == {None}
    assert answer["usage"] == {"cpu_s": None, "wall_s": None, "memory_mb": None, "disk_mb": None}
    assert alice.get(f"{JOBS}{job.pk}/peek/").json()["std_output"] == ""


def test_the_number_of_reschedules_is_limited(
    alice: APIClient, sample: SampleData, settings: LazySettings, everything: Callable[[], object]
) -> None:
    settings.WMS_MAX_RESCHEDULES = 2
    job = factories.make_job(owner=sample.alice, group=sample.users, status=JobStatus.FAILED, reschedules=2)
    before = everything()
    code, answer = _act(alice, job, "reschedule")

    assert (code, answer["code"]) == (409, "reschedule_limit")
    assert everything() == before


def test_a_held_job_waits_in_no_queue_until_it_is_released(alice: APIClient, sample: SampleData) -> None:
    job = factories.make_job(owner=sample.alice, group=sample.users)
    held = _act(alice, job, "hold", reason="disk is full")[1]
    assert (held["status"], held["minor_status"], held["task_queue"]) == ("Held", "disk is full", None)
    assert not QueuedJob.objects.exists()

    released = _act(alice, job, "release")[1]
    assert released["status"] == "Waiting"
    assert released["task_queue"] == QueuedJob.objects.get().task_queue_id


_ALLOWED_FROM = {
    "kill": sources_of(JobStatus.KILLED),
    "reschedule": sources_of(JobStatus.RESCHEDULED),
    "delete": sources_of(JobStatus.DELETED),
    "hold": sources_of(JobStatus.HELD),
    "release": frozenset({JobStatus.HELD}),
}


def test_an_action_is_possible_exactly_where_the_transition_table_allows_it(
    alice: APIClient, sample: SampleData, everything: Callable[[], object], subtests: pytest.Subtests
) -> None:
    for action, status in product(_ALLOWED_FROM, JobStatus):
        with subtests.test(f"{action} a {status} job"):
            job = factories.make_job(owner=sample.alice, group=sample.users, status=status)
            before = everything()
            code, answer = _act(alice, job, action)

            if status in _ALLOWED_FROM[action]:
                assert code == 200
                job.refresh_from_db()
                assert QueuedJob.objects.filter(job_id=job.pk).exists() == (job.status == JobStatus.WAITING)
                assert (job.ended_at is not None) == (job.status in FINAL)
                assert JobHistory.objects.filter(job=job).last().status == job.status  # type: ignore[union-attr]
            else:
                assert (code, answer["code"]) == (409, "illegal_transition")
                assert everything() == before


def test_a_deleted_job_keeps_the_time_of_its_end(alice: APIClient, sample: SampleData) -> None:
    job = factories.make_job(owner=sample.alice, group=sample.users, status=JobStatus.DONE)
    _act(alice, job, "delete")

    job.refresh_from_db()
    assert job.ended_at == factories.NOW


# ---- Changing --------------------------------------------------------------------------------------------------------


def test_a_changed_job_moves_to_the_queue_of_its_new_requirements(alice: APIClient, sample: SampleData) -> None:
    job = factories.make_job(owner=sample.alice, group=sample.users)
    old = QueuedJob.objects.get().task_queue_id
    body = {"priority": 9, "sites": ["LCG.CERN.ch", "LCG.RAL.uk"], "banned_sites": ["LCG.RAL.uk"], "job_name": "new"}
    response = alice.patch(f"{JOBS}{job.pk}/", body, format="json")

    assert response.status_code == 200
    answer = response.json()
    assert {name: answer["description"][name] for name in body} == body
    assert (answer["priority"], answer["job_name"], answer["status"]) == (9, "new", "Waiting")
    queued = QueuedJob.objects.get()
    assert (queued.job_id, queued.user_priority, queued.task_queue.sites) == (job.pk, 9, ["LCG.CERN.ch"])
    assert queued.task_queue_id == answer["task_queue"] != old


def test_a_held_job_is_changed_and_stays_held(alice: APIClient, sample: SampleData) -> None:
    job = factories.make_job(owner=sample.alice, group=sample.users, status=JobStatus.HELD)
    response = alice.patch(f"{JOBS}{job.pk}/", {"sites": ["LCG.CERN.ch"]}, format="json")

    assert (response.status_code, response.json()["status"]) == (200, "Held")
    assert not QueuedJob.objects.exists()
    _act(alice, job, "release")
    assert QueuedJob.objects.get().task_queue.sites == ["LCG.CERN.ch"]


@pytest.mark.parametrize("status", [status for status in JobStatus if status not in {"Waiting", "Held"}])
def test_only_a_job_that_waits_or_is_held_can_be_changed(
    alice: APIClient, sample: SampleData, everything: Callable[[], object], status: JobStatus
) -> None:
    job = factories.make_job(owner=sample.alice, group=sample.users, status=status)
    before = everything()
    response = alice.patch(f"{JOBS}{job.pk}/", {"priority": 9}, format="json")

    assert (response.status_code, response.json()["code"]) == (409, "not_editable")
    assert everything() == before


# ---- In bulk ---------------------------------------------------------------------------------------------------------


def _make(sample: SampleData, statuses: Iterable[JobStatus]) -> list[int]:
    submission = factories.make_submission(owner=sample.alice, group=sample.users)
    return [factories.make_job(submission=submission, status=status).pk for status in statuses]


def test_a_bulk_action_changes_what_it_can_and_reports_the_rest(
    alice: APIClient, sample: SampleData, settings: LazySettings
) -> None:
    failed, done, running = _make(sample, (JobStatus.FAILED, JobStatus.DONE, JobStatus.RUNNING))
    too_often = factories.make_job(
        owner=sample.alice, group=sample.users, status=JobStatus.FAILED, reschedules=settings.WMS_MAX_RESCHEDULES
    ).pk
    foreign = factories.make_job(status=JobStatus.FAILED).pk
    body = {"action": "reschedule", "ids": [foreign, too_often, failed, done, running, failed, 999_999]}
    answer = alice.post(f"{JOBS}bulk/", body, format="json").json()

    assert answer == {
        "done": 2,
        "refused": [
            {"id": done, "code": "illegal_transition"},
            {"id": too_often, "code": "reschedule_limit"},
            {"id": foreign, "code": "not_found"},
            {"id": 999_999, "code": "not_found"},
        ],
    }
    assert Job.objects.get(pk=failed).status == "Waiting"
    assert Job.objects.get(pk=running).status == "Rescheduled"
    assert Job.objects.get(pk=foreign).status == "Failed"


def test_a_bulk_filter_never_selects_deleted_jobs(alice: APIClient, sample: SampleData) -> None:
    waiting, running, done, deleted = _make(
        sample, (JobStatus.WAITING, JobStatus.RUNNING, JobStatus.DONE, JobStatus.DELETED)
    )
    other = factories.make_job(owner=sample.alice, group=sample.users).pk
    group_id = str(Job.objects.get(pk=waiting).submission_id)
    body = {"action": "kill", "filter": {"job_group_id": group_id}}
    answer = alice.post(f"{JOBS}bulk/", body, format="json").json()

    assert answer == {"done": 2, "refused": [{"id": done, "code": "illegal_transition"}]}
    statuses = dict(Job.objects.values_list("pk", "status"))
    assert statuses == {waiting: "Killed", running: "Killed", done: "Done", deleted: "Deleted", other: "Waiting"}
    assert JobCommand.objects.get().job_id == running


def test_statuses_of_a_filter_may_be_a_list(alice: APIClient, sample: SampleData) -> None:
    _make(sample, (JobStatus.WAITING, JobStatus.RUNNING, JobStatus.DONE))
    body = {"action": "delete", "filter": {"status": ["done", "WAITING"]}}

    assert alice.post(f"{JOBS}bulk/", body, format="json").json() == {"done": 2, "refused": []}


def test_many_jobs_are_held_with_their_reason_and_released(alice: APIClient, sample: SampleData) -> None:
    ids = _make(sample, [JobStatus.WAITING] * 5)
    alice.post(f"{JOBS}bulk/", {"action": "hold", "ids": ids, "reason": "later"}, format="json")
    assert set(Job.objects.values_list("status", "minor_status")) == {("Held", "later")}

    alice.post(f"{JOBS}bulk/", {"action": "release", "ids": ids}, format="json")
    assert set(Job.objects.values_list("status", flat=True)) == {"Waiting"}
    assert set(QueuedJob.objects.values_list("pk", flat=True)) == set(ids)


def test_a_filter_that_finds_too_many_jobs_does_nothing(
    alice: APIClient, sample: SampleData, monkeypatch: pytest.MonkeyPatch, everything: Callable[[], object]
) -> None:
    monkeypatch.setattr("wms.jobs.services.bulk.MAX_JOBS", 2)
    _make(sample, [JobStatus.WAITING] * 3)
    before = everything()
    response = alice.post(f"{JOBS}bulk/", {"action": "kill", "filter": {"owner": "alice"}}, format="json")

    assert (response.status_code, response.json()["code"]) == (400, "too_many_jobs")
    assert everything() == before


def test_parts_of_a_bulk_action_cover_all_jobs(
    alice: APIClient, sample: SampleData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wms.jobs.services.bulk.AT_ONCE", 2)
    monkeypatch.setattr("wms.jobs.services.transitions.AT_ONCE", 1)
    ids = _make(sample, [JobStatus.WAITING, JobStatus.DONE, JobStatus.WAITING, JobStatus.WAITING, JobStatus.DONE])
    answer = alice.post(f"{JOBS}bulk/", {"action": "kill", "ids": ids}, format="json").json()

    assert answer["done"] == 3
    assert [refusal["id"] for refusal in answer["refused"]] == [ids[1], ids[4]]
