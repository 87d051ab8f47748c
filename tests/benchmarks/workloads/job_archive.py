"""A year of jobs of many owners, most of which have ended, for lists and summaries: inserted by SQL, without histories.

Of rows beside jobs there are only those that lists read: submissions, pilots with their hosts, last matches, and queued
jobs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from random import Random
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Count
from psycopg import sql

from pilots.domain.pilot import PilotStatus
from resources.models import ComputingElement, Queue, Site
from tests.benchmarks.workloads.loaded import OPERATOR, SETUP, ce_name
from tests.benchmarks.workloads.loading import copy_into, without_indexes
from wms.accounts.domain import GroupProperty
from wms.accounts.models import VO, Group, Membership, User
from wms.jobs.domain.description import as_stored, parse
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.services import counting

VOS = 4
GROUPS = 40
OWNERS = 400
SITES = 120
#: Every so manieth group shares its jobs (JOB_SHARING).
SHARING = 5
#: In this VO the jobs of a submission differ in name, type and label, so that a look at the submission decides nothing.
MIXED_VO = 3
HOSTS_OF_A_SITE = 200
JOBS_OF_A_PILOT = 10
#: {jobs of a submission: how often}.
SUBMISSIONS: Final[Mapping[int, int]] = MappingProxyType({1: 500, 10: 250, 100: 200, 1000: 45, 10_000: 5})
JOB_TYPES: Final[Mapping[str, int]] = MappingProxyType(
    {"User": 40, "MCSimulation": 35, "WGProduction": 12, "Sprucing": 6, "Merge": 4, "DataReconstruction": 2, "Test": 1}
)
#: Names of jobs, those of one submission numbered.
JOB_NAMES: Final = ("MC2026_{}", "ana-Bs2JpsiPhi-{}", "fit_toys_{}", "ntuple-2025-MagUp-{}", "job-{}", "merge_{}")
#: Parts of the names of a mixed submission, one for each job in turn.
SAMPLES: Final = ("B0", "Bs", "D0", "Lb", "Xic")
#: Labels of a mixed submission.
LABELS_OF_MIXED = 4
YEAR: Final = timedelta(days=365)
#: The last part of the jobs, which have not all ended.
RECENT: Final = 0.05
_RECENT_STATUSES: Final[Mapping[JobStatus, float]] = MappingProxyType(
    {
        JobStatus.WAITING: 45.0,
        JobStatus.RUNNING: 15.0,
        JobStatus.DONE: 30.0,
        JobStatus.FAILED: 4.0,
        JobStatus.KILLED: 2.0,
        JobStatus.MATCHED: 1.5,
        JobStatus.STALLED: 0.5,
        JobStatus.COMPLETING: 0.5,
        JobStatus.CHECKING: 1.0,
        JobStatus.HELD: 0.3,
        JobStatus.DELETED: 0.2,
    }
)
_OLD_STATUSES: Final[Mapping[JobStatus, float]] = MappingProxyType(
    {JobStatus.DONE: 85.0, JobStatus.FAILED: 8.0, JobStatus.KILLED: 4.0, JobStatus.DELETED: 3.0}
)
#: Of failed jobs, the first ones the most often.
EXIT_CODES: Final = (1, 134, 139, 137, 2, 127, 66, 255)

_MAKE_SUBMISSIONS = """
CREATE TEMPORARY TABLE load_submission (
    id uuid, first_job_id bigint, jobs integer, owner_id bigint, group_id bigint, vo_id bigint,
    job_type text, job_group text, prefix text, description jsonb, submitted_at timestamptz, is_recent boolean,
    is_mixed boolean
)
"""
#: {column of the table of jobs: expression over the tables of _DRAWN}.
JOB_COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "id": "job.id",
        "submission_id": "job.submission_id",
        "owner_id": "owner_id",
        "group_id": "group_id",
        "vo_id": "vo_id",
        "status": "status",
        "minor_status": "CASE status WHEN 'Done' THEN 'Execution Complete' ELSE '' END",
        "application_status": "''",
        "job_name": "name",
        "job_group": "job_group",
        "job_type": "job_type",
        "priority": "1",
        "stored_description_id": "stored_description_id",
        "submit_pools": "'{}'",
        "reschedules": "0",
        "site_id": "CASE WHEN was_matched THEN (%(site_ids)s::bigint[])[site] END",
        "ce_id": "CASE WHEN was_matched THEN (%(ce_ids)s::bigint[])[site] END",
        "queue_id": "CASE WHEN was_matched THEN (%(queue_ids)s::bigint[])[site] END",
        "pilot_id": "CASE WHEN was_matched THEN pilot END",
        "submitted_at": "submitted_at",
        "status_changed_at": "ended_at",
        "matched_at": "CASE WHEN was_matched THEN matched_at END",
        "started_at": "CASE WHEN was_matched THEN matched_at END",
        "heartbeat_at": "CASE WHEN was_matched THEN ended_at END",
        "ended_at": "CASE WHEN status = ANY(%(final)s) THEN ended_at END",
        "exit_code": "CASE status WHEN 'Done' THEN 0 WHEN 'Failed' THEN (%(exit_codes)s::integer[])[failure] END",
        "cpu_s": "CASE WHEN was_matched THEN 3500 * fraction END",
        "wall_s": "CASE WHEN was_matched THEN 3600 * fraction END",
        "max_memory_mb": "CASE WHEN was_matched THEN 1800 + 200 * fraction END",
    }
)
#: One row for each job with what is drawn for it; the last job of a site's pilot is of that site.
_DRAWN = """
SELECT first_job_id + number AS id, submission.id AS submission_id, owner_id, group_id, vo_id,
       CASE WHEN is_mixed THEN (%(types)s::text[])[1 + number %% %(number_of_types)s] ELSE job_type END AS job_type,
       CASE WHEN is_mixed THEN job_group || '-' || number %% %(labels)s ELSE job_group END AS job_group,
       replace(replace(prefix, '{}', lpad(number::text, 5, '0')),
               '[]', (%(samples)s::text[])[1 + number %% %(number_of_samples)s]) AS name,
       stored.id AS stored_description_id,
       submitted_at, is_recent,
       random() AS status_chance, random() AS fraction, 1 + floor(%(sites)s * random() ^ 2)::integer AS site,
       1 + floor(%(failures)s * random() ^ 2)::integer AS failure,
       floor(%(pilots_of_site)s * random())::bigint AS pilot_of_site
  FROM load_submission AS submission JOIN jobs_storeddescription AS stored USING (description),
       generate_series(0, jobs - 1) AS number
