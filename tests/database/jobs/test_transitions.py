"""The one function that changes the status of jobs."""

from datetime import timedelta
from itertools import product

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from tests import factories
from tests.factories import NOW
from wms.jobs.domain.lifecycle import FINAL, TRANSITIONS, JobStatus
from wms.jobs.models import Job, JobHistory
from wms.jobs.services import transitions
from wms.jobs.services.transitions import IllegalTransitionError

pytestmark = pytest.mark.django_db
LATER = NOW + timedelta(minutes=1)


def _make(*statuses: JobStatus) -> list[int]:
    submission = factories.make_submission()
    return [factories.make_job(submission=submission, status=status).pk for status in statuses]


def test_possible_transitions_are_made_and_others_reported() -> None:
    waiting, running, done = _make(JobStatus.WAITING, JobStatus.RUNNING, JobStatus.DONE)
    recorded = transitions.record(
        [done, running, waiting, 10**9], status=JobStatus.KILLED, minor="why", source="alice", now=LATER
    )

    assert recorded.moved == {waiting: JobStatus.WAITING, running: JobStatus.RUNNING}
    assert recorded.refused == {done: JobStatus.DONE}
    assert recorded.errors(JobStatus.KILLED).keys() == {done}
    assert dict(Job.objects.values_list("pk", "status")) == {waiting: "Killed", running: "Killed", done: "Done"}
    lines = JobHistory.objects.order_by("job").values_list("job", "status", "minor_status", "source", "changed_at")
    assert list(lines) == [(job_id, "Killed", "why", "alice", LATER) for job_id in (waiting, running)]


def test_transitions_follow_the_table_and_set_ended_at(subtests: pytest.Subtests) -> None:
    jobs = {source: _make(*[source] * len(JobStatus)) for source in JobStatus}
    for source, target in product(JobStatus, repeat=2):
        with subtests.test(f"{source} to {target}"):
            job_id = jobs[source].pop()
            recorded = transitions.record([job_id], status=target, source="x", now=LATER)

            job = Job.objects.get(pk=job_id)
            if target in TRANSITIONS[source]:
                assert recorded.moved == {job_id: source}
                ended_at = NOW if source in FINAL else LATER
                assert (job.status, job.status_changed_at) == (target, LATER)
                assert job.ended_at == (ended_at if target in FINAL else None)
            else:
                assert recorded.refused == {job_id: source}
                assert (job.status, job.status_changed_at) == (source, NOW)
                assert not JobHistory.objects.filter(job=job_id).exists()


def test_allowed_source_statuses_can_only_be_narrowed() -> None:
    held, rescheduled, running = _make(JobStatus.HELD, JobStatus.RESCHEDULED, JobStatus.RUNNING)
    recorded = transitions.record(
        [held, rescheduled, running],
        status=JobStatus.WAITING,
        source="x",
        now=LATER,
        only_from={JobStatus.HELD, JobStatus.RUNNING},
    )

    assert recorded.moved.keys() == {held}


def test_the_application_status_is_kept_unless_it_is_given() -> None:
    [job_id] = _make(JobStatus.RUNNING)
    Job.objects.update(application_status="event 7")
    transitions.move(job_id, status=JobStatus.COMPLETING, source="x", now=LATER)
    transitions.move(job_id, status=JobStatus.DONE, application="", source="x", now=LATER)

    assert Job.objects.get().application_status == ""
    lines = JobHistory.objects.order_by("pk").values_list("status", "application_status")
    assert list(lines) == [("Completing", "event 7"), ("Done", "")]


def test_further_columns_change_in_the_same_update() -> None:
    [job_id] = _make(JobStatus.WAITING)
    site = factories.make_site()
    transitions.move(
        job_id,
        status=JobStatus.MATCHED,
        source="matcher",
        now=LATER,
        also={"site_id": site.pk, "pilot_id": 7, "matched_at": LATER},
    )

    job = Job.objects.get()
    assert (job.status, job.site, job.pilot_id, job.matched_at) == ("Matched", site, 7, LATER)


