"""One run: start everything, inflict faults, let all work end, and check."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import psycopg

from tests.chaos import checker, faults
from tests.chaos.figures import Figures, Violation
from tests.chaos.ledger import RUN_TWICE, Kind, Ledger
from tests.chaos.pilots import SimulatedPilot
from tests.chaos.proxy import SpoilingProxy
from tests.chaos.sample import PASSWORD, SETTINGS, USERS, configuration
from tests.chaos.submitters import Submitter
from tests.chaos.surroundings import Clocks, SmallDisk
from tests.chaos.world import GivenUpError, World
from tests.end_to_end.pilots.grid import System
from tests.end_to_end.pilots.workload import PAYLOAD, twice_at_once
from tests.end_to_end.stack.running import processes_of
from tests.pace import Deadline, within
from tests.programs import directory_of_agents, directory_of_payloads
from wms.demo.workload import open_python

_CHECK_EVERY_S = 5.0
#: Seconds of an idle machine in which all work ends when there are no faults any more.
_WORK_ENDS_WITHIN_S = 240.0
_SHARES_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The size of a run.

    Args:
        seconds: for which faults are inflicted; starting and ending come on top.
        seed: of what is drawn; the threads make each run different all the same.
        pilots: simulated pilots at a time.
        submitters: users at a time.
        agents: most real pilots at a time.
        spoiled: probability that an exchange is spoiled.
        log: the file for the output of the system; None: it is not kept.
    """

    seconds: float
    seed: int
    pilots: int
    submitters: int
    agents: int
    spoiled: float
    log: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a run: its figures, and the violations that were found."""

    figures: Figures
    violations: list[Violation]
    #: Kinds of faults that this machine, or this account, does not allow.
    left_out: list[str]


@dataclass(frozen=True, kw_only=True)
class _Resources:
    """The resources of the system outside of it, as ``System`` takes them."""

    directory: Path
    options: Options

    def configuration(self) -> Mapping[str, Any]:
        """Return the system's configuration."""
        return configuration(pilots=self.options.pilots, agents=self.options.agents)


@dataclass(kw_only=True)
class _Run:
    """The system, clients and violations of one run, which its steps share."""

    options: Options
    target: faults.Target
    world: World
    #: Where payloads leave their diaries.
    shared: Path
    violations: list[Violation] = field(default_factory=list)
    submitters: list[Submitter] = field(default_factory=list)

    @property
    def system(self) -> System:
        """The system under test."""
        return self.target.system

    def violated(self, invariant: str, what: str) -> None:
        """Note a violation."""
        self.violations.append(Violation(invariant=invariant, what=what))


def run(options: Options) -> Result:
    """Run the suite once."""
    with ExitStack() as stack:
        directory = stack.enter_context(directory_of_agents())
        shared = stack.enter_context(directory_of_payloads())
        chaos = _prepared(stack, options, directory, shared)
        chaos.system.start()
        users, pilots = _clients(chaos, stack)
        with _checked_all_the_time(chaos):
            for kind in faults.inflict(
                chaos.target, until=time.monotonic() + options.seconds, figures=chaos.world.figures
            ):
                chaos.violated("The system is ready again after each fault", kind)
            _let_work_end(chaos, users, pilots)
        _check_the_end(chaos)
        _stop(chaos, directory)
        left_out = [] if chaos.target.disk.is_there else ["full disks: this account may not mount a tmpfs"]
        left_out += [] if chaos.target.clocks.are_there else ["stepped clocks: there is no C compiler"]
        return Result(figures=chaos.world.figures, violations=_distinct(chaos.violations), left_out=left_out)


def _prepared(stack: ExitStack, options: Options, directory: Path, shared: Path) -> _Run:
    figures, ledger = Figures(), Ledger()
    data = directory / "data"
    data.mkdir(mode=0o700)
    disk, clocks = SmallDisk(data), Clocks(directory)
    stack.callback(disk.remove)
    settings = SETTINGS | clocks.environment
    system = System(_Resources(directory=directory, options=options), settings, web_workers=2)
    stack.callback(system.close)
    if (log := options.log) is not None:
        stack.callback(lambda: log.write_text(system.output))
    proxy = stack.enter_context(
        SpoilingProxy(
            server_port=system.port, spoiled=options.spoiled, seed=options.seed, ledger=ledger, figures=figures
        )
    )
    # Real pilots get the proxy's address from the server.
    system.settings["WMS_SERVER_URL"] = proxy.url
    target = faults.Target(system=system, proxy=proxy, disk=disk, clocks=clocks, chance=Random(options.seed))

    def payload(seconds: float) -> Mapping[str, object]:
        return {"executable": open_python(), "arguments": [str(PAYLOAD), str(shared), "sleep", f"{seconds:.1f}"]}

    world = World(url=proxy.url, ledger=ledger, figures=figures, payload=payload, with_agents=options.agents > 0)
    return _Run(options=options, target=target, world=world, shared=shared)


