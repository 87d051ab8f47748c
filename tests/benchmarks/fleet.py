"""``fleet``: a hundred thousand idle pilots return when the server tells them to; now and then there is a job."""

from dataclasses import replace
from http import HTTPStatus
from random import Random
from statistics import median
from time import perf_counter
from uuid import UUID

from django.db import connection

from tests.benchmarks.client import Answer, BadAnswerError, Client, post
from tests.benchmarks.http import PATH, PROCESSES, job_in, parts_of, tokens_of
from tests.benchmarks.machine import cpu_measured
from tests.benchmarks.measuring import Report
from tests.benchmarks.offers import Question, draw_question
from tests.benchmarks.options import Options
from tests.benchmarks.people import Person, person
from tests.benchmarks.submit import PATH as SUBMIT
from tests.benchmarks.surroundings import Surroundings, Web
from tests.benchmarks.workloads.loaded import IDLE_TAG, LoadedWorkload
from tests.benchmarks.workloads.loading import load, loaded_sizes

#: They take turns on so many, as behind a proxy.
CONNECTIONS = 48
#: Between two submissions, on average.
PAUSE_S = 2.0
GIVE_UP_S = 60.0
_WAL = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"


def run(ready: Surroundings, options: Options) -> Report:
    """Let the pilots poll for a while, then submit jobs for them, several times."""
    loaded = load(options.shape(), pilots=options.idle_pilots, seed=options.seed)
    processes = options.processes or PROCESSES
    report = Report(
        benchmark="fleet",
        sizes={**loaded_sizes(loaded), "idle pilots": options.idle_pilots, "web processes": processes},
    )
    with ready.web(processes=processes) as web, person(loaded.owners[0], port=web.port) as owner:
        _poll(report, ready, web, loaded, owner, options)
    return report


def _poll(
    report: Report, ready: Surroundings, web: Web, loaded: LoadedWorkload, owner: Person, options: Options
) -> None:
    pilots = _Pilots(loaded, count=options.idle_pilots, port=web.port, seed=options.seed)
    client = Client(port=web.port, connections=CONNECTIONS, ask=pilots.ask, hear=pilots.hear)
    parts = {**parts_of(ready, web), "Valkey": [ready.valkey]}
    begun = perf_counter()
    # One after another, as directors send them, so that how long they are told to wait has come to rest.
    for pilot in range(options.idle_pilots):
        client.expect(pilot, at_s=begun + options.settle * pilot / options.idle_pilots)
    client.run(until_s=begun + options.settle)
    pilots.begin()
    wal_bytes = _wal_bytes()
    with cpu_measured(parts) as use:
        client.run(until_s=perf_counter() + options.seconds)
    wal_bytes = _wal_bytes() - wal_bytes
    answers, told_s = len(pilots.latencies_s), median(pilots.told_s)
    report.add("empty answer", pilots.latencies_s, per_s=answers / use.elapsed_s)
    until_heard_s = []
    chance = Random(options.seed)
    for _ in range(options.repeat):
        # At any moment between two refreshes of the index.
        client.run(until_s=perf_counter() + min(PAUSE_S, options.seconds) * 2 * chance.random())
        until_heard_s.append(_submit_and_wait(pilots, client, owner))
    client.close()
    report.add("from the submission's answer to the lease", until_heard_s)
    report.facts |= {
        "Retry-After in seconds, median": told_s,
        "bytes of WAL a second": wal_bytes / use.elapsed_s,
        "CPU ms of an empty answer, web": 1000 * use.used_s["web"] / answers,
        "CPU ms of an empty answer, PostgreSQL": 1000 * use.used_s["PostgreSQL"] / answers,
        **use.facts(),
    }


def _wal_bytes() -> int:
    with connection.cursor() as cursor:
        cursor.execute(_WAL)
        (written,) = cursor.fetchone()
    return int(written)


def _submit_and_wait(pilots: "_Pilots", client: Client, owner: Person) -> float:
    """Return the seconds from submission to lease of a job, while the pilots go on polling."""
    before = len(pilots.leased)
    answer, _ = owner.post(SUBMIT, {"executable": "run.sh", "tags": [IDLE_TAG]}, expected=HTTPStatus.CREATED)
    submitted = perf_counter()
    client.run(until_s=submitted + GIVE_UP_S, enough=lambda: len(pilots.leased) > before)
    if [job for job, _ in pilots.leased[before:]] != [answer["jobs"][0]["id"]]:
        raise BadAnswerError(f"The job was not leased within {GIVE_UP_S:.0f} s.")
    return max(0.0, pilots.leased[-1][1] - submitted)


class _Pilots:
    """Pilots that take only jobs with a tag which no job has."""

    def __init__(self, loaded: LoadedWorkload, *, count: int, port: int, seed: int) -> None:
        self._chance = Random(seed)
        self._port = port
        self._questions = [self._idle(draw_question(loaded, chance=self._chance)) for _ in range(count)]
        every = [pilot for of_site in loaded.pilots.values() for pilot in of_site]
        tokens = tokens_of(every)
        self._tokens = [tokens[every[number % len(every)]] for number in range(count)]
        #: (Job, when it was leased).
        self.leased: list[tuple[int, float]] = []
        self.begin()

    def begin(self) -> None:
        """Begin to measure."""
        self.latencies_s: list[float] = []
        #: Seconds to wait, each time.
        self.told_s: list[float] = []

    def ask(self, number: int) -> bytes:
        """Return the request of a pilot: the same offer each time, under a new id."""
        question = replace(self._questions[number], request_id=UUID(int=self._chance.getrandbits(128), version=4))
        return post(PATH, port=self._port, token=self._tokens[number], body=question.body(required_tags=[IDLE_TAG]))

    def hear(self, _number: int, answer: Answer) -> float:
        """Note the answer; the pilot asks again after the answer's interval."""
        if answer.status == HTTPStatus.CREATED:
            self.leased.append((job_in(answer), answer.at_s))
        elif answer.status == HTTPStatus.NO_CONTENT:
            self.latencies_s.append(answer.latency_s)
            self.told_s.append(answer.retry_after_s)
        else:
            raise BadAnswerError(f"A poll was answered with {answer.status}: {answer.body[:300]!r}")
        return answer.retry_after_s

    def _idle(self, question: Question) -> Question:
        return replace(question, tags=(*question.tags, IDLE_TAG))
