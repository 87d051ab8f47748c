"""``lists``: first pages of lists of jobs, and numbers by status, by any filter and any two, of several users."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import combinations
from random import Random
from statistics import median
from string import digits
from types import MappingProxyType
from typing import Any, Final

from django.db import OperationalError, connection

from pilots.models import Pilot
from tests.benchmarks.machine import Pace
from tests.benchmarks.measuring import NotMeasurableError, Report, say, timed
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.job_archive import JobArchive, load_archive
from wms.accounts.models import User
from wms.jobs import queries
from wms.jobs.filters import JobFilterSet
from wms.jobs.models import Job
from wms.jobs.queries.found_jobs import Extent
from wms.kernel.rest.pages import DEFAULT_PAGE_SIZE

JOBS = 1_000_000
REACH_MS = 50.0
#: A statement that takes longer is stopped, and counts as so long.
LONGEST_S = 2.0
#: Exit code filtered by where a job has none.
FAILURE = 1
#: Of the slowest figures, in the facts.
SLOWEST = 10


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of the list, and its value that suits a job."""

    parameter: str
    value_for: Callable[[Job], str]


#: {filter: its parameter and value}. A filter of several values is measured once more under another name; two with the
#: same parameter make no pair.
FILTERS: Final[Mapping[str, Filter]] = MappingProxyType(
    {
        "status": Filter("status", lambda job: job.status),
        "statuses": Filter("status", lambda job: f"{job.status},Failed,Killed"),
        "site": Filter("site", lambda job: job.site.name if job.site else "LCG.Site001.org"),
        "submission": Filter("job_group_id", lambda job: str(job.submission_id)),
        "name": Filter("job_name", lambda job: job.job_name),
        "name pattern": Filter("job_name", lambda job: f"{job.job_name.rstrip(digits)}*"),
        "label": Filter("job_group", lambda job: job.job_group),
        "type": Filter("job_type", lambda job: job.job_type),
        "exit code": Filter("exit_code", lambda job: str(FAILURE if job.exit_code is None else job.exit_code)),
        "host": Filter("host", lambda job: _host(job) or "node1.lcg.site001.org"),
        "since": Filter("submitted_after", lambda job: _utc(job.submitted_at - timedelta(days=7))),
        "owner": Filter("owner", lambda job: job.owner.username),
        "group": Filter("group", lambda job: job.group.name),
    }
)


#: Of FILTERS, those for which lists are to be fast together with any other of them.
WANTED: Final = frozenset(
    {
        *("status", "statuses", "site", "submission", "name", "name pattern", "exit code", "host", "since", "owner"),
    }
)
#: {part of the jobs: whose view it is}; the figures over all choices are apart for each.
CALLERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "a small owner's": "own",
        "a large owner's": "own",
        "a mixing owner's": "own",
        "a group's": "group",
        "a VO's": "VO",
        "a mixing VO's": "VO",
        "all": "operator",
    }
)


def first_page(chosen: Mapping[str, str], actor: User) -> None:
    """Read what ``JobPages`` reads for its first page."""
    queries.listed(_filters(chosen), Extent(at_most=DEFAULT_PAGE_SIZE + 1), by=actor)


def summary(chosen: Mapping[str, str], actor: User) -> None:
    """Read what ``JobSummaryView`` reads."""
    list(queries.summary(_filters(chosen), by=actor, group_by=("status",)))


def _filters(chosen: Mapping[str, str]) -> JobFilterSet:
    filters = JobFilterSet(dict(chosen))
    if not filters.is_valid():
        raise NotMeasurableError(f"These filters are not valid: {filters.errors.as_json()}")
    return filters


