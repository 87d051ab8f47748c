"""``match``: one match after another in this process, each committed, by many pilots with many kinds of offers."""

from random import Random

from matching.services.match import match
from tests.benchmarks.measuring import Report, timed
from tests.benchmarks.offers import Question, draw_question
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.leasing import hold
from tests.benchmarks.workloads.loaded import LoadedWorkload
from tests.benchmarks.workloads.loading import load, loaded_sizes

#: Until caches, plans and connections are what they are in a server that has run for a second.
WARM_UP = 200


def run(ready: Surroundings, options: Options) -> Report:
    """Load the workload, open the requested leases, and match."""
    loaded = load(options.shape(), seed=options.seed)
    hold(loaded, jobs=options.leases)
    report = Report(benchmark="match", sizes={**loaded_sizes(loaded), "open leases": options.leases})
    times_s, empty = match_often(loaded, times=options.operations, seed=options.seed)
    report.add("match, with its commit", times_s)
    report.facts["offers that got nothing"] = empty
    return report


def match_often(loaded: LoadedWorkload, *, times: int, seed: int) -> tuple[list[float], int]:
    """Match this many times, after a warm-up; return the seconds of each match, and the number without a lease."""
    chance = Random(seed)
    for _ in range(min(WARM_UP, times)):
        match_once(draw_question(loaded, chance=chance), chance=chance)
    outcomes = [match_once(draw_question(loaded, chance=chance), chance=chance) for _ in range(times)]
    return [taken_s for _, taken_s in outcomes], sum(leases == 0 for leases, _ in outcomes)


def match_once(question: Question, *, chance: Random) -> tuple[int, float]:
    """Return the number of leases of one question, and the seconds that it took."""
    offer = question.offer()
    leases, taken_s = timed(
        lambda: match(offer, request_id=question.request_id, pilot_id=question.pilot_id, max_jobs=1, chance=chance)
    )
    return len(leases), taken_s