"""
_STORE_DESCRIPTIONS = (
    "INSERT INTO jobs_storeddescription (description) SELECT DISTINCT description FROM load_submission"
)
_STATUS = """
CASE WHEN is_recent THEN (%(recent_statuses)s::text[])[1 + width_bucket(status_chance, %(recent_bounds)s::float8[])]
     ELSE (%(old_statuses)s::text[])[1 + width_bucket(status_chance, %(old_bounds)s::float8[])] END
"""
_INSERT_JOBS = """
INSERT INTO jobs_job ({columns}) SELECT {expressions}
  FROM (SELECT drawn.*, {status} AS status FROM ({drawn}) AS drawn OFFSET 0) AS job,
       LATERAL (SELECT status <> ALL(%(unmatched)s) AS was_matched,
                       submitted_at + fraction * interval '5 h' AS matched_at,
                       submitted_at + fraction * interval '20 h' AS ended_at,
                       1 + (site - 1) * %(pilots_of_site)s::bigint + pilot_of_site AS pilot) AS derived
"""
_FILL = (
    """
    INSERT INTO jobs_submission (id, owner_id, group_id, submitted_at, body_digest)
    SELECT id, owner_id, group_id, submitted_at, sha256(first_job_id::text::bytea) FROM load_submission
    """,
    """
    INSERT INTO pilots_pilot (
        id, vo_id, queue_id, stamp, batch_id, status, status_reason, host_name, node, slot, drain_reason,
        submitted_at, started_at, ended_at
    )
    SELECT 1 + (site - 1) * %(pilots_of_site)s::bigint + number, (%(vo_ids)s::bigint[])[1 + number %% %(vos)s],
           (%(queue_ids)s::bigint[])[site], '', '', %(pilot_done)s, '',
           'node' || number %% %(hosts)s || '.' || (%(site_names)s::text[])[site], '{}', '{}', '', now(), now(), now()
      FROM generate_series(1, %(sites)s) AS site, generate_series(0, %(pilots_of_site)s - 1) AS number
    """,
    # The last match of each job, all of different requests.
    """
    INSERT INTO matching_match (
        id, job_id, pilot_id, request_id, ordinal, queue_id, cpu_segment_s, leased_at, expires_at, reported_status,
        ended_at, end_reason
    )
    SELECT gen_random_uuid(), id, pilot_id, gen_random_uuid(), 0, queue_id, 86400, matched_at,
           matched_at + interval '30 min', 'Running', ended_at, CASE WHEN ended_at IS NULL THEN '' ELSE 'finished' END
      FROM jobs_job WHERE pilot_id IS NOT NULL
    """,
    # Task queues are not made: no list reads them.
    """
    INSERT INTO taskqueues_queuedjob (job_id, task_queue_id, user_priority)
    SELECT id, owner_id, priority FROM jobs_job WHERE status = 'Waiting'
    """,
    "SELECT setval(pg_get_serial_sequence('jobs_job', 'id'), %(jobs)s)",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobArchive:
    """The jobs that were loaded, and users who see different parts of them."""

    jobs: int
    submissions: int
    #: {part of the jobs: a user who sees just that}.
    actors: Mapping[str, User]


def load_archive(*, jobs: int, seed: int) -> JobArchive:
    """Load this many jobs into an empty database, and put it in the order in which autovacuum leaves it."""
    archive = fill_archive(jobs=jobs, seed=seed)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")
        cursor.execute("CHECKPOINT")
    return archive


@transaction.atomic
def fill_archive(*, jobs: int, seed: int, owners: int = OWNERS, sizes: Mapping[int, int] = SUBMISSIONS) -> JobArchive:
    """Insert this many jobs of this many owners, in submissions of these sizes (as SUBMISSIONS)."""
    groups, people = _make_people(owners=owners)
    values = _make_places(jobs=jobs)
    submissions = _submissions(jobs, groups, people, Random(seed), of_sizes=sizes)
    _insert(submissions, values, seed=seed)
    counting.recount()  # the triggers that count were off
    return JobArchive(jobs=jobs, submissions=len(submissions), actors=_actors(groups, people))


def _make_people(*, owners: int) -> tuple[Sequence[Group], Sequence[User]]:
    """Make VOs with a manager each, groups, and owners, who are in one group each; and an operator."""
    vos = VO.objects.bulk_create(VO(name=f"vo{number}", setup=SETUP, setups=[SETUP]) for number in range(VOS))
    for vo in vos:
        vo.managers.add(User.objects.create(username=f"manager-of-{vo.name}", password="!"))
    groups = Group.objects.bulk_create(
        Group(
            name=f"group{number:02}",
            vo=vos[number % VOS],
            properties=[] if number % SHARING else [GroupProperty.JOB_SHARING],
        )
        for number in range(GROUPS)
    )
    people = User.objects.bulk_create(User(username=f"user{number:03}", password="!") for number in range(owners))
    Membership.objects.bulk_create(
        Membership(user=owner, group=groups[number % GROUPS]) for number, owner in enumerate(people)
    )
    User.objects.create(username=OPERATOR, password="!", operator=True)
    return groups, people


def _actors(groups: Sequence[Group], owners: Sequence[User]) -> Mapping[str, User]:
    """Return users by what they see: of owners the one with the fewest and with the most jobs, of others the most.

    Those of the mixed VO are apart.

    Args:
        groups: by number; the owner of a number is in the group of that number, modulo.
        owners: by number.
    """
    listed = Job.objects.exclude(status=JobStatus.DELETED).values_list("owner_id").annotate(Count("pk"))
    numbers = {owner.pk: number for number, owner in enumerate(owners)}
    jobs_of = {numbers[owner]: jobs for owner, jobs in listed}
    mixing = {number: jobs for number, jobs in jobs_of.items() if number % VOS == MIXED_VO}
    jobs_of = {number: jobs for number, jobs in jobs_of.items() if number not in mixing}
    alone = {number: jobs for number, jobs in jobs_of.items() if not groups[number % GROUPS].shares_jobs}
    sharing = jobs_of.keys() - alone.keys()
    jobs_of_group = Counter(dict.fromkeys(range(GROUPS), 0))
    for number, jobs in jobs_of.items():
        jobs_of_group[number % GROUPS] += jobs
    largest = max(jobs_of_group, key=lambda number: jobs_of_group[number])
    return MappingProxyType(
        {
            "a small owner's": owners[min(alone, key=lambda number: alone[number])],
            "a large owner's": owners[max(alone, key=lambda number: alone[number])],
            "a group's": owners[max(sharing, key=lambda number: jobs_of_group[number % GROUPS])],
            "a VO's": User.objects.get(managed_vos=groups[largest].vo_id),
            "all": User.objects.get(username=OPERATOR),
            "a mixing owner's": owners[max(mixing, key=lambda number: mixing[number])],
            "a mixing VO's": User.objects.get(managed_vos__name=f"vo{MIXED_VO}"),
        }
    )


def _make_places(*, jobs: int) -> Mapping[str, Any]:
    """Make sites with one computing element and queue each; return the values for the statements."""
    sites = Site.objects.bulk_create(Site(name=f"LCG.Site{number:03}.org") for number in range(SITES))
    ces = ComputingElement.objects.bulk_create(ComputingElement(site=site, name=ce_name(site.name)) for site in sites)
    queues = Queue.objects.bulk_create(Queue(ce=ce, name="grid", cpu_time_s=300_000) for ce in ces)
    return {
        "jobs": jobs,
        "sites": SITES,
        "vos": VOS,
        "hosts": HOSTS_OF_A_SITE,
        "pilots_of_site": max(1, jobs // JOBS_OF_A_PILOT // SITES),
        "vo_ids": list(VO.objects.order_by("pk").values_list("pk", flat=True)),
        "site_ids": [site.pk for site in sites],
        "site_names": [site.name.lower() for site in sites],
        "ce_ids": [ce.pk for ce in ces],
        "queue_ids": [queue.pk for queue in queues],
        "pilot_done": PilotStatus.DONE.value,
        "failures": len(EXIT_CODES),
        "exit_codes": list(EXIT_CODES),
        "types": list(JOB_TYPES),
        "number_of_types": len(JOB_TYPES),
        "labels": LABELS_OF_MIXED,
        "samples": list(SAMPLES),
        "number_of_samples": len(SAMPLES),
        "final": ["Done", "Failed", "Killed", "Deleted"],
        "unmatched": ["Waiting", "Checking", "Held"],
        **_bounds("recent", _RECENT_STATUSES),
        **_bounds("old", _OLD_STATUSES),
    }


def _bounds(name: str, shares: Mapping[JobStatus, float]) -> dict[str, object]:
    whole = sum(shares.values())
    bounds = [part / whole for part in accumulate(shares.values())][:-1]
    return {f"{name}_statuses": [status.value for status in shares], f"{name}_bounds": bounds}


def _submissions(
    jobs: int, groups: Sequence[Group], owners: Sequence[User], chance: Random, *, of_sizes: Mapping[int, int]
) -> Sequence[Sequence[object]]:
    """Return the rows of ``load_submission``, the oldest first."""
    sizes: list[int] = []
    rest = jobs
    while rest:
        # In a small archive none has most of the jobs.
        sizes.append(min(rest, max(1, jobs // 20), *chance.choices(list(of_sizes), list(of_sizes.values()))))
        rest -= sizes[-1]
    numbers = chance.choices(range(len(owners)), [(rank + 5) ** -1.0 for rank in range(len(owners))], k=len(sizes))
    types = chance.choices(list(JOB_TYPES), list(JOB_TYPES.values()), k=len(sizes))
    now = datetime.now(tz=UTC)
    rows = []
    first_job_id = 1
    for number, (size, owner, job_type) in enumerate(zip(sizes, numbers, types, strict=True)):
        group = groups[owner % GROUPS]
        job_group = f"campaign{number // 20}"
        prefix = f"{chance.choice(JOB_NAMES)}" if number % 2 else f"{job_group}_{{}}"
        is_mixed = owner % VOS == MIXED_VO
        if is_mixed:
            prefix = f"[]-{prefix}" if number % 4 < 2 else prefix.replace("{}", "[]_{}")
        rows.append(
            [
                UUID(int=chance.getrandbits(128), version=4),
                first_job_id,
                size,
                owners[owner].pk,
                group.pk,
                group.vo_id,
                job_type,
                job_group,
                prefix,
                _stored_description(job_type, job_group),
                now - YEAR * (1 - first_job_id / (jobs + 1)),
                first_job_id > (1 - RECENT) * jobs,
                is_mixed,
            ]
        )
        first_job_id += size
    return rows


def _stored_description(job_type: str, job_group: str) -> str:
    wanted = parse(
        {
            "executable": "run_simulation.sh",
            "arguments": "--events 2000 --seed 421337 --geometry run3-2026 --output histograms.root",
            "job_type": job_type,
            "job_group": job_group,
            "cpu_time_s": 86_400,
            "output_sandbox": ["*.log", "summary.json"],
            "environment": {"OMP_NUM_THREADS": "1"},
        }
    )
    return as_stored(wanted, setup=SETUP)


def _insert(submissions: Sequence[Sequence[object]], values: Mapping[str, Any], *, seed: int) -> None:
    insert_jobs = sql.SQL(_INSERT_JOBS).format(
        columns=sql.SQL(", ").join(map(sql.Identifier, JOB_COLUMNS)),
        expressions=sql.SQL(", ").join(map(sql.SQL, JOB_COLUMNS.values())),
        drawn=sql.SQL(_DRAWN),
        status=sql.SQL(_STATUS),
    )
    columns = (
        "id first_job_id jobs owner_id group_id vo_id job_type job_group prefix description submitted_at is_recent "
        "is_mixed"
    )
    with (
        connection.cursor() as cursor,
        without_indexes(("jobs_submission", "jobs_job", "pilots_pilot", "matching_match")),
    ):
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("SELECT setseed(%s)", [seed % 1000 / 1000])
        cursor.execute(_MAKE_SUBMISSIONS)
        copy_into("load_submission", columns.split(), submissions)
        cursor.execute(_STORE_DESCRIPTIONS)
        cursor.execute(insert_jobs, values)
        for statement in _FILL:
            cursor.execute(statement, values)
        cursor.execute("SET LOCAL session_replication_role = origin")
