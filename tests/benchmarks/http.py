"""``http``: pilots ask a real web server for jobs concurrently, each again as soon as it has its answer."""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from random import Random
from time import perf_counter

import psutil
from django.db import connection

from pilots.models import Pilot
from pilots.services.tokens import issue_pilot_token
from tests.benchmarks.client import Answer, BadAnswerError, Client, post
from tests.benchmarks.machine import cpu_measured
from tests.benchmarks.measuring import Report
from tests.benchmarks.offers import draw_question
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings, Web
from tests.benchmarks.workloads.loaded import LoadedWorkload
from tests.benchmarks.workloads.loading import load, loaded_sizes

PATH = "/api/v1/matches/"
PROCESSES = 2
PILOTS = 24
#: Connections, caches and indexes of each worker are made with its first requests.
WARM_UP_S = 3.0

_JOB_ID = re.compile(rb'"id":(\d+)')
_LEASED_TWICE = "SELECT count(*) - count(DISTINCT job_id) FROM matching_match"


def run(ready: Surroundings, options: Options) -> Report:
    """Load the workload, start the server, and ask."""
    loaded = load(options.shape(), seed=options.seed)
    processes = options.processes or PROCESSES
    report = Report(
        benchmark="http",
        sizes={**loaded_sizes(loaded), "pilots at once": options.pilots or PILOTS, "web processes": processes},
    )
    with ready.web(processes=processes) as web:
        ask_for_jobs(report, ready, web, loaded, options)
    return report


def ask_for_jobs(report: Report, ready: Surroundings, web: Web, loaded: LoadedWorkload, options: Options) -> None:
    """Ask for as long as the options say, and report rate, latencies, errors, CPU and jobs that were leased twice."""
    asking = Asking(loaded, port=web.port, seed=options.seed)
    pilots = options.pilots or PILOTS
    client = Client(port=web.port, connections=pilots, ask=asking.ask, hear=asking.hear)
    for pilot in range(pilots):
        client.expect(pilot, at_s=0)
    client.run(until_s=perf_counter() + min(WARM_UP_S, options.seconds))
    warm = asking.begin()
    with cpu_measured(parts_of(ready, web)) as use:
        client.run(until_s=perf_counter() + options.seconds)
    client.close()
    leased = asking.statuses[HTTPStatus.CREATED]
    report.add("POST /api/v1/matches/", asking.latencies_s, per_s=leased / use.elapsed_s)
    report.facts["leases"] = leased
    report.facts["answers without a job"] = asking.statuses.pop(HTTPStatus.NO_CONTENT, 0)
    report.facts["errors"] = sum(asking.statuses.values()) - leased
    report.facts["jobs leased twice, by the answers"] = len(asking.jobs) - len(set(asking.jobs))
    report.facts["jobs leased twice, by the database"] = _leased_twice()
    report.facts["leases of the warm-up"] = warm
    report.facts |= use.facts()


def parts_of(ready: Surroundings, web: Web) -> dict[str, Sequence[psutil.Process]]:
    """Return the processes whose CPU time is reported, by part of the system."""
    return {"web": [web.server], "PostgreSQL": [ready.postgres], "background": [web.background]}


class Asking:
    """Requests for jobs and their answers; each request, for one job, is of a random pilot of the workload."""

    def __init__(self, loaded: LoadedWorkload, *, port: int, seed: int) -> None:
        self._loaded = loaded
        self._port = port
        self._chance = Random(seed)
        self._token_of = tokens_of([pilot for of_site in loaded.pilots.values() for pilot in of_site])
        self.jobs: list[int] = []
        self.begin()

    def begin(self) -> int:
        """Begin to measure; return the number of leases before."""
        self.latencies_s: list[float] = []
        self.statuses: Counter[int] = Counter()
        return len(self.jobs)

    def ask(self, _number: int) -> bytes:
        """Return the next request."""
        question = draw_question(self._loaded, chance=self._chance)
        return post(PATH, port=self._port, token=self._token_of[question.pilot_id], body=question.body())

    def hear(self, _number: int, answer: Answer) -> float:
        """Note the answer; the next request follows at once."""
        self.latencies_s.append(answer.latency_s)
        self.statuses[answer.status] += 1
        if answer.status == HTTPStatus.CREATED:
            self.jobs.append(job_in(answer))
        return 0.0


def job_in(answer: Answer) -> int:
    """Return the id of the job that was leased."""
    job = _JOB_ID.search(answer.body)
    if job is None:
        raise BadAnswerError(f"This is no lease: {answer.body[:100]!r}")
    return int(job[1])


def tokens_of(pilots: list[int]) -> dict[int, str]:
    """Return a token for each of these pilots, valid for longer than any benchmark runs."""
    now = datetime.now(tz=UTC)
    return {pk: issue_pilot_token(Pilot(pk=pk), now=now, lifetime=timedelta(days=1)).token for pk in pilots}


def _leased_twice() -> int:
    with connection.cursor() as cursor:
        cursor.execute(_LEASED_TWICE)
        (count,) = cursor.fetchone()
    return int(count)
