"""``contention``: as ``http``, but all pilots compete for the jobs of a single task queue."""

from dataclasses import replace

from tests.benchmarks.http import PILOTS, ask_for_jobs
from tests.benchmarks.measuring import Report
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.loading import load, loaded_sizes
from tests.benchmarks.workloads.shape import QueueShape

PROCESSES = 8
JOBS = 100_000


def run(ready: Surroundings, options: Options) -> Report:
    """Put all jobs into one task queue that fits any offer, and ask."""
    whole = options.shape()
    queue = QueueShape(owner=0, cpu_time_s=whole.cpu_segments_s[0], job_type="User", jobs=options.jobs or JOBS)
    loaded = load(replace(whole, name="one queue", queues=(queue,)), seed=options.seed)
    processes = options.processes or PROCESSES
    report = Report(
        benchmark="contention",
        sizes={**loaded_sizes(loaded), "pilots at once": options.pilots or PILOTS, "web processes": processes},
    )
    with ready.web(processes=processes) as web:
        ask_for_jobs(report, ready, web, loaded, options)
    return report