def test_each_rescheduling_is_counted() -> None:
    [job_id] = _make(JobStatus.FAILED)
    transitions.move(job_id, status=JobStatus.RESCHEDULED, source="x", now=LATER)

    assert Job.objects.get().reschedules == 1


def test_a_single_move_that_is_refused_says_from_where_it_is_possible() -> None:
    [job_id] = _make(JobStatus.DONE)
    sentence = rf"Job {job_id} is Done; only jobs that are .*Running.* can be killed"
    with pytest.raises(IllegalTransitionError, match=sentence):
        transitions.move(job_id, status=JobStatus.KILLED, source="x", now=LATER)
    with pytest.raises(IllegalTransitionError, match="does not exist"):
        transitions.move(10**9, status=JobStatus.KILLED, source="x", now=LATER)


def test_another_reason_is_a_line_of_the_history_only_when_it_is_new_and_the_status_right() -> None:
    [running, killed] = _make(JobStatus.RUNNING, JobStatus.KILLED)
    for _ in range(2):
        transitions.remark([running, killed], minor="Waits", source="x", now=LATER, only_from={JobStatus.RUNNING})

    lines = JobHistory.objects.values_list("job", "status", "minor_status")
    assert list(lines) == [(running, "Running", "Waits")]
    assert Job.objects.get(pk=killed).minor_status == ""


def test_however_many_jobs_are_locked_by_id_and_changed_with_their_history_by_one_statement() -> None:
    submission = factories.make_submission()
    ids = [factories.make_job(submission=submission, status=JobStatus.RUNNING).pk for _ in range(50)]
    with CaptureQueriesContext(connection) as captured:
        transitions.record(reversed(ids), status=JobStatus.KILLED, source="x", now=LATER)

    counts_itself, change, counts_no_more = [query["sql"] for query in captured]
    assert "WHERE id = ANY('{" + ",".join(map(str, ids)) + "}'::bigint[]) ORDER BY id FOR UPDATE" in change
    assert change.count('UPDATE "jobs_job"') == change.count("INSERT INTO jobs_jobhistory") == 1
    assert change.count("INSERT INTO jobs_jobcountchange") == 1
    assert "set_config('wms.jobs_counted_by', 'statement', true)" in counts_itself
    assert "set_config('wms.jobs_counted_by', '', true)" in counts_no_more
    assert JobHistory.objects.count() == 50


def test_few_jobs_are_counted_by_the_trigger_in_one_statement() -> None:
    ids = _make(*[JobStatus.RUNNING] * 3)
    with CaptureQueriesContext(connection) as captured:
        transitions.record(ids, status=JobStatus.KILLED, source="x", now=LATER)

    (change,) = [query["sql"] for query in captured]
    assert "ORDER BY id FOR UPDATE" in change
    assert "jobs_jobcountchange" not in change


@pytest.mark.django_db(transaction=True)
def test_a_status_is_only_changed_inside_a_transaction() -> None:
    with pytest.raises(transaction.TransactionManagementError):
        transitions.record([1], status=JobStatus.KILLED, source="x", now=LATER)


@pytest.mark.parametrize(
    "change",
    [
        {"status": "Lost"},
        {"status": "Lost", "ended_at": NOW},
        {"status": ""},
        {"priority": 11},
        {"priority": -1},
        {"reschedules": -1},
        *({"status": status, "ended_at": None if status in FINAL else NOW} for status in JobStatus),
    ],
)
def test_the_database_refuses_jobs_that_cannot_be(change: dict[str, object]) -> None:
    _make(JobStatus.RUNNING)
    refused = pytest.raises(IntegrityError, match="job_has_known_status_and_priority_and_ended_at_iff_final")
    with refused, transaction.atomic():
        Job.objects.update(**change)


@pytest.mark.parametrize("status", JobStatus)
def test_the_database_takes_every_status_and_every_priority(status: JobStatus) -> None:
    _make(JobStatus.RUNNING)
    for priority in range(11):
        Job.objects.update(status=status, ended_at=NOW if status in FINAL else None, priority=priority)
