"""The faults: each kind is a function that does it to the running system, and undoes it where it has to be undone."""

import http.client
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

import psutil
import psycopg

from tests.chaos.figures import Figures
from tests.chaos.proxy import SpoilingProxy
from tests.chaos.surroundings import Clocks, SmallDisk
from tests.end_to_end.pilots.grid import System
from tests.pace import Deadline, within

#: {part of the system: words of the command line of its process, the supervisor's child}.
PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "web": ("wms.web",),
    "the control worker": ("worker", "control"),
    "the sites worker": ("worker", "sites"),
    "beat": ("celery", "beat"),
    "Valkey": ("valkey-server",),
    "PostgreSQL": ("postgres", "-D"),
}
#: Seconds of an idle machine after which a system that is not ready is a violation.
READY_WITHIN_S: Final = 90.0
#: Seconds in which a server that has just answered can notice that a part of it is gone.
_FELT_AFTER_S: Final = 0.3
#: These take longest, and so come last of each round.
_RESTARTS: Final = ("the supervisor is killed", "the system is restarted")
#: Seconds by which clocks are stepped.
_STEPS_S: Final = (-3600, -60, -2, 2, 60, 3600)


@dataclass(frozen=True, kw_only=True)
class Target:
    """The system under test, and what is around it."""

    system: System
    proxy: SpoilingProxy
    disk: SmallDisk
    clocks: Clocks
    chance: Random

    def part(self, name: str) -> list[psutil.Process]:
        """Return the process of a part, if it runs."""
        return [each for each in self._children() if all(word in _words(each) for word in PARTS[name])]

    def below(self, name: str) -> list[psutil.Process]:
        """Return the processes that a part has started, such as web workers and backends."""
        with suppress(psutil.Error):
            return [child for part in self.part(name) for child in part.children(recursive=True)]
        return []

    def agents(self) -> list[psutil.Process]:
        """Return the processes of real pilots."""
        place = str(self.system.data / "pilots")
        psutil.process_iter.cache_clear()  # it does not notice that a number belongs to another process now
        return [each for each in psutil.process_iter() if place in _words(each) and "agent" in _words(each)]

    def _children(self) -> Sequence[psutil.Process]:
        with suppress(psutil.Error):
            return psutil.Process(self.system.process).children()
        return []


def _words(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _kill(target: Target, of: Callable[[], Sequence[psutil.Process]]) -> bool:
    for process in _one(target, of):
        with suppress(psutil.Error):
            process.kill()
            time.sleep(_FELT_AFTER_S)
            return True
    return False


def _hang(target: Target, of: Callable[[], Sequence[psutil.Process]], *, longest_s: float) -> bool:
    """Stop the processes for a while."""
    stopped = []
    for process in of():
        with suppress(psutil.Error):
            process.suspend()
            stopped.append(process)
    if stopped:
        time.sleep(target.chance.uniform(1.0, longest_s))
    for process in stopped:
        with suppress(psutil.Error):
            process.resume()
    return bool(stopped)


def _one(target: Target, of: Callable[[], Sequence[psutil.Process]]) -> list[psutil.Process]:
    found = of()
    return [target.chance.choice(found)] if found else []


def _restart(target: Target, number: signal.Signals) -> bool:
    target.system.stop(number)
    target.system.start()
    return True


def _cut_clients(target: Target) -> bool:
    target.proxy.cut(for_s=target.chance.uniform(0.5, 5.0))
    return True


def _cut_database(target: Target) -> bool:
    with suppress(psycopg.Error):
        target.system.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return True
    return False


def _fill_disk(target: Target) -> bool:
    target.disk.fill()
    try:
        time.sleep(target.chance.uniform(3.0, 10.0))
    finally:
        target.disk.empty()
    return True


def _step_clock(target: Target, of: Callable[[], Sequence[psutil.Process]]) -> bool:
    """Step the clock of a process, which stays wrong until its next step."""
    processes = _one(target, of)
    for process in processes:
        target.clocks.step(process.pid, target.chance.choice(_STEPS_S))
        time.sleep(_FELT_AFTER_S)
    return bool(processes)


def faults_of(target: Target) -> Mapping[str, Callable[[], bool]]:
    """Return {kind: the fault}; it returns whether it could be done, which needs a part that runs."""
    faults: dict[str, Callable[[], bool]] = {}
    for name in PARTS:
        faults[f"{name} is killed"] = partial(_kill, target, partial(target.part, name))
    for name, part in (("a web process", "web"), ("a backend of PostgreSQL", "PostgreSQL")):
        one = partial(_one, target, partial(target.below, part))
        faults[f"{name} is killed"] = partial(_kill, target, one)
        faults[f"{name} is stopped"] = partial(_hang, target, one, longest_s=8)
        faults[f"all of {part} hangs"] = partial(_hang, target, partial(_all_of, target, part), longest_s=15)
    for name in ("the control worker", "the sites worker", "Valkey", "beat"):
        faults[f"{name} is stopped"] = partial(_hang, target, partial(target.part, name), longest_s=8)
    for kind, number in zip(_RESTARTS, (signal.SIGKILL, signal.SIGTERM), strict=True):
        faults[kind] = partial(_restart, target, number)
    faults["connections of clients are cut"] = partial(_cut_clients, target)
    faults["connections of the database are cut"] = partial(_cut_database, target)
    faults["a real pilot is killed"] = partial(_kill, target, target.agents)
    if target.disk.is_there:
        faults["the disk is full"] = partial(_fill_disk, target)
    if target.clocks.are_there:
        faults["the clock of a web process is stepped"] = partial(_step_clock, target, partial(target.below, "web"))
        for name in ("the control worker", "the sites worker", "beat"):
            faults[f"the clock of {name} is stepped"] = partial(_step_clock, target, partial(target.part, name))
    return faults


def _all_of(target: Target, part: str) -> list[psutil.Process]:
    return [*target.part(part), *target.below(part)]


def inflict(target: Target, *, until: float, figures: Figures) -> Iterator[str]:
    """Do one fault after another, each kind once before any comes again; yield those after which nothing was ready.

    Args:
        target: the system.
        until: the monotonic time at which no other begins.
        figures: of the run.
    """
    faults = faults_of(target)
    kinds: list[str] = []
    while time.monotonic() < until:
        kinds = kinds or [*_RESTARTS, *target.chance.sample(sorted(faults.keys() - set(_RESTARTS)), len(faults) - 2)]
        kind = kinds.pop()
        if not faults[kind]():
            time.sleep(_FELT_AFTER_S)
            continue
        since = time.monotonic()
        is_ready = until_ready(target.system)
        figures.fault(kind, ready_again_s=time.monotonic() - since if is_ready else None)
        if not is_ready:
            yield kind
        time.sleep(target.chance.uniform(0.0, 3.0))


def until_ready(system: System) -> bool:
    """Wait until the server says that it is ready; return whether it did in time."""
    deadline = Deadline(READY_WITHIN_S)
    while not _is_ready(system.port):
        if deadline.has_passed():
            return False
        time.sleep(0.1)
    return True


def _is_ready(port: int) -> bool:
    with suppress(OSError, http.client.HTTPException), _connected(port) as connection:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    return False


@contextmanager
def _connected(port: int) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=within(5))
    try:
        yield connection
    finally:
        connection.close()
