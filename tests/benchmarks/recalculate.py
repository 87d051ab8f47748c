"""``recalculate``: the priorities of all task queues, recalculated while another process matches."""

from multiprocessing import get_context
from multiprocessing.connection import Connection
from random import Random
from time import perf_counter

from django.db import connections

from taskqueues.services import priorities
from tests.benchmarks.match import WARM_UP, match_once
from tests.benchmarks.measuring import Report, timed
from tests.benchmarks.offers import draw_question
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.loaded import LoadedWorkload
from tests.benchmarks.workloads.loading import load, loaded_sizes

#: (When it began, how many seconds it took) of each match; the clock is the same in all processes of a machine.
Times = list[tuple[float, float]]


def run(ready: Surroundings, options: Options) -> Report:
    """Recalculate repeatedly, as long as the other process matches."""
    loaded = load(options.shape(), seed=options.seed)
    report = Report(benchmark="recalculate", sizes=loaded_sizes(loaded))
    # A connection, or the index's thread, must not be in two processes.
    connections.close_all()
    forking = get_context("fork")
    here, there = forking.Pipe()
    matching = forking.Process(target=_match, args=(loaded, options, there))
    matching.start()
    there.close()
    alone: Times = here.recv()
    during, changed = _recalculate_until_done(here)
    beside: Times = here.recv()
    matching.join()
    report.add("recalculation, while jobs are matched", [taken_s for _, taken_s in during])
    report.add("match, with nothing beside it", [taken_s for _, taken_s in alone])
    report.add("match, begun during a recalculation", [taken_s for begun, taken_s in beside if _within(begun, during)])
    report.facts["task queues that got another priority, on the average"] = changed / len(during)
    return report


def _recalculate_until_done(matching: Connection) -> tuple[Times, int]:
    """Recalculate repeatedly; return start and duration of each run, and the number of changed queues."""
    matching.send("go")
    times: Times = []
    changed = 0
    while not matching.poll():
        begun = perf_counter()
        changed_now, taken_s = timed(priorities.recalculate)
        times.append((begun, taken_s))
        changed += changed_now
    return times, changed


def _match(loaded: LoadedWorkload, options: Options, other: Connection) -> None:
    """Match without and then with concurrent recalculations; send the times of both."""
    chance = Random(options.seed)
    _matches(loaded, min(WARM_UP, options.operations), chance)
    other.send(_matches(loaded, options.operations, chance))
    other.recv()
    other.send(_matches(loaded, options.operations, chance))


def _matches(loaded: LoadedWorkload, count: int, chance: Random) -> Times:
    times: Times = []
    for _ in range(count):
        question = draw_question(loaded, chance=chance)
        begun = perf_counter()
        times.append((begun, match_once(question, chance=chance)[1]))
    return times


def _within(moment: float, periods: Times) -> bool:
    return any(begun <= moment <= begun + taken_s for begun, taken_s in periods)
