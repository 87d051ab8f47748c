"""``wal``: bytes of write-ahead log, statements and commits of a job's life, and bytes of database that it leaves."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import connection
from django.utils import timezone
from psycopg.pq import Trace

from matching.services import leases
from matching.services.match import match
from matching.services.offers import OfferRequest
from tests.benchmarks.heartbeats import WRITING, lines_of_output
from tests.benchmarks.machine import Pace
from tests.benchmarks.measuring import NotMeasurableError, Report, timed
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.loaded import LoadedWorkload, make_vo_and_sites
from tests.benchmarks.workloads.loading import description_of
from tests.benchmarks.workloads.uniform import uniform
from tests.clock import pass_time
from tests.factories import submit
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.services import counting
from wms.wire.protocol import Tails, Usage

#: Jobs of one request: of a campaign, and of somebody who submits one job after another.
REQUESTS = (100, 1)
QUEUES = 50
PILOTS = 1000
#: Jobs that live at the same time, before old rows are vacuumed.
ROUND = 500
VACUUM = "VACUUM"
#: With every so manieth operation the pace of the machine is sampled.
SAMPLED = 20

#: Types of messages to the server: one for each statement.
_STATEMENTS = frozenset({b"Query", b"Execute"})
#: Autovacuum would write at moments of its own; VACUUM is a phase instead.
_WITHOUT_AUTOVACUUM = """
DO $$
DECLARE
    name regclass;
BEGIN
    FOR name IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', name);
    END LOOP;
END
$$
"""
_TABLE_BYTES = """
SELECT relname, pg_total_relation_size(oid)
  FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""
_WAL = """
SELECT pg_wal_lsn_diff(%(until)s, %(since)s), sum(fpi_size),
       sum(count) FILTER (WHERE record LIKE 'Transaction/COMMIT%%')
  FROM pg_get_wal_stats(%(since)s, %(until)s, per_record => true) AS written (record)
"""
_RESOURCE_MANAGERS = "SELECT kind, record_size FROM pg_get_wal_stats(%s, %s) AS written (kind) WHERE record_size > 0"


@dataclass(slots=True)
class _Written:
    """Numbers of one phase of the lives of all jobs."""

    wal_bytes: int = 0
    #: Of these, images of pages that were written for the first time after a checkpoint.
    image_bytes: int = 0
    #: Bytes of records without images, by PostgreSQL's resource manager.
    bytes_of_manager: Counter[str] = field(default_factory=Counter)
    #: Of transactions that wrote something.
    commits: int = 0
    statements: int = 0

    def add(self, other: "_Written") -> None:
        """Add the numbers of another phase."""
        self.wal_bytes += other.wal_bytes
        self.image_bytes += other.image_bytes
        self.bytes_of_manager += other.bytes_of_manager
        self.commits += other.commits
        self.statements += other.statements


def run(ready: Surroundings, options: Options) -> Report:
    """Let jobs live from their submission to their end, those of requests of each size apart."""
    workload = uniform(queues=QUEUES, jobs=QUEUES, seed=options.seed)
    loaded = make_vo_and_sites(workload, pilots=PILOTS, now=timezone.now())
    report = Report(
        benchmark="wal",
        sizes={
            "jobs of each kind": options.operations,
            "heartbeats of a job": options.heartbeats,
            "full_page_writes": _setting("full_page_writes"),
            "wal_level": _setting("wal_level"),
        },
    )
    _execute("CREATE EXTENSION IF NOT EXISTS pg_walinspect")
    _execute(_WITHOUT_AUTOVACUUM)
    pace = Pace()
    warm_up = min(ROUND, options.operations)
    # Jobs whose tables get their first pages, and whose old rows make room, once.
    first_lives = _Lives(loaded, pace=pace, jobs=warm_up, at_once=max(REQUESTS), seed=options.seed)
    _live(_Phases(), first_lives, heartbeats=options.heartbeats)
    for at_once in REQUESTS:
        phases = _Phases()
        bytes_before = _table_bytes()
        for first in range(0, options.operations, ROUND):
            jobs = min(ROUND, options.operations - first)
            lives = _Lives(loaded, pace=pace, jobs=jobs, at_once=at_once, seed=options.seed + first)
            _live(phases, lives, heartbeats=options.heartbeats)
        _add_to(report, phases, what=f"requests of {at_once}", jobs=options.operations, bytes_before=bytes_before)
    report.facts["slowness of the machine meanwhile"] = pace.slowness()
    return report


