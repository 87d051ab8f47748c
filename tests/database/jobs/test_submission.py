"""Many jobs in one request: few statements, and descriptions stored as given."""

from collections import Counter

import pytest
from pytest_django import DjangoAssertNumQueries

from taskqueues.domain.definition import QueueDefinition
from taskqueues.models import QueuedJob, TaskQueue
from tests import factories
from tests.factories import NOW, submit
from wms.accounts.models import User
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, JobHistory
from wms.jobs.services.submission import SubmissionResult

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    return factories.make_user(username="alice", groups=[factories.make_group()])


def submit_jobs(owner: User, *job_types: str, **fields: object) -> SubmissionResult:
    jobs = [{"executable": "run.sh", "job_type": job_type, **fields} for job_type in job_types]
    return submit(parse_submission({"jobs": jobs}), owner=owner, now=NOW)


def test_a_thousand_definitions_make_a_thousand_queues_in_a_few_statements(
    alice: User, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    job_types = [f"Type{number}" for number in range(1000)]
    with django_assert_max_num_queries(22):  # two of them count what the user has waiting
        result = submit_jobs(alice, *job_types, *job_types)

    names = dict(TaskQueue.objects.values_list("pk", "job_type"))
    assert [names[job.task_queue] for job in result.jobs if job.task_queue] == job_types * 2
    assert len(names) == 1000
    assert set(QueuedJob.objects.values_list("pk", "task_queue")) == {(job.id, job.task_queue) for job in result.jobs}


def test_equal_requirements_are_hashed_once(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    signed: Counter[str] = Counter()
    sign = QueueDefinition.signature

    def counting(definition: QueueDefinition) -> bytes:
        signed[definition.job_type] += 1
        return sign(definition)

    monkeypatch.setattr(QueueDefinition, "signature", counting)
    submit_jobs(alice, *["User"] * 20, *["MC"] * 30)
    assert signed == {"User": 1, "MC": 1}


def test_a_description_is_stored_as_it_was_given(alice: User) -> None:
    given = {
        "arguments": 'é "q" \\ \n',
        "environment": {"A": "\N{GRINNING FACE}", "B": ""},
        "tags": ["x", "y"],
        "output_sandbox": ["*.root"],
    }
    submit_jobs(alice, "User", **given)

    description = Job.objects.get().description
    assert {field: description[field] for field in given} == given
    assert description["setup"] == alice.memberships.get().group.vo.setup


def test_the_history_of_each_job_begins_in_order(alice: User) -> None:
    result = submit_jobs(alice, *["User"] * 3)

    lines = JobHistory.objects.order_by("pk").values_list("job", "status", "source", "changed_at")
    assert list(lines) == [(job.id, status, "alice", NOW) for job in result.jobs for status in ("Received", "Waiting")]
