"""``kill``: a whole campaign of waiting jobs, killed by one request with a filter."""

from http import HTTPStatus

from tests.benchmarks.http import PROCESSES
from tests.benchmarks.measuring import Report
from tests.benchmarks.options import Options
from tests.benchmarks.people import person
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.loaded import OPERATOR
from tests.benchmarks.workloads.loading import load, loaded_sizes
from wms.accounts.models import User

PATH = "/api/v1/jobs/bulk/"


def run(ready: Surroundings, options: Options) -> Report:
    """Kill campaigns, which are spread over all owners and task queues, one after another."""
    loaded = load(options.shape(), seed=options.seed)
    processes = options.processes or PROCESSES
    report = Report(benchmark="kill", sizes={**loaded_sizes(loaded), "web processes": processes})
    times_s, killed = [], []
    operator = User.objects.get(username=OPERATOR)
    with ready.web(processes=processes) as web, person(operator, port=web.port) as manager:
        for number in range(min(options.repeat, loaded.workload.campaigns)):
            order = {"action": "kill", "filter": {"job_group": f"campaign{number}"}}
            answer, taken_s = manager.post(PATH, order, expected=HTTPStatus.OK)
            times_s.append(taken_s)
            killed.append(answer["done"])
    report.add("POST /api/v1/jobs/bulk/, kill by filter", times_s)
    report.facts["jobs killed by each request"] = ", ".join(map(str, killed))
    return report
