"""A database of realistic shape: many rows in those tables that grow with use, in the proportions of the benchmarks."""

from dataclasses import dataclass

from django.db import connection, transaction

from matching.models import Match
from pilots.models import Pilot
from resources.models import ComputingElement, Queue, Site
from taskqueues import sql as taskqueues_sql
from taskqueues.models import TaskQueue
from tests.benchmarks.workloads.job_archive import JobArchive, fill_archive
from tests.factories import make_task_queue
from wms.accounts.models import VO, Group, Membership, User
from wms.jobs.domain.data import WAITS_FOR_ROOM
from wms.jobs.models import Job
from wms.jobs.services import counting

JOBS = 30_000
#: Few, so that each has many jobs at a site.
OWNERS = 40
#: Most jobs come in submissions of few: a database of this size has as many submissions as one of a million jobs.
SIZES = {1: 50, 5: 40, 50: 10}

#: Statements for what the archive of jobs does not have; the rows of each are of the last months.
_FURTHER = (
    # More jobs wait than in the archive.
    "UPDATE jobs_job SET status = 'Checking', ended_at = NULL WHERE status = 'Killed' AND id %% 2 = 0",
    "UPDATE jobs_job SET status = 'Waiting', ended_at = NULL WHERE status = 'Done' AND id %% 4 = 0",
    # Jobs with input data, in submit pools, beyond a quota, and with outputs.
    """
    INSERT INTO jobs_storeddescription (description)
    SELECT jsonb_build_object('input_data', jsonb_build_array('/vo0/file' || number))
      FROM generate_series(1, 3000) AS number
    """,
    """
    UPDATE jobs_job AS job SET input_sites = '{LCG.Site001.org}', stored_description_id = stored.id
      FROM (SELECT id, row_number() OVER (ORDER BY id) FROM jobs_job WHERE status = 'Waiting') AS waiting,
           (SELECT id, row_number() OVER (ORDER BY id) FROM jobs_storeddescription WHERE description ? 'input_data')
           AS stored
     WHERE job.id = waiting.id AND stored.row_number = 1 + waiting.row_number %% 3000
    """,
    "UPDATE jobs_job SET submit_pools = '{pool7}' WHERE status = 'Held' OR id %% 50 = 0",
    "UPDATE jobs_job SET minor_status = %(waits_for_room)s WHERE status = 'Checking'",
    """
    INSERT INTO jobs_sandbox (digest, size_bytes, is_archive, created_at, check_use_at)
    SELECT encode(sha256(number::text::bytea), 'hex'), 1000, false, now(), now() + number * interval '1 min'
      FROM generate_series(-100, 20000) AS number
    """,
    """
    INSERT INTO jobs_sandboxupload (sandbox_id, owner_id, file_name, is_output, uploaded_at)
    SELECT sandbox.id, account.id, CASE WHEN sandbox.id %% 2 = 0 THEN 'output-' || sandbox.id ELSE 'run.sh' END,
           sandbox.id %% 2 = 0, now()
      FROM jobs_sandbox AS sandbox
      JOIN (SELECT id, row_number() OVER () FROM accounts_user) AS account ON account.row_number = 1 + sandbox.id %% 400
    """,
    """
    INSERT INTO jobs_inputsandbox (job_id, sandbox_id, file_name)
    SELECT job.id, sandbox.id, 'run.sh' FROM jobs_job AS job
      JOIN (SELECT id, row_number() OVER (ORDER BY id) FROM jobs_sandbox) AS sandbox
        ON sandbox.row_number = 1 + job.id %% 20000
    """,
    """
    UPDATE jobs_job AS job SET output_sandbox_id = sandbox.id
      FROM (SELECT id, row_number() OVER (ORDER BY id) FROM jobs_sandbox) AS sandbox
     WHERE sandbox.row_number = 1 + job.id %% 20000 AND job.status = 'Done' AND job.id %% 3 = 0
    """,
    # Each line of a history is of a later transaction than those before it, as the index of transactions expects.
    """
    INSERT INTO jobs_jobhistory (
        job_id, changed_at, status, minor_status, application_status, source, transaction_number
    )
    SELECT id, submitted_at, status, '', '', 'pilot',
           pg_current_xact_id()::text::bigint * row_number() OVER line / count(*) OVER ()
      FROM jobs_job, generate_series(1, 4) AS number
    WINDOW line AS (ORDER BY number, id)
     ORDER BY number, id
    """,
    """
    INSERT INTO jobs_jobbucket (width_s, begun_at, vo_id, group_id, owner_id, site_id, job_type, started)
    SELECT 3600, date_trunc('hour', now(), 'UTC') - number * interval '1 h', vo_id, group_id, user_id, site.id, 'User',
           1
      FROM generate_series(0, 335) AS number, resources_site AS site,
           (SELECT DISTINCT ON (user_id) user_id, group_id, vo_id
              FROM accounts_membership JOIN accounts_group ON accounts_group.id = group_id) AS member
     WHERE (site.id + user_id) %% 4 = 0
    """,
    """
    INSERT INTO jobs_jobbucketsum (width_s, begun_at, grouping, key, job_type, started)
    SELECT width_s, begun_at, its.grouping, its.key, its.job_type, sum(started)
      FROM jobs_jobbucket AS bucket
     CROSS JOIN LATERAL (
           VALUES ('site', coalesce(site_id, 0), ''), ('user', owner_id, ''), ('group', group_id, ''),
                  ('type', 0, bucket.job_type)
           ) AS its (grouping, key, job_type)
     GROUP BY 1, 2, 3, 4, 5
    """,
    """
    INSERT INTO jobs_jobcommand (job_id, name, arguments, created_at, acknowledged_at)
    SELECT id, 'kill', '{}', now(), CASE WHEN id %% 10 > 0 THEN now() END FROM jobs_job WHERE status = 'Killed'
    """,
    # Why jobs failed, and the few that have lost output.
    """
    INSERT INTO jobs_outputtail (job_id, attempt, cause_line, cause)
    SELECT id, reschedules, '', CASE WHEN status = 'Failed' THEN left(md5((id %% 50)::text), 10)
                                     WHEN status = 'Done' AND id %% 2000 = 0 THEN 'lost' ELSE '' END
      FROM jobs_job WHERE status IN ('Done', 'Failed')
    """,
    # A year of pilots, of which some live, some are private, and a few were made by hand or did not start.
    """
    UPDATE pilots_pilot AS pilot SET
           submitted_at = now() - (%(pilots)s - id) * interval '3 h',
           ended_at = CASE WHEN alive THEN NULL ELSE now() - (%(pilots)s - id) * interval '3 h' END,
           status = CASE WHEN alive THEN 'Running' ELSE 'Done' END,
           cleaned_at = CASE WHEN NOT alive AND id %% 20 > 0 THEN now() END,
           stalled_at = CASE WHEN id %% 300 = 0 THEN now() - (%(pilots)s - id) * interval '3 h' END,
           site_id = CASE WHEN id %% 500 = 0 THEN (SELECT min(id) FROM resources_site) END,
           ce_id = CASE WHEN id %% 500 = 1 THEN (SELECT min(id) FROM resources_computingelement) END
      FROM (SELECT id AS its_id, id > %(pilots)s - 150 AS alive FROM pilots_pilot) AS its WHERE its.its_id = pilot.id
    """,
    """
    UPDATE pilots_pilot AS pilot SET group_id = private.group_id, owner_id = private.owner_id
      FROM (SELECT group_id, user_id AS owner_id, row_number() OVER () FROM accounts_membership) AS private
     WHERE private.row_number = 1 + pilot.id %% 400 AND pilot.id %% 10 = 0
    """,
    """
    INSERT INTO pilots_pilotsecret (pilot_id, digest, expires_at)
    SELECT id, sha256(id::text::bytea), now() FROM pilots_pilot WHERE queue_id IS NOT NULL
    """,
    """
    INSERT INTO pilots_pilotlog (pilot_id, received, batch_output, changed_at)
    SELECT id, 100, '', submitted_at FROM pilots_pilot
    """,
    """
    INSERT INTO pilots_pilotlogpart (log_id, "offset", text)
    SELECT pilot_id, number * 4000, 'line' FROM pilots_pilotlog, generate_series(0, 4) AS number
    """,
    """
    INSERT INTO pilots_blackhole (site_id, host_name, found_at, until, fetched, failed, reason, lifted_at, lifted_by)
    SELECT ce.site_id, host_name, pilot.submitted_at, pilot.submitted_at + interval '1 h', 12, 11, '',
           CASE WHEN pilot.id %% 100 > 0 THEN pilot.submitted_at + interval '1 h' END, ''
      FROM pilots_pilot AS pilot
      JOIN resources_queue AS queue ON queue.id = pilot.queue_id
      JOIN resources_computingelement AS ce ON ce.id = queue.ce_id
        ON CONFLICT DO NOTHING
    """,
    # Configuration: more of it than any installation has.
    """
    INSERT INTO resources_siteadministrator (site_id, user_id, made_at)
    SELECT site.id, person.id, now()
      FROM (SELECT id FROM resources_site ORDER BY id LIMIT 20) AS site,
           (SELECT id FROM accounts_user ORDER BY id LIMIT 20) AS person
    """,
    """
    INSERT INTO resources_sitetoken (site_id, purpose, digest, configured, created_at, registrations)
    SELECT site.id, purpose, sha256((site.id || purpose || number)::bytea), number = 1, now(), 0
      FROM resources_site AS site, unnest('{status,pilots}'::text[]) AS purpose, generate_series(1, 10) AS number
    """,
    """
    INSERT INTO taskqueues_limit (vo_id, site_id, group_id, user_id, job_type, running)
    SELECT accounts_group.vo_id, site.id, NULL, NULL, '', 10 FROM accounts_group, resources_site AS site LIMIT 1000
    """,
    """
    INSERT INTO taskqueues_limitevent (limit_id, jobs_left, cpu_s)
    SELECT id, 1, 0 FROM taskqueues_limit, generate_series(1, 5)
    """,
    """
    INSERT INTO taskqueues_delivery (began_at, group_id, cpu_segment_s, matches, processor_s)
    SELECT now() - number * interval '1 h', accounts_group.id, segment, 10, 1000
      FROM accounts_group, generate_series(1, 500) AS number, unnest('{500,5000,86400}'::integer[]) AS segment
    """,
    """
    INSERT INTO taskqueues_submitpool (id, vo_id, requirements, refreshed_at, last_used_at)
    SELECT 'pool' || number, vo.id, '{}', now(), now() - number * interval '1 min'
      FROM accounts_vo AS vo, generate_series(1, 2000) AS number WHERE vo.name = 'vo' || number %% 4
    """,
    """
    INSERT INTO taskqueues_submitpool_queues (submitpool_id, queue_id)
    SELECT pool.id, queue.id FROM taskqueues_submitpool AS pool, resources_queue AS queue
     WHERE (hashtext(pool.id) + queue.id) %% 8 = 0
    """,
    # Changes of task queues, which earlier transactions have written.
    """
    INSERT INTO taskqueues_taskqueuechange (task_queue_id, user_priority, jobs, counted_in, xid)
    SELECT number %% 400, 1, 1, '', (number %% 500)::text::xid8 FROM generate_series(1, 20000) AS number
    """,
    # Accounts.
    """
    INSERT INTO accounts_failedlogin (name_digest, address, device, of_code, failed_at)
    SELECT sha256(number::text::bytea), '10.0.0.' || number %% 250, '', false, now() - number * interval '1 min'
      FROM generate_series(1, 5000) AS number
    """,
    """
    INSERT INTO accounts_securityevent (at, kind, actor_name, address, target, times, facts, row_type, row_id, vo_ids)
    SELECT now() - number * interval '3 min', CASE WHEN number %% 500 = 0 THEN 'token_issued' ELSE 'log_in' END,
           'user' || number %% 400, '', '', 1, '{}', CASE WHEN number %% 50 = 0 THEN 'accounts.group' ELSE '' END,
           CASE WHEN number %% 50 = 0 THEN number::text ELSE '' END,
           CASE WHEN number %% 50 = 0 THEN ARRAY[(SELECT min(id) + number %% 3 FROM accounts_vo)] END
      FROM generate_series(1, 150000) AS number
    """,
    """
    INSERT INTO accounts_invitation (group_id, username, created_at, expires_at, invited_by_id)
    SELECT accounts_group.id, 'new' || number, now(), now() + interval '1 d', NULL
      FROM accounts_group, generate_series(1, 100) AS number
    """,
    """
    INSERT INTO accounts_apitoken (user_id, name, digest, scope, created_at, expires_at)
    SELECT id, 'token' || number, sha256((username || number)::bytea), 'manage', now(), now() + interval '1 d'
      FROM accounts_user, generate_series(1, 10) AS number
    """,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """Some of the rows."""

    archive: JobArchive
    vo: VO
    group: Group
    #: Of few jobs, and of many.
    owner: User
    large_owner: User
    manager: User
    operator: User
    site: Site
    ce: ComputingElement
    queue: Queue
    #: Without living pilots.
    idle_queue: Queue
    #: With an open lease, on a host.
    pilot: Pilot
    match: Match
    #: Done, with an output, at a site.
    job: Job
    task_queue: TaskQueue


def fill() -> Filled:
    """Fill an empty database, and let the planner see it."""
    archive = fill_archive(jobs=JOBS, owners=OWNERS, seed=1, sizes=SIZES)
    pilots = Pilot.objects.count()
    with connection.cursor() as cursor:
        for statement in _FURTHER:
            cursor.execute(statement, {"waits_for_room": WAITS_FOR_ROOM, "pilots": pilots})
    _queue_jobs()
    counting.add_changes()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")
    match = Match.objects.filter(ended_at=None).order_by("pk").select_related("pilot__queue__ce__site", "job")[0]
    pilot = match.pilot
    queue = pilot.queue
    if queue is None:
        raise AssertionError("each pilot of the archive has a queue")
    group = Group.objects.get(name="group00")
    return Filled(
        archive=archive,
        vo=group.vo,
        group=group,
        owner=archive.actors["a small owner's"],
        large_owner=archive.actors["a large owner's"],
        manager=archive.actors["a VO's"],
        operator=archive.actors["all"],
        site=queue.ce.site,
        ce=queue.ce,
        queue=queue,
        idle_queue=Queue.objects.exclude(pilots__ended_at=None).order_by("pk")[0],
        pilot=pilot,
        match=match,
        job=Job.objects.filter(status="Done", output_sandbox__isnull=False).order_by("pk")[0],
        task_queue=TaskQueue.objects.order_by("pk")[0],
    )


@transaction.atomic
def _queue_jobs() -> None:
    members = Membership.objects.select_related("user", "group__vo").order_by("pk")
    queues = [make_task_queue(owner=each.user, group=each.group) for each in members]
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM taskqueues_queuedjob")
    taskqueues_sql.insert_queued_jobs(
        (number, queues[number % len(queues)].pk, 1 + number % 3) for number in range(1, 20_001)
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE taskqueues_queuedjob SET is_held_back = true, not_before = now() - interval '1 h',"
            " avoided_until = now() + interval '1 h', avoided_host = 'node' || job_id % 50, avoided_queue_ids = '{1}'"
            " WHERE job_id % 7 = 0"
        )
