"""``memory``: a steady mixture of requests, each with new values, and how fast the memory of each part grows."""

import json
from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from http import HTTPStatus
from random import Random
from statistics import linear_regression
from time import perf_counter

import psutil

from tests.benchmarks.client import Answer, Client, post
from tests.benchmarks.http import PATH as MATCHES
from tests.benchmarks.http import PROCESSES, Asking, parts_of
from tests.benchmarks.measuring import NotMeasurableError, Report
from tests.benchmarks.options import Options
from tests.benchmarks.portal import cookie_of
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.loaded import LoadedWorkload
from tests.benchmarks.workloads.loading import load, loaded_sizes
from tests.factories import make_token

CONNECTIONS = 8
ASKERS = 40
SAMPLE_EVERY_S = 10.0
#: Owners who submit and read; the others only have jobs.
READERS = 50
#: Caches and arenas fill meanwhile: a quarter of the time, or this long.
SETTLED_AFTER_S = 900.0
#: {kind of request: its weight}.
KINDS: Mapping[str, int] = {"match": 4, "submission": 2, "list": 3, "page": 3, "rehearsal": 1, "wrong token": 1}

#: Failures that are answers: too many requests, and a token that is refused.
_BUSY = frozenset({HTTPStatus.TOO_MANY_REQUESTS})
_MAY_BE: Mapping[str, Container[int]] = {"wrong token": {HTTPStatus.UNAUTHORIZED, *_BUSY}}


def run(ready: Surroundings, options: Options) -> Report:
    """Send requests at the rate of the options, and look at the memory of each process every ten seconds."""
    loaded = load(options.shape(), seed=options.seed)
    processes = options.processes or PROCESSES
    report = Report(benchmark="memory", sizes={**loaded_sizes(loaded), "web processes": processes})
    with ready.web(processes=processes) as web:
        mixture = _Mixture(loaded, port=web.port, seed=options.seed, every_s=ASKERS / options.rate)
        sizes = _Sizes(parts_of(ready, web))
        client = Client(port=web.port, connections=CONNECTIONS, ask=mixture.ask, hear=mixture.hear)
        sizes.sample(0.0)
        begun = perf_counter()
        for asker in range(ASKERS):
            client.expect(asker, at_s=begun + asker / options.rate)
        while (left_s := begun + options.seconds - perf_counter()) > 0:
            client.run(until_s=perf_counter() + min(SAMPLE_EVERY_S, left_s))
            sizes.sample(perf_counter() - begun)
        client.close()
        elapsed_s = perf_counter() - begun
    report.add("any request", mixture.latencies_s, per_s=len(mixture.latencies_s) / elapsed_s)
    report.facts |= {f"answers {status}": number for status, number in sorted(mixture.statuses.items())}
    report.facts |= sizes.facts(after_s=min(SETTLED_AFTER_S, options.seconds / 4))
    return report


class _Mixture:
    """Requests of all kinds; a job that was leased starts, reports once, and ends."""

    def __init__(self, loaded: LoadedWorkload, *, port: int, seed: int, every_s: float) -> None:
        self._matches = Asking(loaded, port=port, seed=seed)
        self._chance, self._port, self._every_s = Random(seed), port, every_s
        readers = loaded.owners[:READERS]
        self._tokens, self._cookies = [make_token(each) for each in readers], [cookie_of(each) for each in readers]
        #: What an asker sends next.
        self._following: defaultdict[int, list[bytes]] = defaultdict(list)
        self._kinds = dict.fromkeys(range(ASKERS), "")
        self._asked = 0
        self.latencies_s: list[float] = []
        self.statuses: Counter[int] = Counter()

    def ask(self, asker: int) -> bytes:
        """Return the next request of an asker."""
        if following := self._following[asker]:
            self._kinds[asker] = "report"
            return following.pop(0)
        (kind,) = self._chance.choices(list(KINDS), list(KINDS.values()))
        self._kinds[asker] = kind
        self._asked += 1
        new, token = f"new{self._asked}", self._chance.choice(self._tokens)
        match kind:
            case "match":
                return self._matches.ask(asker)
            case "submission" | "rehearsal":
                path = "/api/v1/jobs/" if kind == "submission" else "/api/v1/jobs/rehearsal/"
                return self._post(path, token, {"executable": f"{new}.sh", "cpu_time_s": 500, "job_type": new})
            case "list":
                return self._get(f"/api/v1/jobs/?job_name={new}*", f"Authorization: Bearer {token}")
            case "page":
                return self._get(f"/jobs/?q=name:{new}*", f"Cookie: {self._chance.choice(self._cookies)}")
        return self._get("/api/v1/jobs/", f"Authorization: Bearer wmsp_{new}")

    def hear(self, asker: int, answer: Answer) -> float:
        """Note the answer, and what follows from a lease."""
        self.latencies_s.append(answer.latency_s)
        self.statuses[answer.status] += 1
        if answer.status >= HTTPStatus.BAD_REQUEST and answer.status not in _MAY_BE.get(self._kinds[asker], _BUSY):
            raise NotMeasurableError(f"A {self._kinds[asker]} was answered {answer.status}: {answer.body[:200]!r}")
        if self._kinds[asker] == "match" and answer.status == HTTPStatus.CREATED:
            lease = json.loads(answer.body)
            path, token = f"{MATCHES}{lease['match_id']}/", lease["token"]
            self._following[asker] = [
                self._post(f"{path}status/", token, {"status": "Running"}),
                self._post(f"{path}heartbeat/", token, {"cpu_s": 1.0}),
                self._post(f"{path}finish/", token, {"exit_code": 0, "usage": {"cpu_s": 1.0, "wall_s": 1.0}}),
            ]
        return self._every_s - answer.latency_s

    def _post(self, path: str, token: str, body: Mapping[str, object]) -> bytes:
        return post(path, port=self._port, token=token, body=json.dumps(body).encode())

    def _get(self, path: str, header: str) -> bytes:
        return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{header}\r\n\r\n".encode()


class _Sizes:
    """The memory of each process that lives all the time, but for what it shares with others."""

    def __init__(self, parts: Mapping[str, Sequence[psutil.Process]]) -> None:
        self._parts = parts
        #: {part and number of its process: [(seconds, MB)]}.
        self._sizes: defaultdict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)

    def sample(self, at_s: float) -> None:
        """Look at all processes."""
        for part, roots in self._parts.items():
            for process in [each for root in roots for each in (root, *root.children(recursive=True))]:
                try:
                    size = process.memory_full_info().uss / 1e6
                except psutil.NoSuchProcess:
                    continue
                self._sizes[part, process.pid].append((at_s, size))

    def facts(self, *, after_s: float) -> dict[str, float]:
        """Return, for the largest process of each part, MB at that time and at the end, and the slope between."""
        facts: dict[str, float] = {}
        for part in self._parts:
            of_part = [each for (of, _), each in self._sizes.items() if of == part]
            lived = [each for each in of_part if each[0][0] <= after_s <= each[-1][0]]
            if not lived:
                continue
            since = [(at_s, mb) for at_s, mb in max(lived, key=lambda each: each[-1][1]) if at_s >= after_s]
            facts |= {f"MB, {part}, after {after_s:.0f} s": since[0][1], f"MB, {part}, at the end": since[-1][1]}
            if len(since) > 2:
                facts[f"kB/s, {part}, since then"] = 1000 * linear_regression(*zip(*since, strict=True)).slope
        return facts
