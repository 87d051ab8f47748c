"""``heartbeats``: thousands of pilots, each with a running job, send heartbeats at the server's interval."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from random import Random
from time import perf_counter
from uuid import UUID

from django.conf import settings

from matching.models import Match
from matching.services import job_tokens
from pilots.models import Pilot
from pilots.services.tokens import issue_pilot_token
from tests.benchmarks.client import Answer, BadAnswerError, Client, post
from tests.benchmarks.fleet import CONNECTIONS
from tests.benchmarks.http import PROCESSES, parts_of
from tests.benchmarks.machine import CpuUse, Pace, cpu_measured
from tests.benchmarks.measuring import Report
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings, Web
from tests.benchmarks.workloads.leasing import hold
from tests.benchmarks.workloads.loading import load, loaded_sizes
from tests.benchmarks.workloads.uniform import uniform
from wms.jobs.models import JobCommand

PILOTS = 10_000
QUEUES = 1000
JOBS = 100_000
#: Of the payloads that have written something since the last heartbeat.
WRITING = 0.2
#: With every so manieth heartbeat the pace of the machine is looked at.
SAMPLED = 50
#: Of the jobs that somebody peeks at while it is measured.
PEEKED_AT = 0.01
LINES = 20


def lines_of_output(*, chance: Random) -> str:
    """Return lines like those of a payload, no two of them equal."""
    return "".join(
        f"Event {chance.randrange(10**6):6}: {chance.randrange(100):2} tracks, {chance.randrange(10)} vertices,"
        f" chi2 {5 * chance.random():.3f}, {chance.random():.2f} s in all, nothing remarkable\n"
        for _ in range(LINES)
    )


def run(ready: Surroundings, options: Options) -> Report:
    """Give each pilot a job, let all of them report until caches and tables are in a steady state, then measure."""
    count = options.pilots or PILOTS
    loaded = load(uniform(queues=options.queues or QUEUES, jobs=options.jobs or JOBS, seed=options.seed))
    hold(loaded, jobs=count)
    processes = options.processes or PROCESSES
    report = Report(
        benchmark="heartbeats",
        sizes={
            **loaded_sizes(loaded),
            "pilots": count,
            "seconds between two heartbeats": settings.WMS_HEARTBEAT_S,
            "web processes": processes,
        },
    )
    with ready.web(processes=processes) as web:
        _beat(report, ready, web, options)
    return report


def _beat(report: Report, ready: Surroundings, web: Web, options: Options) -> None:
    pilots = _Pilots(port=web.port, seed=options.seed)
    client = Client(port=web.port, connections=CONNECTIONS, ask=pilots.ask, hear=pilots.hear)
    begun = perf_counter()
    # Evenly over the time between two heartbeats: they began when they did.
    for number in range(pilots.count):
        client.expect(number, at_s=begun + settings.WMS_HEARTBEAT_S * number / pilots.count)
    client.run(until_s=begun + options.settle)
    pilots.begin()
    with cpu_measured(parts_of(ready, web)) as use:
        client.run(until_s=perf_counter() + options.seconds)
    client.close()
    report.add("POST /api/v1/matches/…/heartbeat/", pilots.latencies_s, per_s=len(pilots.latencies_s) / use.elapsed_s)
    report.facts |= {f"answers {what}": count for what, count in pilots.seen.items()}
    report.facts |= use.facts()
    report.facts |= _cost_of_one(use, count=len(pilots.latencies_s), slowness=pilots.pace.slowness())


def _cost_of_one(use: CpuUse, *, count: int, slowness: float) -> dict[str, float]:
    """Return the cost of one heartbeat, and the cores that server and database need for all of them."""
    both_s = use.used_s["web"] + use.used_s["PostgreSQL"]
    return {
        "CPU ms of a heartbeat, web": 1000 * use.used_s["web"] / count,
        "CPU ms of a heartbeat, PostgreSQL": 1000 * use.used_s["PostgreSQL"] / count,
        "CPU ms of a heartbeat, both": 1000 * both_s / count,
        "cores busy, both": both_s / use.elapsed_s,
        "slowness of the machine meanwhile": slowness,
        "cores busy, both, were it not so slow": both_s / use.elapsed_s / slowness,
    }


class _Pilots:
    """Heartbeats of pilots whose payloads compute, write an occasional line, and are peeked at occasionally."""

    def __init__(self, *, port: int, seed: int) -> None:
        self._chance = Random(seed)
        self._port = port
        held = Match.objects.filter(ended_at__isnull=True).order_by("pk").values_list("pk", "job_id", "pilot_id")
        self._leases = list(held)
        self.count = len(self._leases)
        self._paths = [f"/api/v1/matches/{match_id}/heartbeat/" for match_id, _, _ in self._leases]
        #: Each reports with its own token and with that of its lease in turns, as the agent does; the one that it used
        #: last is the second.
        self._tokens = [self._tokens_of(*lease) for lease in self._leases]
        self._beats = [0] * self.count
        self._acknowledged: dict[int, list[int]] = {}
        self._begun_s = perf_counter()
        self._asked = 0
        self.pace = Pace()
        self.latencies_s: list[float] = []
        self.seen: Counter[str] = Counter()

    def begin(self) -> None:
        """Begin to measure; from now on some payloads are peeked at."""
        peeked_at = self._chance.sample(self._leases, k=max(1, round(PEEKED_AT * self.count)))
        now = datetime.now(tz=UTC)
        JobCommand.objects.bulk_create(JobCommand(job_id=job, name="peek", created_at=now) for _, job, _ in peeked_at)
        self.pace = Pace()
        self.latencies_s = []
        self.seen = Counter()

    def ask(self, number: int) -> bytes:
        """Return the next heartbeat of a pilot."""
        self._asked += 1
        if self._asked % SAMPLED == 0:
            self.pace.sample()
        self._tokens[number].reverse()
        self._beats[number] += 1
        acknowledged = self._acknowledged.get(number, [])
        wall_s = perf_counter() - self._begun_s
        body: dict[str, object] = {
            "cpu_s": 0.97 * wall_s,
            "wall_s": wall_s,
            "memory_mb": 1800 + self._chance.random() * 200,
            "disk_mb": 50 + wall_s / 10,
            "acknowledged": acknowledged,
        }
        if acknowledged or self._chance.random() < WRITING:
            body["std_output"] = lines_of_output(chance=self._chance)
        token = self._tokens[number][-1]
        return post(self._paths[number], port=self._port, token=token, body=json.dumps(body).encode())

    def hear(self, number: int, answer: Answer) -> float:
        """Note the answer; a pilot that has carried out a command reports it at once."""
        if answer.status != HTTPStatus.OK:
            raise BadAnswerError(f"A heartbeat was answered with {answer.status}: {answer.body[:300]!r}")
        self.latencies_s.append(answer.latency_s)
        said = json.loads(answer.body)
        if "token" in said:
            self.seen["with a new token"] += 1
            self._tokens[number][-1] = said["token"]
        self._acknowledged.pop(number, None)
        if not said["commands"]:
            return float(settings.WMS_HEARTBEAT_S) - answer.latency_s
        self.seen["with a command"] += 1
        self._acknowledged[number] = [command["id"] for command in said["commands"]]
        return 0.0

    def _tokens_of(self, match_id: UUID, job_id: int, pilot_id: int) -> list[str]:
        """Return both tokens of a pilot, each of a random age below that of their renewal."""
        now = datetime.now(tz=UTC)
        pilots_s, leases_s = settings.WMS_PILOT_TOKEN_S, settings.WMS_JOB_TOKEN_S
        pilots = issue_pilot_token(
            Pilot(pk=pilot_id), now=now, lifetime=timedelta(seconds=pilots_s * (1 - self._chance.random() / 2))
        )
        issued_at = now - timedelta(seconds=leases_s * self._chance.random() / 2)
        return [pilots.token, job_tokens.issue(match_id, job_id=job_id, now=issued_at)]