#: {what is read: function of the filters' parameters and the user}.
READINGS: Final[Mapping[str, Callable[[Mapping[str, str], User], None]]] = MappingProxyType(
    {"list": first_page, "summary": summary}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The slowest reading with one choice of filters."""

    what: str
    reading: str
    actor: User
    #: Names of FILTERS.
    names: Sequence[str]
    part: str
    chosen: Mapping[str, str]
    taken_s: float


def run(ready: Surroundings, options: Options) -> Report:
    """Load the archive; read each list and each summary repeatedly, each time with the values of another job."""
    begun = time.perf_counter()
    archive = load_archive(jobs=options.jobs or JOBS, seed=options.seed)
    report = Report(
        benchmark="lists", sizes={"jobs": archive.jobs, "submissions": archive.submissions, "repeated": options.repeat}
    )
    report.facts["seconds of loading"] = time.perf_counter() - begun
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = %s", [f"{LONGEST_S}s"])
    pace = Pace()
    slowest = sorted(_measured(report, archive, options, pace), key=lambda each: -each.taken_s)
    _add_callers(report, slowest)
    _add_numbers(report)
    for each in slowest[:SLOWEST]:
        report.facts[f"among the slowest: {each.what}, ms"] = 1000 * each.taken_s
    report.facts["slowness of the machine meanwhile"] = pace.slowness()
    if options.explain:
        report.facts["plan of the slowest"] = _plan(slowest[0])
    return report


def _measured(report: Report, archive: JobArchive, options: Options, pace: Pace) -> Iterator[_Reading]:
    """Add a figure for each user, reading and choice of filters; yield the slowest reading of each."""
    for part, actor in archive.actors.items():
        samples = _samples(actor, archive, count=options.repeat, seed=options.seed)
        say(f"  {part}")
        for names in _choices():
            for reading, read in READINGS.items():
                pace.sample()
                what = f"{part} {reading} by {' and '.join(names) or 'nothing'}"
                readings = [
                    _Reading(
                        what=what,
                        reading=reading,
                        actor=actor,
                        names=names,
                        part=part,
                        chosen=chosen,
                        taken_s=_taken_s(read, chosen, actor, warm=options.warm),
                    )
                    for chosen in (
                        {FILTERS[name].parameter: FILTERS[name].value_for(job) for name in names} for job in samples
                    )
                ]
                report.add(what, [each.taken_s for each in readings])
                yield max(readings, key=lambda each: each.taken_s)


def _choices() -> Iterator[Sequence[str]]:
    """Yield no filter, each filter, and any two of different parameters."""
    yield ()
    yield from ((name,) for name in FILTERS)
    for pair in combinations(FILTERS, 2):
        if len({FILTERS[name].parameter for name in pair}) == len(pair):
            yield pair


def _samples(actor: User, archive: JobArchive, *, count: int, seed: int) -> Sequence[Job]:
    """Return random jobs that the user sees and that are not Deleted, whose properties are filtered by."""
    chance = Random(seed)
    visible = Job.objects.visible_to(actor).exclude(status="Deleted").select_related("owner", "group", "site")
    first = [visible.filter(pk__gte=chance.randint(1, archive.jobs)).order_by("pk").first() for _ in range(count)]
    return [job or visible.order_by("pk")[:1].get() for job in first]


def _taken_s(
    read: Callable[[Mapping[str, str], User], None], chosen: Mapping[str, str], actor: User, *, warm: int
) -> float:
    """Return the seconds that the statements take: of *warm* readings after a first one the median, of 0 the first."""
    times = [_of_statements_s(lambda: read(chosen, actor)) for _ in range(1 + warm)]
    return median(times[1:] or times)


def _of_statements_s(read: Callable[[], None]) -> float:
    taken_s = 0.0

    def measure(execute: Callable[..., Any], *statement: object) -> Any:
        nonlocal taken_s
        result, its_s = timed(lambda: execute(*statement))
        taken_s += its_s
        return result

    try:
        with connection.execute_wrapper(measure):
            read()
    except OperationalError:
        return LONGEST_S  # the statement was stopped
    return taken_s


def _add_callers(report: Report, slowest: Iterable[_Reading]) -> None:
    """Add, for each kind of caller, the figures over its choices of filters, each by its slowest reading."""
    times: dict[str, list[float]] = defaultdict(list)
    for each in slowest:
        caller = f"{CALLERS[each.part]}: {each.reading}"
        times[f"{caller}, all choices"].append(each.taken_s)
        if WANTED.issuperset(each.names):
            times[f"{caller}, choices of wanted filters"].append(each.taken_s)
    for what in sorted(times):
        report.add(what, times[what])


def _add_numbers(report: Report) -> None:
    for reading in READINGS:
        figures = [figure for figure in report.figures if f" {reading} by " in figure.what]
        reached = sum(figure.p95_ms <= REACH_MS for figure in figures)
        report.facts[f"{reading}: choices of filters with a p95 of at most {REACH_MS:.0f} ms"] = (
            f"{reached} of {len(figures)}"
        )


def _plan(reading: _Reading) -> str:
    """Return the plan of the last statement of a reading."""
    statements: list[tuple[str, Any]] = []

    def note(execute: Callable[..., Any], statement: str, parameters: Any, many: bool, context: Any) -> Any:
        statements.append((statement, parameters))
        return execute(statement, parameters, many, context)

    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '60s'")
        with connection.execute_wrapper(note):
            READINGS[reading.reading](reading.chosen, reading.actor)
        statement, parameters = statements[-1]
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS) {statement}", parameters)
        plan = "\n".join(line for (line,) in cursor.fetchall())
    return f"{reading.what} {dict(reading.chosen)}\n{plan}"


def _host(job: Job) -> str | None:
    return Pilot.objects.filter(pk=job.pilot_id or 0).values_list("host_name", flat=True).first()


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
