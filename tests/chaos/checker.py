"""The checker: what the database says, by its own SQL, against itself and against the ledger."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from tests.chaos.figures import Violation
from tests.chaos.ledger import DEAD_LEASE, REFUSED, RUN_TWICE, WRONG_ANSWER, Kind, Ledger

Rows = Sequence[Sequence[Any]]
#: Function that runs one statement and returns its rows.
Query = Callable[[str], Rows]

LOST = "No accepted job is lost"
UNKNOWN = "Each job was accepted once"
ENDED_OTHERWISE = "A job ends as its pilot or its owner was told"
NO_OUTPUT = "No acknowledged output is missing"
LEFT_OVER = "At the end nothing is left running"
QUEUED = "A waiting job, and no other, is in a task queue"
LEASED = "A job that a pilot holds, and no other, has an open lease"
COUNTS = "The counts of jobs are those of a recount"
COUNTS_OF_SITES = "The counts of jobs of sites are those of a recount"
LIMITS = "The counters of a limit are those of a recount"
HISTORY = "The history of a job ends with its status"
TIMES = "The times of a job are the database's"
SHARED = "The priorities of a group's task queues add up to its share"
_HELD = "('Matched', 'Running', 'Stalled', 'Completing')"

#: {invariant: a statement that returns what violates it, at any moment; one snapshot each}.
AT_ANY_MOMENT: Final[Mapping[str, str]] = {
    RUN_TWICE: """
        SELECT 'job', one.job_id, 'leases', one.id, other.id
          FROM matching_match AS one JOIN matching_match AS other ON other.job_id = one.job_id AND other.id <> one.id
         WHERE one.leased_at <= other.leased_at AND coalesce(one.ended_at, 'infinity') > other.leased_at
    """,
    QUEUED: """
        SELECT 'job', coalesce(job.id, queued.job_id), job.status
          FROM jobs_job AS job FULL JOIN taskqueues_queuedjob AS queued ON queued.job_id = job.id
         WHERE (coalesce(job.status, '') = 'Waiting') <> (queued.job_id IS NOT NULL)
    """,
    LEASED: f"""
        SELECT 'job', job.id, job.status
          FROM jobs_job AS job
          LEFT JOIN matching_match AS lease ON lease.job_id = job.id AND lease.ended_at IS NULL
         WHERE (job.status IN {_HELD} AND lease.id IS NULL)
            OR (job.status IN ('Waiting', 'Held', 'Done', 'Failed') AND lease.id IS NOT NULL)
    """,
    COUNTS: """
        WITH counted AS (
            SELECT owner_id, group_id, status, job_type, sum(jobs) AS jobs FROM jobs_currentjobcount GROUP BY 1, 2, 3, 4
        ), really AS (
            SELECT owner_id, group_id, status, job_type, count(*) AS jobs FROM jobs_job GROUP BY 1, 2, 3, 4
        )
        SELECT status, 'counted', counted.jobs, 'are', really.jobs
          FROM counted FULL JOIN really USING (owner_id, group_id, status, job_type)
         WHERE coalesce(counted.jobs, 0) <> coalesce(really.jobs, 0)
    """,
    COUNTS_OF_SITES: """
        WITH counted AS (
            SELECT coalesce(site_id, 0) AS site, status, sum(jobs) AS jobs FROM jobs_currentsitejobcount GROUP BY 1, 2
        ), really AS (
            SELECT coalesce(site_id, 0) AS site, status, count(*) AS jobs FROM jobs_job GROUP BY 1, 2
        )
        SELECT status, 'counted', counted.jobs, 'are', really.jobs FROM counted FULL JOIN really USING (site, status)
         WHERE coalesce(counted.jobs, 0) <> coalesce(really.jobs, 0)
    """,
    LIMITS: f"""
        SELECT 'limit', a_limit.id, 'counted', counted.jobs, 'are', really.jobs
          FROM taskqueues_limit AS a_limit
         CROSS JOIN LATERAL (
             SELECT (SELECT coalesce(sum(used), 0) FROM taskqueues_limitslot WHERE limit_id = a_limit.id)
                  - (SELECT coalesce(sum(jobs_left), 0) FROM taskqueues_limitevent WHERE limit_id = a_limit.id) AS jobs
         ) AS counted
         CROSS JOIN LATERAL (
             SELECT count(*) AS jobs FROM jobs_job AS job
              WHERE job.status IN {_HELD} AND coalesce(a_limit.site_id = job.site_id, true)
                AND coalesce(a_limit.vo_id = job.vo_id, true) AND coalesce(a_limit.group_id = job.group_id, true)
                AND coalesce(a_limit.user_id = job.owner_id, true)
         ) AS really
         WHERE a_limit.running IS NOT NULL AND (counted.jobs <> really.jobs OR really.jobs > a_limit.running)
    """,
    HISTORY: """
        SELECT 'job', job.id, job.status, last.status
          FROM jobs_job AS job
         CROSS JOIN LATERAL (
             SELECT status FROM jobs_jobhistory WHERE job_id = job.id ORDER BY id DESC LIMIT 1
         ) AS last
         WHERE last.status <> job.status
    """,
    # A process that is stopped for seconds writes a time that it has read before.
    TIMES: """
        SELECT 'job', line.job_id, line.status, line.changed_at
          FROM (SELECT *, lag(changed_at) OVER (PARTITION BY job_id ORDER BY id) AS before FROM jobs_jobhistory) AS line
         WHERE line.changed_at > clock_timestamp() + interval '1 s'
            OR line.changed_at < line.before - interval '30 s'
    """,
}
#: As above, when priorities have been recalculated since the last change.
SHARES: Final[Mapping[str, str]] = {
    SHARED: """
        SELECT a_group.name, 'share', a_group.priority, 'priorities', sum(queue.priority)
          FROM taskqueues_taskqueue AS queue JOIN accounts_group AS a_group ON a_group.id = queue.group_id
         WHERE EXISTS (SELECT FROM taskqueues_queuedjob WHERE task_queue_id = queue.id)
         GROUP BY a_group.id HAVING abs(sum(queue.priority) - a_group.priority) > 1e-6 * a_group.priority
    """
}
#: As above, when all jobs have ended, and all pilots.
AT_THE_END: Final[Mapping[str, str]] = {
    LEFT_OVER: """
        SELECT 'job', id::text, status FROM jobs_job WHERE status NOT IN ('Done', 'Failed', 'Killed', 'Deleted')
        UNION ALL SELECT 'lease', id::text, 'open' FROM matching_match WHERE ended_at IS NULL
        UNION ALL SELECT 'pilot', id::text, status FROM pilots_pilot WHERE ended_at IS NULL
    """
}
_JOBS = """
    SELECT job.id, job.status, coalesce(sandbox.digest, '')
      FROM jobs_job AS job LEFT JOIN jobs_sandbox AS sandbox ON sandbox.id = job.output_sandbox_id
