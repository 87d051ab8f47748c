"""``portal``: each page beside a year of jobs, at rest and while jobs start and end, and hundreds of open pages."""

import http.client
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from random import Random
from threading import Event, Thread
from time import perf_counter
from types import MappingProxyType
from typing import Final

from django.conf import settings
from django.db import connection, transaction
from django.test import Client as Session
from django.utils import timezone

from tests.benchmarks.client import Answer, BadAnswerError, Client
from tests.benchmarks.http import PROCESSES, parts_of
from tests.benchmarks.machine import Pace, cpu_measured
from tests.benchmarks.measuring import NotMeasurableError, Report, timed
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings, Web
from tests.benchmarks.workloads.job_archive import JobArchive
from tests.benchmarks.workloads.portal_archive import load_portal_archive
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.services import transitions

JOBS = 1_000_000
#: Changes of statuses in a second, meanwhile: half of them starts, half ends.
CHANGES_PER_S = 20
#: Jobs that start and end meanwhile.
CHANGING_JOBS = 20_000
CONNECTIONS = 50
#: Seconds between two requests of an open page, as in live.js.
PERIOD_S = 4.2
_WITHIN_S: Final = 60

#: {page: its address; `{job}`, `{failed}` and `{waiting}` are jobs, `{submission}` a submission that the user sees}.
PAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "home": "/",
        "jobs": "/jobs/",
        "jobs, all that the user sees": "/jobs/?q=owner:*",
        "jobs by status": "/jobs/?q=owner:*+status:failed,killed",
        "jobs by site and status": "/jobs/?q=owner:*+site:LCG.Site001.org+status:done",
        "jobs by name": "/jobs/?q=owner:*+name:MC2026_1*",
        "submission": "/submissions/{submission}/",
        "submissions": "/submissions/",
        "failures": "/failures/",
        "job": "/jobs/{job}/",
        "failed job, errors": "/jobs/{failed}/?tab=errors",
        "waiting job, why": "/jobs/{waiting}/?tab=why",
        "why": "/jobs/why/",
        "submit": "/jobs/submit/",
        "task queues": "/task-queues/",
        "sites": "/sites/",
        "shares": "/shares/",
        "plots": "/plots/",
        "tokens": "/accounts/tokens/",
    }
)
_ETAG: Final = re.compile(rb"(?i)\r\netag: *([^\r]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A user with a session, and the pages that it opens."""

    what: str
    cookie: str
    #: {page: address}.
    addresses: Mapping[str, str]


def run(ready: Surroundings, options: Options) -> Report:
    """Load the archive, start the server, and open the pages one after another, then many at once."""
    archive = load_portal_archive(jobs=options.jobs or JOBS, seed=options.seed)
    readers = [_reader(what, user) for what, user in archive.actors.items()]
    report = Report(benchmark="portal", sizes={"jobs": archive.jobs, "submissions": archive.submissions})
    pace = Pace()
    with ready.web(processes=options.processes or PROCESSES) as web:
        open_pages = _OpenPages(options.open_pages, port=web.port)
        _open_each(report, "at rest", readers, port=web.port, options=options, pace=pace)
        _keep_open(report, "at rest", open_pages, ready=ready, web=web, options=options)
        with _changing(archive):
            _open_each(report, "under load", readers, port=web.port, options=options, pace=pace)
            _keep_open(report, "under load", open_pages, ready=ready, web=web, options=options)
    report.facts["slowness of the machine meanwhile"] = pace.slowness()
    return report


def _reader(what: str, user: User) -> Reader:
    visible = Job.objects.visible_to(user).order_by("-pk")

    def newest(*statuses: JobStatus) -> Job:
        """Return the newest job with one of the statuses, or, of few jobs, any."""
        found = visible.filter(status__in=statuses).first() or visible.first()
        if found is None:
            raise NotMeasurableError(f"{what}: the user sees no job.")
        return found

    failed = newest(JobStatus.FAILED)
    places = {
        "job": newest(JobStatus.DONE).pk,
        "failed": failed.pk,
        "waiting": newest(JobStatus.WAITING).pk,
        "submission": failed.submission_id,
    }
    return Reader(
        what=what,
        cookie=cookie_of(user),
        addresses={page: address.format(**places) for page, address in PAGES.items()},
    )


def cookie_of(user: User) -> str:
    """Return the cookie of a new session."""
    session = Session()
    session.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={session.cookies[settings.SESSION_COOKIE_NAME].value}"


def _open_each(
    report: Report, when: str, readers: Sequence[Reader], *, port: int, options: Options, pace: Pace
) -> None:
    """Open each page of each user repeatedly, one after another; the first time does not count."""
    opened = http.client.HTTPConnection("127.0.0.1", port, timeout=_WITHIN_S)
    every: list[float] = []
    for page in PAGES:
        times_s: list[float] = []
        for reader in readers:
            pace.sample()
            times = [_open(opened, reader, reader.addresses[page]) for _ in range(1 + options.repeat)]
            times_s += times[1:]
        report.add(f"{page}, {when}", times_s)
        every += times_s
    report.add(f"all pages, {when}", every)
    opened.close()


def _open(opened: http.client.HTTPConnection, reader: Reader, address: str) -> float:
    def ask() -> int:
        opened.request("GET", address, headers={"Cookie": reader.cookie})
        response = opened.getresponse()
        response.read()
        return response.status

    status, taken_s = timed(ask)
    if status != HTTPStatus.OK:
        raise NotMeasurableError(f"{reader.what}: GET {address} was answered with {status}.")
    return taken_s


@contextmanager
def _changing(archive: JobArchive) -> Iterator[None]:
    """Let jobs of all owners start and end meanwhile."""
    is_over = Event()
    thread = Thread(target=_change, args=(archive, is_over))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _change(archive: JobArchive, is_over: Event) -> None:
    jobs = list(Job.objects.filter(status=JobStatus.MATCHED).values_list("pk", flat=True)[:CHANGING_JOBS])
    Random(archive.jobs).shuffle(jobs)
    for job_id in jobs:
        for status in (JobStatus.RUNNING, JobStatus.DONE):
            if is_over.wait(1 / CHANGES_PER_S):
                connection.close()
                return
            with transaction.atomic():
                transitions.record([job_id], status=status, source="pilot 1", now=timezone.now())
    connection.close()


def _keep_open(
    report: Report, when: str, pages: "_OpenPages", *, ready: Surroundings, web: Web, options: Options
) -> None:
    """Keep pages open, each of another user and address, and report what they cost the servers."""
    client = Client(port=web.port, connections=CONNECTIONS, ask=pages.ask, hear=pages.hear)
    begun = perf_counter()
    for number in range(pages.count):
        client.expect(number, at_s=begun + PERIOD_S * number / pages.count)
    # Opening a page takes longer than asking whether it has changed.
    while not pages.are_open:
        client.run(until_s=perf_counter() + PERIOD_S)
    pages.begin()
    with cpu_measured(parts_of(ready, web)) as use:
        client.run(until_s=perf_counter() + options.seconds)
    client.close()
    report.add(f"one of {pages.count} open pages, {when}", pages.latencies_s)
    report.facts[f"answers that a page is unchanged, {when}"] = pages.unchanged
    report.facts[f"answers with a changed page, {when}"] = pages.changed
    report.facts |= {f"{name}, {when}": value for name, value in use.facts().items()}


class _OpenPages:
    """Pages of users with jobs, fetched again with the ETag of the last answer, as live.js does."""

    def __init__(self, count: int, *, port: int) -> None:
        self.count = count
        owners = list(User.objects.filter(submissions__isnull=False).distinct().order_by("pk")[:count])
        readers = [_reader(owner.username, owner) for owner in owners]
        live = [page for page in PAGES if page not in {"submit", "tokens"}]
        self._requests = [(readers[number % len(readers)], live[number % len(live)]) for number in range(count)]
        self._etags: dict[int, bytes] = {}
        self._port = port
        self.begin()

    @property
    def are_open(self) -> bool:
        """Whether each page was fetched."""
        return len(self._etags) == self.count

    def begin(self) -> None:
        """Begin to measure."""
        self.latencies_s: list[float] = []
        self.unchanged = self.changed = 0

    def ask(self, number: int) -> bytes:
        """Return the next request of a page."""
        reader, page = self._requests[number]
        known = self._etags.get(number)
        condition = b"If-None-Match: %b\r\n" % known if known else b""
        head = f"GET {reader.addresses[page]} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nCookie: {reader.cookie}\r\n"
        return head.encode() + condition + b"\r\n"

    def hear(self, number: int, answer: Answer) -> float:
        """Note the answer; the next request follows after a while."""
        if answer.status == HTTPStatus.NOT_MODIFIED:
            self.unchanged += 1
        elif answer.status == HTTPStatus.OK:
            self.changed += 1
        else:
            raise BadAnswerError(f"A page was answered with {answer.status}.")
        if etag := _ETAG.search(answer.head):
            self._etags[number] = etag[1]
        self.latencies_s.append(answer.latency_s)
        return PERIOD_S
