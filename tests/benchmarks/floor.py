"""``floor``: a match beside the cheapest transaction with the same writes, in turns: ratios hold on any machine."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from random import Random
from time import time_ns
from uuid import UUID

import psutil
from django.db import connection

from matching.services.claim import RANDOM_BITS, Claimant, ClaimOutcome, claim, lease_id, seen_within_s
from pilots.models import Pilot
from taskqueues.services.index.shared import index
from tests.benchmarks.match import match_once
from tests.benchmarks.measuring import Report, timed
from tests.benchmarks.offers import draw_question
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.leasing import hold
from tests.benchmarks.workloads.loaded import LoadedWorkload
from tests.benchmarks.workloads.loading import load, loaded_sizes
from wms.kernel.fast.statements import query_directly

#: Of each kind before the next one has its turn.
BLOCK = 50
EMPTY, UPDATE, FLOOR = "an empty statement", "one update and its commit", "the floor: what a claim writes"
CLAIM, MATCH = "the claim's statement", "the whole match"

#: The rows that a claim writes, of a job and pilot known before, and no reads but theirs.
_FLOOR_TEXT = """
CREATE TABLE benchmark_counter (id integer PRIMARY KEY, n bigint NOT NULL);
INSERT INTO benchmark_counter VALUES (1, 0);
CREATE FUNCTION benchmark_floor(
    the_pilot bigint, the_request uuid, the_match uuid, the_job bigint, the_site bigint, the_ce bigint,
    the_queue bigint, seen_within_s double precision
) RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    right_now CONSTANT timestamptz := wms_now();
BEGIN
    DELETE FROM taskqueues_queuedjob WHERE job_id = the_job;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE jobs_job
       SET status = 'Matched', minor_status = 'At a site', status_changed_at = right_now, site_id = the_site,
           ce_id = the_ce, queue_id = the_queue, pilot_id = the_pilot, matched_at = right_now
     WHERE id = the_job;
    INSERT INTO jobs_jobhistory (job_id, changed_at, status, minor_status, application_status, source)
    VALUES (the_job, right_now, 'Matched', 'At a site', '', 'pilot ' || the_pilot);
    INSERT INTO matching_match (
        id, job_id, pilot_id, request_id, ordinal, queue_id, cpu_segment_s, leased_at, expires_at, reported_status,
        end_reason
    )
    VALUES (the_match, the_job, the_pilot, the_request, 0, the_queue, 1000, right_now, right_now, 'Matched', '');
    UPDATE pilots_pilot
       SET last_seen_at = right_now, matched_at = coalesce(matched_at, right_now)
     WHERE id = the_pilot
       AND (matched_at IS NULL OR (last_seen_at > right_now - make_interval(secs => seen_within_s)) IS NOT TRUE);
    RETURN true;
END
$$;
"""


_FLOOR = (
    "SELECT benchmark_floor($1::bigint, $2::uuid, $3::uuid, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::float8)"
)
_JOBS = """
SELECT job_id, task_queue_id, user_priority, cpu_time_s
  FROM taskqueues_queuedjob JOIN taskqueues_taskqueue AS task_queue ON task_queue.id = task_queue_id
 ORDER BY random() LIMIT %s
"""
#: As of a pilot of the workloads.
_SLOT = {"processors": 1_000_000, "memory_mb": 4000}


def run(ready: Surroundings, options: Options) -> Report:
    """Load the workload, and do what is compared in turns."""
    loaded = load(options.shape(), seed=options.seed)
    hold(loaded, jobs=options.leases)
    report = Report(benchmark="floor", sizes={**loaded_sizes(loaded), "open leases": options.leases})
    with connection.cursor() as cursor:
        cursor.execute(_FLOOR_TEXT)
        cursor.execute("SELECT pg_backend_pid()")
        backend = psutil.Process(int(cursor.fetchone()[0]))
    own = _Operations(loaded, seed=options.seed, times=options.operations)
    operations = {EMPTY: own.nothing, UPDATE: own.update, FLOOR: own.write, CLAIM: own.claim, MATCH: own.match}
    times_s: defaultdict[str, list[float]] = defaultdict(list)
    cpu_s: dict[str, float] = dict.fromkeys(operations, 0.0)
    for turn in range(-1, -(-options.operations // BLOCK)):
        for name, operation in operations.items():
            before = sum(backend.cpu_times()[:2])
            taken_s = [timed(operation) for _ in range(min(BLOCK, options.operations))]
            if turn >= 0:
                times_s[name] += [taken for done, taken in taken_s if done]
                cpu_s[name] += sum(backend.cpu_times()[:2]) - before
    report.facts |= _ratios({name: report.add(name, times).median_ms for name, times in times_s.items()})
    report.facts |= {f"CPU of PostgreSQL, µs, {name}": 1e6 * cpu_s[name] / len(times_s[name]) for name in operations}
    return report


def _ratios(medians: Mapping[str, float]) -> dict[str, float | int | str]:
    return {
        "the claim's statement / the floor": medians[CLAIM] / medians[FLOOR],
        "the whole match / the floor": medians[MATCH] / medians[FLOOR],
        "the floor / one update and its commit": medians[FLOOR] / medians[UPDATE],
    }


class _Operations:
    """The operations that are timed; each returns False if another one had taken its job."""

    def __init__(self, loaded: LoadedWorkload, *, seed: int, times: int) -> None:
        self._loaded, self._chance = loaded, Random(seed)
        self._places = list(Pilot.objects.values_list("pk", "queue__ce__site", "queue__ce", "queue"))
        with connection.cursor() as cursor:
            cursor.execute(_JOBS, [2 * (times + 2 * BLOCK)])
            self._jobs: Iterator[tuple[int, int, int, int]] = iter(cursor.fetchall())

    def nothing(self) -> bool:
        """Ask the database for nothing."""
        return bool(query_directly("nothing", "SELECT 1"))

    def update(self) -> bool:
        """Count in one row."""
        return bool(query_directly("update", "UPDATE benchmark_counter SET n = n + 1 WHERE id = 1 RETURNING n"))

    def write(self) -> bool:
        """Write what a claim writes."""
        job_id, *_ = next(self._jobs)
        pilot_id, *place = self._chance.choice(self._places)
        values = (pilot_id, self._id(), self._id(), job_id, *place, seen_within_s())
        return query_directly("floor", _FLOOR, *map(str, values)) == [("t",)]

    def claim(self) -> bool:
        """Claim a job of a level that is known."""
        _, task_queue_id, user_priority, cpu_time_s = next(self._jobs)
        pilot_id, site_id, ce_id, queue_id = self._chance.choice(self._places)
        claimant = Claimant(
            pilot_id=pilot_id, request_id=self._id(), site_id=site_id, ce_id=ce_id, queue_id=queue_id, slot=_SLOT
        )
        claimed = claim(
            claimant,
            ordinal=0,
            task_queue_id=task_queue_id,
            user_priority=user_priority,
            cpu_segment_s=cpu_time_s,
            searched=index.current().view.seen,
            chance=self._chance.random(),
            may_wait=False,
        )
        return claimed.answer == ClaimOutcome.LEASED

    def match(self) -> bool:
        """Match a random offer."""
        return match_once(draw_question(self._loaded, chance=self._chance), chance=self._chance)[0] == 1

    def _id(self) -> UUID:
        return lease_id(time_ms=time_ns() // 1_000_000, chance=self._chance.getrandbits(RANDOM_BITS))
