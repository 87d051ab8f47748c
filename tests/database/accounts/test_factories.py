"""The factories of the tests build rows that the database accepts, with and without arguments."""

import pytest

from resources.domain.enums import RequirementKind
from taskqueues.models import QueuedJob
from tests import factories
from wms.accounts.models import ApiToken

pytestmark = pytest.mark.django_db


def test_every_factory_needs_no_argument_but_names_of_requirements() -> None:
    alice = factories.make_user()
    factories.make_token(alice)
    factories.make_queue()
    factories.make_platform()
    factories.make_requirement_definition(name="Memory", kind=RequirementKind.CAPACITY)
    factories.make_queued_job()

    assert ApiToken.objects.get().user == alice


def test_the_task_queue_factory_makes_the_requested_jobs() -> None:
    task_queue = factories.make_task_queue(job_ids=[7, 8], user_priority=3)

    assert set(QueuedJob.objects.filter(task_queue=task_queue).values_list("job_id", "user_priority")) == {
        (7, 3),
        (8, 3),
    }
