"""The archive of jobs with what pages read beside them: task queues, histories, last lines of output, accounting."""

from typing import Final

from django.db import connection, transaction

from taskqueues.models import QueuedJob
from taskqueues.services import usage
from tests.benchmarks.workloads.job_archive import YEAR, JobArchive, load_archive
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.models import Accounting, Job
from wms.jobs.services.accounting import account
from wms.jobs.services.enqueueing import put_back_in_queues
from wms.kernel.db import database_now
from wms.kernel.fields import compressed

#: Standard error of every failed job; what differs are the exit code and the site.
_STD_ERROR: Final = """\
Traceback (most recent call last):
  File "/srv/job/simulate.py", line 214, in <module>
    main()
  File "/srv/job/simulate.py", line 187, in main
    events = read(options.input)
OSError: [Errno 5] Input/output error: 'root://eos.example.org//run3/raw/000214.root'
"""
_FILL: Final = (
    # The jobs that run have been heard of, with their pilots: else the lease expirer takes all of them for lost.
    """
    UPDATE pilots_pilot SET status = 'Running', submitted_at = now(), started_at = now(), last_seen_at = now(),
           ended_at = NULL
     WHERE id IN (SELECT pilot_id FROM jobs_job WHERE status = ANY(%(leased)s))
    """,
    "UPDATE jobs_job SET heartbeat_at = now() WHERE status = ANY(%(leased)s)",
    "UPDATE matching_match SET expires_at = now() + interval '1 d' WHERE ended_at IS NULL",
    """
    INSERT INTO jobs_outputtail (job_id, attempt, std_error)
    SELECT id, 0, %(error)s FROM jobs_job WHERE status = 'Failed'
    """,
    # The oldest lines first, as they were written.
    """
    INSERT INTO jobs_jobhistory (
        job_id, changed_at, status, minor_status, application_status, source, transaction_number
    )
    SELECT job.id, its.changed_at, its.status, '', '', its.source, its.transaction_number
      FROM jobs_job AS job,
           LATERAL (VALUES (submitted_at, 'Received', 'submission', 1), (submitted_at, 'Waiting', 'submission', 1),
                           (matched_at, 'Matched', 'matching', 2), (started_at, 'Running', 'pilot', 3),
                           (ended_at, job.status, 'pilot', 4)) AS its (changed_at, status, source, transaction_number)
     WHERE its.changed_at IS NOT NULL
     ORDER BY its.transaction_number
    """,
)


def load_portal_archive(*, jobs: int, seed: int) -> JobArchive:
    """Load this many jobs into an empty database, as ``load_archive`` does, and what pages read beside them."""
    archive = load_archive(jobs=jobs, seed=seed)
    with transaction.atomic():
        # Those of the archive are in no task queue that exists.
        QueuedJob.objects.all().delete()
        waiting = Job.objects.filter(status=JobStatus.WAITING).select_related("stored_description").order_by("pk")
        put_back_in_queues(list(waiting), now=database_now())
        with connection.cursor() as cursor:
            for statement in _FILL:
                cursor.execute(statement, {"error": compressed(_STD_ERROR), "leased": list(LEASED)})
    now = database_now()
    # Begun before the first line of the histories, which are then counted at once.
    Accounting.objects.create(id=1, seen="1:1:", began_at=now - YEAR)
    account(now=now, count_unmatched=lambda _now: ())
    with transaction.atomic():
        # As of a server that has counted all the time: one that begins counts a week of leases behind the pages.
        usage.begin_count(at=now)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")
        cursor.execute("CHECKPOINT")
    return archive
