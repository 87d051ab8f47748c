"""`manage.py verify` finds each violated invariant, and nothing on a healthy system."""

from collections.abc import Callable
from io import StringIO
from random import Random
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from matching.models import Match
from matching.queries.invariants import INVARIANTS, violations
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from taskqueues.models import GroupUsage, QueuedJob, TaskQueue
from taskqueues.services import priorities
from tests.factories import make_group, make_job, make_pilot, make_queued_job, make_vo
from wms.accounts.models import User
from wms.jobs.models import (
    Job,
    JobCountChange,
    JobHistory,
    OutputTail,
    StoredBytes,
    UsageSamples,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def healthy() -> None:
    """Add a waiting and a leased job."""
    group = make_group()
    pilot = make_pilot(vo=group.vo)
    for _ in range(2):
        make_job(group=group)
    match(OfferRequest(cpu_time_s=300_000), request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1))
    priorities.recalculate()


@pytest.mark.usefixtures("healthy")
def test_a_healthy_system_has_no_exception() -> None:
    out = StringIO()
    call_command("verify", stdout=out)
    unseen = "files of no sandbox, files on storage elements, messages in the broker"
    assert out.getvalue() == (
        f"{len(INVARIANTS)} invariants hold.\n"
        f"0 sandboxes; not looked at: contents of sandboxes (--contents reads them), {unseen}.\n"
    )


def test_where_shares_follow_history_the_corrected_ones_are_added_up_to() -> None:
    vo = make_vo(history_fair_share=True)
    groups = [make_group(vo=vo, priority=50.0) for _ in range(2)]
    for group, used_s in zip(groups, (80.0, 20.0), strict=True):
        GroupUsage.objects.create(group=group, used_s=used_s)
        make_job(group=group)
    priorities.recalculate()
    assert list(violations()) == []
    GroupUsage.objects.filter(group=groups[0]).update(used_s=20.0)
    assert {violation.row for violation in violations()} == {group.name for group in groups}


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(
    ("damage", "invariant"),
    [
        (lambda: QueuedJob.objects.all().delete(), "A waiting job is in a task queue"),
        (lambda: make_queued_job(job_id=10**9, task_queue=TaskQueue.objects.get()), "A job in a task queue is waiting"),
        (
            lambda: QueuedJob.objects.update(user_priority=9),
            "A job is in a task queue of its owner and group, at its priority",
        ),
        (
            lambda: Match.objects.update(ended_at=timezone.now()),
            "A job that a pilot holds has an open lease",
        ),
        (
            lambda: Job.objects.filter(status="Matched").update(status="Done", ended_at=timezone.now()),
            "An open lease is on a job that is held, or is being stopped",
        ),
        (lambda: Pilot.objects.update(matched_at=None), "A pilot that got a job is flagged"),
        (lambda: JobCountChange.objects.all().delete(), "The counts of jobs are those of the jobs"),
        (
            lambda: StoredBytes.objects.create(owner=User.objects.earliest("pk"), input_bytes=1, output_bytes=0),
            "The bytes that a user has stored are those of the user's uploads",
        ),
        *[
            (damage, "Tails and samples are of attempts that jobs have made")
            for damage in (
                lambda: OutputTail.objects.create(job=Job.objects.earliest("pk"), attempt=1),
                lambda: UsageSamples.objects.create(job=Job.objects.earliest("pk"), attempt=1, step_s=60, samples=[]),
            )
        ],
        (lambda: Job.objects.update(stored_description=10**9), "A job has its description"),
        *[
            (damage, "Histories and leases are of jobs that exist")
            for damage in (
                lambda: JobHistory.objects.create(job_id=10**9, changed_at=timezone.now(), status="Done"),
                lambda: Match.objects.update(job_id=10**9),
            )
        ],
        (lambda: TaskQueue.objects.update(priority=1.5), "The priorities of a group's queues add up to its share"),
    ],
)
def test_each_damage_is_found(damage: Callable[[], object], invariant: str) -> None:
    assert list(violations()) == []
    damage()
    assert invariant in {violation.invariant for violation in violations()}
    with pytest.raises(CommandError):
        call_command("verify", stdout=StringIO())