"""


def broken(query: Query, statements: Mapping[str, str]) -> Iterator[Violation]:
    """Yield what violates the invariants that are one statement each."""
    for invariant, statement in statements.items():
        for row in query(statement):
            yield Violation(invariant=invariant, what=" ".join(map(str, row)))


def against_ledger(query: Query, ledger: Ledger, *, sandboxes: Path) -> Iterator[Violation]:
    """Yield what differs between the database, when all jobs have ended, and what the clients were told.

    Args:
        query: of the database.
        ledger: of all clients.
        sandboxes: the directory with the contents of sandboxes.
    """
    jobs = {job: (status, output) for job, status, output in query(_JOBS)}
    yield from (Violation(invariant=LOST, what=f"job {job}") for job in sorted(ledger.accepted.keys() - jobs.keys()))
    yield from (Violation(invariant=UNKNOWN, what=f"job {job}") for job in sorted(jobs.keys() - ledger.accepted.keys()))
    statuses = {job: status for job, (status, _) in jobs.items()}
    yield from _ended_otherwise(statuses, ledger)
    for end in ledger.ends:
        if end.told and end.output and end.exit_code != 222 and end.job in jobs:
            yield from _missing_output(end.job, end.output, jobs[end.job], sandboxes)


def _ended_otherwise(statuses: Mapping[int, str], ledger: Ledger) -> Iterator[Violation]:
    sent: dict[int, set[int]] = defaultdict(set)
    told: dict[int, set[int]] = defaultdict(set)
    for end in ledger.ends:
        sent[end.job].add(end.exit_code)
        told[end.job] |= {end.exit_code} if end.told else set()
    for job in statuses.keys() & ledger.accepted.keys():
        if statuses[job] not in _possible(job, ledger, sent=sent[job], told=told[job]):
            codes = f"exit codes sent {sorted(sent[job])}, accepted {sorted(told[job])}"
            yield Violation(invariant=ENDED_OTHERWISE, what=f"job {job} is {statuses[job]}; {codes}")


def _possible(job: int, ledger: Ledger, *, sent: Iterable[int], told: Iterable[int]) -> frozenset[str]:
    """Return the statuses that a job may have, by the exit codes that pilots sent, and were told to be accepted."""
    if job in ledger.killed:
        return frozenset({"Killed"})
    if ledger.accepted[job] is Kind.PARKED:
        return frozenset({"Waiting", "Killed"})
    if ledger.accepted[job] is Kind.REAL:  # it runs again until its payload has ended by itself, with 0
        return frozenset({"Done"})
    status_of = {0: "Done", 1: "Failed"}
    accepted = {status_of[code] for code in told if code in status_of}
    ends = accepted or {status_of[code] for code in sent if code in status_of}
    return frozenset(ends | ({"Killed"} if job in ledger.perhaps_killed else set()))


def _missing_output(job: int, output: str, found: tuple[str, str], sandboxes: Path) -> Iterator[Violation]:
    status, digest = found
    if status == "Killed" and not digest:
        return
    if f"sha256:{digest}" != output:
        yield Violation(invariant=NO_OUTPUT, what=f"job {job} has {digest or 'none'}, acknowledged was {output}")
        return
    file = sandboxes / digest[:2] / digest[2:]
    if not file.exists() or sha256(file.read_bytes()).hexdigest() != digest:
        yield Violation(invariant=NO_OUTPUT, what=f"the file of job {job}, {file}, is not there whole")


#: All invariants by name, each of which tests/chaos/test_checker.py violates.
INVARIANTS: Final = frozenset(
    {*AT_ANY_MOMENT, *SHARES, *AT_THE_END, LOST, UNKNOWN, ENDED_OTHERWISE, NO_OUTPUT, DEAD_LEASE, WRONG_ANSWER, REFUSED}
)
