"""``floods``: others during four floods: 8 × 10 MB of JDL, 48 stalled bodies, 16 anonymous ones of 64 MB, pages."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from time import perf_counter

import psutil

from tests.benchmarks.client import Answer, BadAnswerError, Client
from tests.benchmarks.http import PROCESSES, WARM_UP_S, Asking
from tests.benchmarks.measuring import NotMeasurableError, Report, percentile
from tests.benchmarks.options import Options
from tests.benchmarks.portal import cookie_of
from tests.benchmarks.surroundings import Surroundings, Web
from tests.benchmarks.workloads.loaded import LoadedWorkload
from tests.benchmarks.workloads.loading import load, loaded_sizes
from tests.factories import make_token

#: {flood: what it is}.
FLOODS = {
    "submissions": "8 × 10 MB of JDL by one user",
    "stalled": "48 stalled bodies",
    "anonymous": "16 anonymous bodies of 64 MB",
    "pages": "16 clients of one user that open pages",
}
PROGRAM = Path(__file__).with_name("flooding.py")
PILOTS = 4
#: Of each pilot: the server is not busy without the flood.
ASKS_EVERY_S = 0.2
#: Others are served as before when of so long none was slower than this many times the p99 before.
WINDOW_S = 2.0
AS_BEFORE = 2.0
#: After this long it is told that it never was.
MOST_AFTER_S = 60.0


def run(ready: Surroundings, options: Options) -> Report:
    """Ask for jobs at a moderate rate before, during and after each flood."""
    loaded = load(options.shape(), seed=options.seed)
    processes = options.processes or PROCESSES
    pilots = options.pilots or PILOTS
    report = Report(benchmark="floods", sizes={**loaded_sizes(loaded), "pilots": pilots, "web processes": processes})
    owner = loaded.owners[0]
    token = make_token(owner)
    for flood, what in FLOODS.items():
        with ready.web(processes=processes) as web:
            credential = cookie_of(owner) if flood == "pages" else token
            _measure(report, web, loaded, options, flood=flood, what=what, credential=credential, pilots=pilots)
    return report


def _measure(
    report: Report,
    web: Web,
    loaded: LoadedWorkload,
    options: Options,
    *,
    flood: str,
    what: str,
    credential: str,
    pilots: int,
) -> None:
    others = _Others(loaded, port=web.port, seed=options.seed, pilots=pilots)
    others.ask_for(min(WARM_UP_S, options.seconds))
    others.latencies_s.clear()
    with _memory(web) as memory:
        others.ask_for(options.seconds / 4)
        before = report.add(f"others' match before {what}", others.latencies_s)
        memory.begin()
        others.latencies_s.clear()
        # -P: its directory has modules named like some of the standard library.
        command = [sys.executable, "-P", str(PROGRAM), flood, str(web.port), str(options.seconds / 2), credential]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as flooding:
            while flooding.poll() is None:
                others.ask_for(0.5)
            said = json.loads(flooding.communicate()[0] or "{}")
        report.add("the same during it", others.latencies_s)
        largest_mb = memory.largest_mb
        back_s = others.until_as_before(before.p99_ms / 1000, most_s=min(MOST_AFTER_S, 5 * options.seconds))
        others.latencies_s.clear()
        others.ask_for(options.seconds / 4)
        report.add("the same after it", others.latencies_s)
    report.facts |= {
        f"{what}, answers": ", ".join(f"{count} × {status}" for status, count in sorted(said.items())),
        f"{what}, requests of others that failed": others.failed,
        f"{what}, MB of the largest web process before": memory.before_mb,
        f"{what}, the same during it": largest_mb,
        f"{what}, the same at the end": memory.now_mb(),
        f"{what}, seconds until others are served as before": back_s,
    }


class _Others:
    """Pilots that ask at intervals, and reopen connections that the server closes."""

    def __init__(self, loaded: LoadedWorkload, *, port: int, seed: int, pilots: int) -> None:
        self._asking = Asking(loaded, port=port, seed=seed)
        self._port, self._pilots = port, pilots
        self.latencies_s: list[float] = []
        self.failed = 0

    def ask_for(self, seconds: float) -> None:
        """Ask for this number of seconds."""
        client = Client(port=self._port, connections=self._pilots, ask=self._asking.ask, hear=self._hear)
        now = perf_counter()
        for pilot in range(self._pilots):
            client.expect(pilot, at_s=now + ASKS_EVERY_S * pilot / self._pilots)
        try:
            client.run(until_s=now + seconds)
        except (BadAnswerError, OSError):
            self.failed += 1
        client.close()

    def until_as_before(self, p99_s: float, *, most_s: float) -> float:
        """Ask until the latency is again as before; return the seconds until then."""
        begun = perf_counter()
        while (waited_s := perf_counter() - begun) < most_s:
            self.latencies_s.clear()
            self.ask_for(WINDOW_S)
            if self.latencies_s and percentile(sorted(self.latencies_s), 0.99) <= AS_BEFORE * p99_s:
                return waited_s
        return most_s

    def _hear(self, _number: int, answer: Answer) -> float:
        self.latencies_s.append(answer.latency_s)
        self.failed += answer.status >= 400
        return ASKS_EVERY_S


@dataclass(slots=True)
class _Memory:
    """The memory of the largest web process."""

    server: psutil.Process
    before_mb: float = 0.0
    largest_mb: float = 0.0
    over: Event = field(default_factory=Event)

    def begin(self) -> None:
        """Begin to record the largest value."""
        self.before_mb = self.largest_mb = self.now_mb()

    def now_mb(self) -> float:
        """Return the current value."""
        sizes = [0]
        for worker in self.server.children(recursive=True):
            try:
                sizes.append(worker.memory_info().rss)
            except psutil.NoSuchProcess:
                continue  # it was replaced just now
        return max(sizes) / 1e6

    def watch(self) -> None:
        """Record until the end."""
        while not self.over.wait(0.1):
            self.largest_mb = max(self.largest_mb, self.now_mb())


@contextmanager
def _memory(web: Web) -> Iterator[_Memory]:
    if not web.server.is_running():
        raise NotMeasurableError("The web server does not run.")
    memory = _Memory(server=web.server)
    watching = Thread(target=memory.watch)
    watching.start()
    try:
        yield memory
    finally:
        memory.over.set()
        watching.join()