def _live(phases: "_Phases", lives: "_Lives", *, heartbeats: int) -> None:
    """Let some jobs live together; afterwards the space of their old rows is free for others."""
    _execute("CHECKPOINT")
    with phases.measured("submission") as times_s:
        times_s.extend(lives.submit())
    with phases.measured("match") as times_s:
        times_s.extend(lives.match())
    with phases.measured("report of Running") as times_s:
        times_s.extend(lives.start())
    with phases.measured(f"{heartbeats} heartbeats") as times_s:
        for _ in range(heartbeats):
            times_s.extend(lives.beat())
    with phases.measured("end") as times_s:
        times_s.extend(lives.finish())
    with phases.measured("addition to the counters") as times_s:
        times_s.append(timed(counting.add_changes)[1])
    with phases.measured(VACUUM) as times_s:
        times_s.append(timed(partial(_execute, "VACUUM"))[1])


def _add_to(report: Report, phases: "_Phases", *, what: str, jobs: int, bytes_before: Mapping[str, int]) -> None:
    whole = _Written()
    for phase, written in phases.written.items():
        if times_s := phases.times_s[phase]:
            report.add(f"{what}, {phase}", times_s)
        report.facts[f"{what}, {phase}, of a job"] = _in_words(written, jobs=jobs)
        if phase != VACUUM:
            whole.add(written)
    report.facts |= {
        f"{what}, whole life, of a job": _in_words(whole, jobs=jobs),
        f"{what}, WAL bytes of a life without page images": (whole.wal_bytes - whole.image_bytes) / jobs,
        f"{what}, WAL bytes of a life with page images": whole.wal_bytes / jobs,
    }
    for manager, record_bytes in whole.bytes_of_manager.most_common(4):
        report.facts[f"{what}, WAL bytes of a life by {manager}"] = record_bytes / jobs
    grown = {name: size - bytes_before[name] for name, size in _table_bytes().items() if size > bytes_before[name]}
    report.facts[f"{what}, bytes of database of an ended job"] = sum(grown.values()) / jobs
    for name, size in sorted(grown.items(), key=lambda item: -item[1]):
        report.facts[f"{what}, bytes of an ended job in {name}"] = size / jobs


def _in_words(written: _Written, *, jobs: int) -> str:
    return (
        f"{(written.wal_bytes - written.image_bytes) / jobs:,.0f} bytes of WAL and"
        f" {written.image_bytes / jobs:,.0f} of page images,"
        f" {written.commits / jobs:.2f} commits, {written.statements / jobs:.2f} statements"
    )


