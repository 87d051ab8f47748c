"""``mass-loss``: a site loses all its pilots at once, while pilots of all sites are matched at a steady rate."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from time import perf_counter

from django.db.models import F

from matching.models import Match
from pilots.models import DirectorRun
from taskqueues.models import QueuedJob
from tests.benchmarks.client import Answer, Client
from tests.benchmarks.http import PILOTS, PROCESSES, WARM_UP_S, Asking, parts_of
from tests.benchmarks.machine import cpu_measured
from tests.benchmarks.measuring import Report
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.watching import Watch
from tests.benchmarks.workloads.leasing import hold
from tests.benchmarks.workloads.loading import load, loaded_sizes
from wms.kernel.db import database_now

LOST = 10_000
#: Seconds between two looks at what is left.
LOOK_EVERY_S = 0.25


class SteadyAsking(Asking):
    """Requests of pilots, each of which asks again after the same time."""

    every_s: float

    def hear(self, number: int, answer: Answer) -> float:
        """Note the answer; the next request follows after the pilot's time, less that of the answer."""
        super().hear(number, answer)
        return max(0.0, self.every_s - answer.latency_s)


def run(ready: Surroundings, options: Options) -> Report:
    """Match for a while, then let all leases of a site expire, and match until their jobs wait again."""
    loaded = load(options.shape(), seed=options.seed)
    hold(loaded, jobs=options.leases or LOST, at_queues=1)
    lost = list(Match.objects.values_list("job_id", flat=True))
    pilots, processes = options.pilots or PILOTS, options.processes or PROCESSES
    sizes = {"running jobs lost": len(lost), "matches a second": round(options.rate), "web processes": processes}
    report = Report(benchmark="mass-loss", sizes={**loaded_sizes(loaded), **sizes})
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
        begun_s, ages_s, expired = perf_counter(), [0.0], database_now() - timedelta(minutes=30)

        def is_over() -> bool:
            ages_s.append(_age_of_directors_s())
            return not Match.objects.filter(expires_at__lt=expired, ended_at=None).exists()

        with (
            cpu_measured(parts_of(ready, web)) as use,
            Watch(partial(_lose, lost), is_over, every_s=LOOK_EVERY_S) as watch,
        ):
            while watch.goes_on:
                client.run(until_s=perf_counter() + LOOK_EVERY_S)
        report.add("from the end of all leases until all jobs wait", [perf_counter() - begun_s])
        client.close()
    meanwhile = report.add("POST /api/v1/matches/ meanwhile", asking.latencies_s)
    report.facts["p99 of matches meanwhile, before = 1"] = meanwhile.p99_ms / before.p99_ms
    report.facts["oldest directors' cycle meanwhile, s"] = max(ages_s)
    report.facts["lost jobs that wait"] = QueuedJob.objects.filter(pk__among=lost).count()
    report.facts |= use.facts()
    return report


def _lose(job_ids: Sequence[int]) -> None:
    """Let the leases end an hour ago; their pilots have been silent for longer than a lease."""
    Match.objects.filter(job__in=job_ids).update(
        expires_at=database_now() - timedelta(hours=1), reported_at=F("reported_at") - timedelta(hours=2)
    )


def _age_of_directors_s() -> float:
    ran_at = DirectorRun.objects.values_list("ran_at", flat=True).first()
    return 0.0 if ran_at is None else (database_now() - ran_at).total_seconds()
