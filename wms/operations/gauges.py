"""The gauges of the system: names, meanings and labels, and how each is read.

Each is read by at most a few statements over counters, small tables and indexes of what lives; none reads the waiting
jobs, of which there may be millions. The values of labels are words of this program, and names that managers and
operators configure, never of users.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from django.db.models import Count, Model, QuerySet, Sum

from matching.models import ExpirerRun
from matching.queries.shares import portions_of
from matching.queries.unmatched_counts import waiting_by_reason
from pilots.models import BlackHole, CEHealth, DirectorRun, Pilot
from resources.domain.enums import ThrottlePolicy
from resources.models import Site
from resources.queries.throttles import standings
from taskqueues.models import UsageCounter
from wms.accounts.models import VO, Group
from wms.jobs.models import CurrentJobCount, CurrentSiteJobCount
from wms.jobs.models.jobs import LEASED_STATUSES
from wms.kernel.clock import clock_ahead
from wms.kernel.liveness import latest_runs, reports
from wms.kernel.runs import Run
from wms.operations import database
from wms.operations.broker import queue_depths
from wms.operations.disks import disks
from wms.operations.models import LastBackup
from wms.operations.parts import read_parts

#: {values of the labels: number}.
Numbers: TypeAlias = Mapping[tuple[str, ...], float]

#: Tables with fewer dead rows are left out: autovacuum begins at 50.
_FEW_DEAD_ROWS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """One gauge of /metrics."""

    name: str
    #: What it counts or measures, in one sentence without a full stop; also in docs/monitoring.md.
    meaning: str
    labels: tuple[str, ...] = ()
    #: Returns the numbers at a time of the database's clock.
    read: Callable[[datetime], Numbers]


def _jobs(_now: datetime) -> Numbers:
    return _sums(CurrentJobCount.objects.all(), "vo__name", "status")


def _jobs_at_sites(_now: datetime) -> Numbers:
    # Uses index: job_count_of_site
    at_sites = CurrentSiteJobCount.objects.filter(site__isnull=False, status__one_of=LEASED_STATUSES)
    return _sums(at_sites, "site__name", "status")


def _sums(counts: "QuerySet[Model]", *labels: str) -> Numbers:
    rows = counts.order_by().values_list(*labels).annotate(sum=Sum("jobs"))
    return {(*of,): number for *of, number in rows if number}


def _waiting(now: datetime) -> Numbers:
    numbers = waiting_by_reason(now)
    name_of = dict(VO.objects.filter(pk__in={vo_id for vo_id, _ in numbers}).values_list("pk", "name"))
    return {(name_of[vo_id], str(reason)): number for (vo_id, reason), number in numbers.items() if vo_id in name_of}


def _pilots(_now: datetime) -> Numbers:
    # Uses index: pilot_alive_at_queue
    living = Pilot.objects.filter(ended_at=None).order_by()
    rows = living.values_list("queue__ce__site__name", "site__name", "status").annotate(number=Count("pk"))
    numbers: Counter[tuple[str, ...]] = Counter()
    for of_queue, of_pilot, status, number in rows:
        numbers[of_queue or of_pilot or "", status] += number
    return numbers


def _delivered_over_share(now: datetime) -> Numbers:
    names = {pk: (vo, group) for pk, vo, group in Group.objects.values_list("pk", "vo__name", "name")}
    portions = portions_of(list(VO.objects.values_list("pk", flat=True)), now=now)
    return {
        names[pk]: portion.delivered / portion.configured
        for pk, portion in portions.items()
        if portion.delivered is not None and portion.configured > 0 and pk in names
    }


def _failed_rounds(_now: datetime) -> Numbers:
    rows = CEHealth.objects.values_list("ce__site__name", "ce__name", "failures")
    return {(site, ce): failures for site, ce, failures in rows}


def _black_holes(now: datetime) -> Numbers:
    rows = BlackHole.objects.in_force(now=now).order_by().values_list("site__name").annotate(hosts=Count("pk"))
    return {(site,): hosts for site, hosts in rows}


def _last_runs(_now: datetime) -> Numbers:
    loops = {
        "directors": DirectorRun.objects.values_list("ran_at", flat=True).first(),
        "expirer": ExpirerRun.objects.values_list("ran_at", flat=True).first(),
        "usage": UsageCounter.objects.values_list("counted_until", flat=True).first(),
        **{name: report.reported_at for name, report in reports().items()},
    }
    return {(name,): at.timestamp() for name, at in loops.items() if at is not None}


def _of_tasks(number: Callable[[Run], float | None]) -> Callable[[datetime], Numbers]:
    """Return what reads one number of the last run of each periodic task; None: there is none."""

    def read(_now: datetime) -> Numbers:
        runs = latest_runs(reports().values())
        return {(task,): value for task, run in runs.items() if (value := number(run)) is not None}

    return read


def _restarts(_now: datetime) -> Numbers:
    parts = read_parts()
    return {} if parts is None else {(part.name,): part.restarts for part in parts.parts}


def _waiting_tasks(_now: datetime) -> Numbers:
    return {(queue,): number for queue, number in (queue_depths() or {}).items()}


def _closed_throttles(now: datetime) -> Numbers:
    sites = Site.objects.exclude(throttle_policy=ThrottlePolicy.NONE).in_bulk()
    return {
        (sites[pk].name,): float(not standing.accepting) for pk, standing in standings(sites.values(), now=now).items()
    }


def _last_backup(_now: datetime) -> Numbers:
    last = LastBackup.objects.first()
    return {} if last is None else {(): last.finished_at.timestamp()}


def _connections(_now: datetime) -> Numbers:
    return {(name,): number for name, number in database.connections().items()}


def _longest_transaction(_now: datetime) -> Numbers:
    longest = database.longest_transaction()
    return {(): 0.0 if longest is None else longest.seconds}


def _dead_rows(_now: datetime) -> Numbers:
    return {(table,): number for table, number in database.dead_rows().items() if number >= _FEW_DEAD_ROWS}


GAUGES: Final = (
    Gauge(name="wms_jobs", labels=("vo", "status"), meaning="Jobs by status", read=_jobs),
    Gauge(
        name="wms_waiting_jobs",
        labels=("vo", "reason"),
        meaning="Waiting jobs by the first reason that is true: owner (suspended or no member), pilot (an open queue "
        "fits), limit (without room), closed (queues that fit are closed), no_queue (none fits)",
        read=_waiting,
    ),
    Gauge(
        name="wms_site_jobs",
        labels=("site", "status"),
        meaning="Jobs that pilots of a site have; Stalled ones have late heartbeats",
        read=_jobs_at_sites,
    ),
    Gauge(name="wms_pilots", labels=("site", "status"), meaning="Pilots that have not ended", read=_pilots),
    Gauge(
        name="wms_delivered_share_ratio",
        labels=("vo", "group"),
        meaning="Part of its VO's time under lease that a group got in the last day, over its configured part",
        read=_delivered_over_share,
    ),
    Gauge(
        name="wms_ce_failed_rounds",
        labels=("site", "ce"),
        meaning="Rounds at a computing element that have failed in a row; 0 after one that succeeded",
        read=_failed_rounds,
    ),
    Gauge(
        name="wms_black_holes", labels=("site",), meaning="Hosts that get no jobs, as black holes", read=_black_holes
    ),
    Gauge(
        name="wms_throttle_closed",
        labels=("site",),
        meaning="Whether the throttle of a site lets no job pass now (1) or some (0)",
        read=_closed_throttles,
    ),
    Gauge(
        name="wms_last_run_timestamp_seconds",
        labels=("part",),
        meaning="Last cycle of the directors, run of the expirer, count of usage, and report of beat and of the worker "
        "sites, as Unix time of the database's clock",
        read=_last_runs,
    ),
    Gauge(
        name="wms_task_start_timestamp_seconds",
        labels=("task",),
        meaning="Start of the last run of each periodic task, as Unix time of the database's clock",
        read=_of_tasks(lambda run: run.started_at.timestamp() if run.started_at else None),
    ),
    Gauge(
        name="wms_task_lateness_seconds",
        labels=("task",),
        meaning="Time between the moment at which beat was to send the last run of a periodic task, and its start",
        read=_of_tasks(lambda run: run.lateness_s if run.started_at else None),
    ),
    Gauge(
        name="wms_task_duration_seconds",
        labels=("task",),
        meaning="Duration of the last run of each periodic task that has ended",
        read=_of_tasks(lambda run: run.duration_s if run.ended_at else None),
    ),
    Gauge(
        name="wms_task_fails",
        labels=("task",),
        meaning="Whether the last run of a periodic task failed (1) or not (0)",
        read=_of_tasks(lambda run: float(run.failing_since is not None)),
    ),
    Gauge(
        name="wms_part_restarts",
        labels=("part",),
        meaning="Restarts of each part of the system since `up` was started, on the machine of the worker control",
        read=_restarts,
    ),
    Gauge(
        name="wms_waiting_tasks",
        labels=("queue",),
        meaning="Background tasks that wait in the broker for a worker; nothing while it does not answer",
        read=_waiting_tasks,
    ),
    Gauge(
        name="wms_database_connections",
        labels=("application",),
        meaning="Connections to the database server by the name of their program",
        read=_connections,
    ),
    Gauge(
        name="wms_database_connections_limit",
        meaning="Connections that the database server accepts",
        read=lambda _now: {(): database.most_connections()},
    ),
    Gauge(
        name="wms_database_longest_transaction_seconds",
        meaning="Age of the longest open transaction; 0: there is none",
        read=_longest_transaction,
    ),
    Gauge(
        name="wms_database_size_bytes",
        meaning="Size of the database with its indexes",
        read=lambda _now: {(): database.database_size_bytes()},
    ),
    Gauge(
        name="wms_database_dead_rows",
        labels=("table",),
        meaning=f"Dead rows that are not removed yet, of tables with at least {_FEW_DEAD_ROWS}",
        read=_dead_rows,
    ),
    Gauge(
        name="wms_last_backup_timestamp_seconds",
        meaning="End of the last run of `wms-server backup`, as Unix time of the database's clock; nothing before the "
        "first one",
        read=_last_backup,
    ),
    Gauge(
        name="wms_clock_ahead_seconds",
        meaning="Clock of the machine of the worker control minus that of the database",
        read=lambda _now: {(): clock_ahead().total_seconds()},
    ),
    Gauge(
        name="wms_disk_free_bytes",
        labels=("directory",),
        meaning="Free space on the volume of a directory of the server, on the machine of the worker control",
        read=lambda _now: {(disk.path,): disk.free_bytes for disk in disks()},
    ),
    Gauge(
        name="wms_disk_size_bytes",
        labels=("directory",),
        meaning="Size of that volume",
        read=lambda _now: {(disk.path,): disk.total_bytes for disk in disks()},
    ),
)