class _Lives:
    """Jobs that go through their lives together, step by step, each step of each job by the service for it."""

    def __init__(self, loaded: LoadedWorkload, *, pace: Pace, jobs: int, at_once: int, seed: int) -> None:
        self.jobs = jobs
        self._loaded = loaded
        self._pace = pace
        self._at_once = at_once
        self._chance = Random(seed)
        self._pilots = [pilot for of_site in loaded.pilots.values() for pilot in of_site]
        self._match_ids: list[UUID] = []
        self._beats = 0

    def submit(self) -> list[float]:
        """Submit all jobs, those of one request by one user and of one definition."""
        return [self._submit(min(self._at_once, self.jobs - first)) for first in range(0, self.jobs, self._at_once)]

    def match(self) -> list[float]:
        """Lease each job to a random pilot, which offers everything."""
        workload = self._loaded.workload
        offer = OfferRequest(
            platforms=workload.platforms, cpu_time_s=max(workload.offered_cpu_time_s), tags=workload.tags
        )
        return [self._match(offer) for _ in range(self.jobs)]

    def start(self) -> list[float]:
        """Report each payload as running."""
        return self._each(lambda lease: leases.report_status(lease, status=JobStatus.RUNNING))

    def beat(self) -> list[float]:
        """Send a heartbeat of each job after the usual time; some have new output."""
        pass_time(seconds=settings.WMS_HEARTBEAT_S)
        self._beats += 1
        return self._each(self._beat)

    def finish(self) -> list[float]:
        """Let each payload end well."""
        return self._each(
            lambda lease: leases.finish(lease, exit_code=0, minor=None, usage=self._usage(), output_sandbox=None)
        )

    def _submit(self, jobs: int) -> float:
        self._pace.sample()
        queue = self._chance.choice(self._loaded.workload.queues)
        # Any pilot may run it: which sites a queue accepts is no matter of this benchmark.
        body = {**description_of(queue), "sites": [], "banned_sites": [], "job_group": "campaign"}
        request = parse_submission({"jobs": [{**body, "job_name": f"job-{number}"} for number in range(jobs)]})
        owner = self._loaded.owners[queue.owner]
        return timed(lambda: submit(request, owner=owner, now=timezone.now()))[1]

    def _match(self, offer: OfferRequest) -> float:
        self._sample_pace(len(self._match_ids))
        pilot_id = self._chance.choice(self._pilots)
        claimed, taken_s = timed(
            lambda: match(offer, request_id=uuid4(), pilot_id=pilot_id, max_jobs=1, chance=self._chance)
        )
        if not claimed:
            raise NotMeasurableError("A waiting job was not matched by a pilot that offers everything.")
        self._match_ids.append(claimed[0].match_id)
        return taken_s

    def _beat(self, lease: UUID) -> None:
        output = lines_of_output(chance=self._chance) if self._chance.random() < WRITING else None
        leases.heartbeat(lease, usage=self._usage(), tails=Tails(output), acknowledged=[])

    def _usage(self) -> Usage:
        wall_s = 30.0 * self._beats + self._chance.random()
        return Usage(
            cpu_s=0.97 * wall_s, wall_s=wall_s, memory_mb=1800 + self._chance.random() * 200, disk_mb=50 + wall_s / 10
        )

    def _each(self, step: Callable[[UUID], object]) -> list[float]:
        times_s = []
        for number, match_id in enumerate(self._match_ids):
            self._sample_pace(number)
            times_s.append(timed(partial(step, match_id))[1])
        return times_s

    def _sample_pace(self, number: int) -> None:
        if number % SAMPLED == 0:
            self._pace.sample()


class _Phases:
    """What each phase writes, and the time of each of its operations, over all rounds."""

    def __init__(self) -> None:
        self.written: dict[str, _Written] = {}
        self.times_s: dict[str, list[float]] = {}

    @contextmanager
    def measured(self, phase: str) -> Iterator[list[float]]:
        """Add what this process writes until the end of the block, in which the list takes the times."""
        (since,) = _row("SELECT pg_current_wal_insert_lsn()")
        with tempfile.TemporaryFile() as messages:
            server = connection.connection.pgconn
            server.trace(messages.fileno())
            server.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
            try:
                yield self.times_s.setdefault(phase, [])
            finally:
                server.untrace()
            messages.seek(0)
            statements = sum(line.startswith(b"F\t") and line.split(b"\t", 3)[2] in _STATEMENTS for line in messages)
        (until,) = _row("SELECT pg_current_wal_flush_lsn()")
        wal_bytes, image_bytes, commits = _row(_WAL, {"since": since, "until": until})
        with connection.cursor() as cursor:
            cursor.execute(_RESOURCE_MANAGERS, [since, until])
            bytes_of_manager = Counter({manager: int(size) for manager, size in cursor.fetchall()})
        self.written.setdefault(phase, _Written()).add(
            _Written(
                wal_bytes=int(wal_bytes),
                image_bytes=int(image_bytes),
                bytes_of_manager=bytes_of_manager,
                commits=int(commits or 0),
                statements=statements,
            )
        )


def _table_bytes() -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(_TABLE_BYTES)
        return dict(cursor.fetchall())


def _setting(name: str) -> str:
    (value,) = _row("SELECT current_setting(%s)", [name])
    return str(value)


def _row(statement: str, parameters: Sequence[str] | Mapping[str, str] | None = None) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        row: tuple[Any, ...] = cursor.fetchone()
    return row


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
