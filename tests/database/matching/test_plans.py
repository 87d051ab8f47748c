"""Query plans of the match: it reads its tables by keys and without sequential scans, for any sizes and statistics."""

from datetime import timedelta
from random import Random
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from taskqueues.models import QueuedJob
from taskqueues.queries import free_jobs
from taskqueues.services.index import shared
from taskqueues.services.index.reading import read_changes
from taskqueues.services.index.shared import index
from taskqueues.services.index.snapshot import IndexDelta, Snapshot
from tests.factories import LARGE_SLOT, NOW, make_group, make_job, make_pilot, make_queue, make_user
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import InputSandbox, Sandbox
from wms.kernel.db import database_now

pytestmark = pytest.mark.django_db(transaction=True)

#: Of these a match may not read all rows. The small ones beside them (sites, queues) are read by key too.
LARGE = (
    "jobs_job",
    "jobs_storeddescription",
    "jobs_jobhistory",
    "jobs_inputsandbox",
    "taskqueues_queuedjob",
    "matching_match",
    "pilots_pilot",
)


def sequential_scans() -> dict[str, int]:
    """Return the number of sequential scans of each large table so far."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(
            "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE relname = ANY(%s) ORDER BY relname", [list(LARGE)]
        )
        return dict(cursor.fetchall())


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the thread of the index report what it scanned with each reading, not some time later."""

    def read(since: Snapshot) -> IndexDelta:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")
        return read_changes(since)

    monkeypatch.setattr(shared, "read_changes", read)


@pytest.mark.usefixtures("reported")
@pytest.mark.parametrize("analysed", ["before the jobs came", "with the jobs"])
def test_no_large_table_is_scanned_on_the_path_of_a_match(analysed: str) -> None:
    group = make_group(shares_jobs=True)
    owner = make_user(groups=[group])
    # So many that they fill more than a page; a table of one page is read as it is.
    Pilot.objects.bulk_create([Pilot(vo=group.vo, submitted_at=NOW) for _ in range(500)])
    if analysed == "before the jobs came":
        analyse()
    for number in range(60):
        make_job(group=group, owner=owner, cpu_time_s=500 if number % 2 else 5000, priority=1 + number % 3)
    if analysed == "with the jobs":
        analyse()
    pilot, chance = make_pilot(vo=group.vo, queue=make_queue(**LARGE_SLOT)), Random(1)

    def ask(request_id: UUID | None = None) -> int:
        offer = OfferRequest(cpu_time_s=300_000)
        leases = match(offer, request_id=request_id or uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=chance)
        return len(leases)

    assert ask() == 1  # the index has counted what waits
    index.renewed()
    before = sequential_scans()
    assert before.keys() == set(LARGE)
    same = uuid4()
    assert [ask(same), ask(same), *(ask() for _ in range(20))] == [1] * 22
    assert sequential_scans() == before


def test_a_claim_reads_the_input_sandboxes_of_its_own_job_alone() -> None:
    group = make_group()
    other = make_job(group=group, status=JobStatus.HELD)
    sandboxes = Sandbox.objects.bulk_create(
        Sandbox(digest=f"{number:064x}", size_bytes=1, is_archive=False, created_at=NOW) for number in range(3000)
    )
    InputSandbox.objects.bulk_create(
        InputSandbox(job=other, sandbox=sandbox, file_name=f"{sandbox.pk}.txt") for sandbox in sandboxes[1:]
    )
    job = make_job(group=group)
    InputSandbox.objects.create(job=job, sandbox=sandboxes[0], file_name="run.sh")
    analyse()
    pilot = make_pilot(vo=group.vo, queue=make_queue())
    before = rows_of_sandboxes()
    (lease,) = match(
        OfferRequest(cpu_time_s=300_000), request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1)
    )
    assert [given["file_name"] for given in lease.input_sandboxes] == ["run.sh"]
    assert rows_of_sandboxes() - before < 20


def rows_of_sandboxes() -> int:
    """Return the number of rows of the jobs' input sandboxes that were read so far, by an index or a scan.

    Entries of an index that lead to removed rows are not counted: other tests leave them until they are vacuumed.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(
            "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_user_tables WHERE relname = 'jobs_inputsandbox'"
        )
        ((read,),) = cursor.fetchall()
    return int(read)


def test_counts_of_directors_are_index_only_scans() -> None:
    queued, now = QueuedJob.objects.get(pk=make_job().pk), database_now()
    QueuedJob.objects.bulk_create(
        QueuedJob(
            job_id=-number,
            task_queue_id=queued.task_queue_id,
            user_priority=queued.user_priority,
            is_held_back=number % 2 == 0,
            not_before=now + timedelta(seconds=number - 1000) if number % 2 == 0 else None,
        )
        for number in range(1, 2001)
    )
    analyse()
    with CaptureQueriesContext(connection) as captured:
        free = free_jobs(now=now)
    assert free.of_task_queue == {queued.task_queue_id: 1501}
    with connection.cursor() as cursor:
        for query in captured:
            # The table is small; and how much of it is known to be visible to all is another matter.
            cursor.execute("SET enable_seqscan = off")
            cursor.execute("SET enable_bitmapscan = off")
            cursor.execute(f"EXPLAIN {query['sql']}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
            cursor.execute("RESET enable_seqscan")
            cursor.execute("RESET enable_bitmapscan")
            assert ("Index Only Scan" in plan) is ("count(" in query["sql"].lower()), plan


def analyse() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
