"""``index``: the cost of the index of task queues in a web process: memory, and the time of its readings."""

import gc
import tracemalloc
from functools import partial
from random import Random

from taskqueues.services.index.masks import REMEMBERED_BYTES
from taskqueues.services.index.reading import read_all, read_changes
from taskqueues.services.index.snapshot import Snapshot
from tests.benchmarks.match import match_once
from tests.benchmarks.measuring import Report, timed
from tests.benchmarks.offers import draw_question
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.loading import load, loaded_sizes

_MEGABYTE = 1e6


def run(ready: Surroundings, options: Options) -> Report:
    """Read everything, once with the memory of Python and numpy counted; then the changes, with matches in between."""
    loaded = load(options.shape(), seed=options.seed)
    report = Report(benchmark="index", sizes=loaded_sizes(loaded))
    times_s = [timed(read_all)[1] for _ in range(options.repeat)]
    gc.collect()
    tracemalloc.start()
    snapshot: Snapshot = read_all()
    report.facts["memory, MB"] = _held() / _MEGABYTE
    report.facts["memory at most while it is read, MB"] = tracemalloc.get_traced_memory()[1] / _MEGABYTE
    tracemalloc.stop()
    report.facts["masks are remembered up to, MB"] = REMEMBERED_BYTES / _MEGABYTE

    chance = Random(options.seed)
    delta_times_s = []
    for _ in range(options.repeat):
        for _ in range(options.operations // options.repeat):
            match_once(draw_question(loaded, chance=chance), chance=chance)
        delta, taken_s = timed(partial(read_changes, snapshot))
        snapshot = snapshot.next(delta)
        delta_times_s.append(taken_s)
    report.add("reading of everything", times_s)
    report.add("reading of what matches and emptied queues changed", delta_times_s)
    return report


def _held() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
