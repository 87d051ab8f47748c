"""``submit-many``: thousands of jobs in one request, alike or of many kinds."""

from http import HTTPStatus
from itertools import islice, product

from tests.benchmarks.http import PROCESSES
from tests.benchmarks.measuring import Report
from tests.benchmarks.options import Options
from tests.benchmarks.people import person
from tests.benchmarks.submit import PATH
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.loaded import LoadedWorkload
from tests.benchmarks.workloads.loading import description_of, load, loaded_sizes

#: Kinds of jobs in one request, at the most.
DEFINITIONS = 1000


def run(ready: Surroundings, options: Options) -> Report:
    """Submit the same number of jobs repeatedly: of one definition, then of a thousand."""
    loaded = load(options.shape(), seed=options.seed)
    processes = options.processes or PROCESSES
    report = Report(
        benchmark="submit-many",
        sizes={**loaded_sizes(loaded), "jobs of a request": options.batch, "web processes": processes},
    )
    user = loaded.owners[loaded.workload.queues[0].owner]
    with ready.web(processes=processes) as web, person(user, port=web.port) as owner:
        for definitions in (1, min(DEFINITIONS, options.batch)):
            taken_s = []
            for number in range(options.repeat):
                kinds = _kinds(loaded, definitions, request=number)
                jobs = [{**kinds[job % definitions], "job_name": f"job-{job}"} for job in range(options.batch)]
                taken_s.append(owner.post(PATH, {"jobs": jobs}, expected=HTTPStatus.CREATED)[1])
            report.add(f"POST /api/v1/jobs/, {options.batch} jobs of {definitions} definitions", taken_s)
    return report


def _kinds(loaded: LoadedWorkload, definitions: int, *, request: int) -> list[dict[str, object]]:
    """Return this many descriptions that differ by job type, platform and site; none has been submitted before."""
    workload = loaded.workload
    some = product(range(definitions), workload.platforms, workload.sites)
    model = description_of(workload.queues[0])
    return [
        {
            **model,
            "job_type": f"Request{request}of{definitions}",
            "cpu_time_s": workload.cpu_segments_s[number % len(workload.cpu_segments_s)],
            "platforms": [platform],
            "sites": [site],
            "banned_sites": [],
        }
        for number, platform, site in islice(some, definitions)
    ]