def _clients(chaos: _Run, stack: ExitStack) -> tuple[list[Future[None]], list[Future[None]]]:
    """Start the submitters and the simulated pilots, each in a thread."""
    options, world, names = chaos.options, chaos.world, list(USERS)
    threads = stack.enter_context(ThreadPoolExecutor(max_workers=options.submitters + options.pilots))
    stack.callback(world.give_up)
    for number in range(options.submitters):
        user = names[number % len(names)]
        chaos.submitters.append(Submitter(world, name=user, password=PASSWORD, seed=options.seed + number))
    pilots = [SimulatedPilot(world, seed=1000 * (options.seed + 1) + number) for number in range(options.pilots)]
    return [threads.submit(user.run) for user in chaos.submitters], [threads.submit(pilot.run) for pilot in pilots]


@contextmanager
def _checked_all_the_time(chaos: _Run) -> Iterator[None]:
    """Check what holds at any moment every few seconds, where the database answers."""
    over = Event()

    def check() -> None:
        while not over.wait(_CHECK_EVERY_S):
            with suppress(psycopg.Error, OSError, KeyError):
                chaos.violations += checker.broken(chaos.system.tuples, checker.AT_ANY_MOMENT)
                chaos.world.figures.count(chaos.world.figures.operations, "checks of the database")

    thread = Thread(target=check)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _let_work_end(chaos: _Run, users: list[Future[None]], pilots: list[Future[None]]) -> None:
    """Spoil nothing any more; wait until all jobs that can run have ended; then kill the rest, and let pilots end."""
    chaos.target.proxy.spoiled = 0.0
    chaos.world.submitted.set()
    _ended(chaos, users)
    chaos.target.proxy.join()
    if not _in_time(lambda: not _unfinished(chaos), _WORK_ENDS_WITHIN_S):
        for job, status in _unfinished(chaos):
            chaos.violated(checker.LEFT_OVER, f"job {job} is {status}")
    _check_shares(chaos)
    parked = [job for job, kind in chaos.world.ledger.accepted.items() if kind is Kind.PARKED]
    for submitter in chaos.submitters if parked else []:
        submitter.kill_all(parked)
    chaos.world.over.set()
    _ended(chaos, pilots)
    chaos.world.give_up()


def _ended(chaos: _Run, clients: list[Future[None]]) -> None:
    """Wait for clients to end; one that failed, or that waits for an answer, is a violation."""
    ended, waiting = wait(clients, timeout=within(60))
    failures = [str(client.exception()) for client in ended if client.exception() is not None]
    for what in [*failures, *["no answer"] * len(waiting)]:
        chaos.violated("Every client gets its answers in the end", what)


def _unfinished(chaos: _Run) -> list[tuple[int, str]]:
    """Return jobs that pilots can still run, or run; release those that are held."""
    with suppress(psycopg.Error, GivenUpError):
        rows = chaos.system.tuples(
            "SELECT id, status FROM jobs_job WHERE status NOT IN ('Done', 'Failed', 'Killed', 'Deleted')"
        )
        jobs = [(job, status) for job, status in rows if chaos.world.ledger.accepted.get(job) is not Kind.PARKED]
        if held := [job for job, status in jobs if status == "Held"]:
            for submitter in chaos.submitters:
                submitter.release_all(held)
        return jobs
    return [(0, "not known")]


def _check_shares(chaos: _Run) -> None:
    """Priorities are recalculated a second after a change, and those of all groups every two minutes."""
    wrong: list[Violation] = []

    def are_right() -> bool:
        wrong[:] = checker.broken(chaos.system.tuples, checker.SHARES)
        return not wrong

    _in_time(are_right, _SHARES_WITHIN_S)
    chaos.violations += wrong


def _check_the_end(chaos: _Run) -> None:
    left: list[Violation] = []

    def is_nothing_left() -> bool:
        left[:] = checker.broken(chaos.system.tuples, checker.AT_THE_END)
        return not left

    _in_time(is_nothing_left, _WORK_ENDS_WITHIN_S)
    chaos.violations += left
    chaos.violations += checker.broken(chaos.system.tuples, checker.AT_ANY_MOMENT)
    ledger, sandboxes = chaos.world.ledger, chaos.system.data / "sandboxes"
    chaos.violations += checker.against_ledger(chaos.system.tuples, ledger, sandboxes=sandboxes)
    chaos.violations += ledger.contradictions()
    for one, other in twice_at_once(chaos.shared):
        chaos.violated(RUN_TWICE, f"job {one.job}, payloads {one.copy} and {other.copy}")
    verified = chaos.system.verify()
    if verified.returncode != 0:
        chaos.violated("The command verify agrees", verified.stdout[-500:])


def _stop(chaos: _Run, directory: Path) -> None:
    chaos.system.stop()
    if not _in_time(lambda: not processes_of(directory), 30.0):
        chaos.violated(checker.LEFT_OVER, "; ".join(processes_of(directory)))


def _in_time(condition: Callable[[], object], within_s: float) -> bool:
    deadline = Deadline(within_s)
    while not condition():
        if deadline.has_passed():
            return False
        time.sleep(0.5)
    return True


def _distinct(violations: list[Violation]) -> list[Violation]:
    return list(dict.fromkeys(violations))
