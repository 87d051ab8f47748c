"""``retention``: ended jobs leave the database while pilots are matched at a steady rate."""

from time import perf_counter

from django.db import connection

from matching.services import removal_permits
from tests.benchmarks.client import Client
from tests.benchmarks.http import PILOTS, PROCESSES, WARM_UP_S, parts_of
from tests.benchmarks.machine import cpu_measured
from tests.benchmarks.mass_loss import SteadyAsking
from tests.benchmarks.measuring import Report
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.watching import Watch
from tests.benchmarks.workloads.loading import load, loaded_sizes
from tests.factories import make_user
from wms.accounts.models import VO
from wms.jobs.models import Job
from wms.jobs.services import counting
from wms.kernel.db import database_now

ENDED = 1_000_000
JOBS_OF_SUBMISSION = 100
#: Seconds between two looks at what is left.
LOOK_EVERY_S = 1.0

#: Done jobs of half a year ago, of one owner, with five lines of history and a lease each.
_FILL = (
    """
    INSERT INTO jobs_submission (id, owner_id, group_id, submitted_at, body_digest)
    SELECT gen_random_uuid(), owner_id, group_id, now() - interval '200 days' + number * interval '1 s', sha256('')
      FROM generate_series(1, %(submissions)s) AS number,
           (SELECT owner_id, group_id FROM jobs_job ORDER BY id LIMIT 1) AS its
    """,
    """
    INSERT INTO jobs_job (
        submission_id, owner_id, group_id, vo_id, status, minor_status, application_status, job_name, job_group,
        job_type, priority, stored_description_id, submit_pools, reschedules, submitted_at, status_changed_at,
        matched_at, started_at, ended_at, exit_code, cpu_s, wall_s
    )
    SELECT submission.id, submission.owner_id, submission.group_id, its.vo_id, 'Done', '', '', '', '', its.job_type, 1,
           its.stored_description_id, '{}', 0, submission.submitted_at, submission.submitted_at,
           submission.submitted_at, submission.submitted_at, submission.submitted_at, 0, 1, 1
      FROM jobs_submission AS submission, generate_series(1, %(jobs)s),
           (SELECT vo_id, job_type, stored_description_id FROM jobs_job ORDER BY id LIMIT 1) AS its
     WHERE submission.submitted_at < now() - interval '181 days'
    """,
    """
    INSERT INTO jobs_jobhistory (
        job_id, changed_at, status, minor_status, application_status, source, transaction_number
    )
    SELECT job.id, job.ended_at, its.status, '', '', 'pilot 1', NULL
      FROM jobs_job AS job, unnest('{Received,Waiting,Matched,Running,Done}'::text[]) AS its (status)
     WHERE job.ended_at IS NOT NULL
    """,
    """
    INSERT INTO matching_match (
        id, job_id, pilot_id, request_id, cpu_segment_s, ordinal, leased_at, expires_at, reported_status, ended_at,
        end_reason
    )
    SELECT gen_random_uuid(), id, 1, gen_random_uuid(), 0, 0, ended_at, ended_at, 'Done', ended_at, 'finished'
      FROM jobs_job WHERE ended_at IS NOT NULL
    """,
)


def run(ready: Surroundings, options: Options) -> Report:
    """Match for a while, then permit the removal, and match until no ended job of then is left."""
    loaded = load(options.shape(), seed=options.seed)
    _fill(jobs=options.leases or ENDED)
    ended = Job.objects.filter(ended_at__isnull=False)
    last_id, jobs, before_bytes = ended.latest("pk").pk, ended.count(), _bytes_in_use()
    pilots, processes = options.pilots or PILOTS, options.processes or PROCESSES
    sizes = {"ended jobs": jobs, "matches a second": round(options.rate), "web processes": processes}
    report = Report(benchmark="retention", sizes={**loaded_sizes(loaded), **sizes})
    with ready.web(processes=processes) as web:
        asking = SteadyAsking(loaded, port=web.port, seed=options.seed)
        asking.every_s = pilots / options.rate
        client = Client(port=web.port, connections=pilots, ask=asking.ask, hear=asking.hear)
        for pilot in range(pilots):
            client.expect(pilot, at_s=perf_counter() + pilot / options.rate)
        client.run(until_s=perf_counter() + WARM_UP_S)
        asking.begin()
        client.run(until_s=perf_counter() + options.seconds)
        before = report.add("POST /api/v1/matches/ before", asking.latencies_s)
        asking.begin()
        begun_s = perf_counter()

        def is_over() -> bool:
            return not ended.filter(pk__lte=last_id).exists()

        with cpu_measured(parts_of(ready, web)) as use, Watch(_permit, is_over, every_s=LOOK_EVERY_S) as watch:
            while watch.goes_on:
                client.run(until_s=perf_counter() + LOOK_EVERY_S)
        report.add("from the permission until no ended job is left", [perf_counter() - begun_s])
        client.close()
    meanwhile = report.add("POST /api/v1/matches/ meanwhile", asking.latencies_s)
    report.facts["p99 of matches meanwhile, before = 1"] = meanwhile.p99_ms / before.p99_ms
    with connection.cursor() as cursor:
        cursor.execute("VACUUM")
    report.facts["bytes of the tables afterwards, before = 1"] = _bytes_in_use() / before_bytes
    report.facts |= use.facts()
    return report


def _permit() -> None:
    operator = make_user(operator=True)
    for vo in VO.objects.all():
        removal_permits.look(vo, now=database_now())
        removal_permits.permit(vo, by=operator, now=database_now())


def _fill(*, jobs: int) -> None:
    parameters = {"submissions": max(1, jobs // JOBS_OF_SUBMISSION), "jobs": min(jobs, JOBS_OF_SUBMISSION)}
    with connection.cursor() as cursor:
        for statement in _FILL:
            cursor.execute(statement, parameters)
    counting.add_changes()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def _bytes_in_use() -> float:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        (size_bytes,) = cursor.fetchone()
    return float(size_bytes)
