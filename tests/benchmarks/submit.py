"""``submit``: one job in one request, by one user after another."""

from collections.abc import Callable
from contextlib import ExitStack
from http import HTTPStatus
from random import Random

from tests.benchmarks.http import PROCESSES
from tests.benchmarks.measuring import Report
from tests.benchmarks.options import Options
from tests.benchmarks.people import person
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.loaded import LoadedWorkload
from tests.benchmarks.workloads.loading import description_of, load, loaded_sizes
from tests.benchmarks.workloads.shape import QueueShape

PATH = "/api/v1/jobs/"
WARM_UP = 20


def run(ready: Surroundings, options: Options) -> Report:
    """Submit jobs into existing task queues, then jobs that need new ones."""
    loaded = load(options.shape(), seed=options.seed)
    processes = options.processes or PROCESSES
    report = Report(benchmark="submit", sizes={**loaded_sizes(loaded), "web processes": processes})
    with ready.web(processes=processes) as web:
        for what, vary in (
            ("a job of an existing task queue", _as_it_is),
            ("a job that makes a task queue", _unheard_of),
        ):
            report.add(f"POST /api/v1/jobs/, {what}", _submissions(loaded, options, port=web.port, vary=vary))
    return report


def _submissions(
    loaded: LoadedWorkload, options: Options, *, port: int, vary: Callable[[dict[str, object], int], dict[str, object]]
) -> list[float]:
    """Return the duration of each submission, by the owner of the queue."""
    chance = Random(options.seed)
    taken_s = []
    with ExitStack() as stack:
        people = {
            owner: stack.enter_context(person(loaded.owners[owner], port=port))
            for owner in {queue.owner for queue in loaded.workload.queues}
        }
        for number in range(-WARM_UP, options.operations):
            queue: QueueShape = chance.choice(loaded.workload.queues)
            body = vary(description_of(queue), number)
            taken_s.append(people[queue.owner].post(PATH, body, expected=HTTPStatus.CREATED)[1])
    return taken_s[WARM_UP:]


def _as_it_is(description: dict[str, object], _number: int) -> dict[str, object]:
    return description


def _unheard_of(description: dict[str, object], number: int) -> dict[str, object]:
    return {**description, "job_type": f"New{number}"}
