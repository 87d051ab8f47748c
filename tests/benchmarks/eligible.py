"""``eligible``: the tree of queues that meet one job's requirements, among 1,000 sites of 20 queues each."""

from functools import partial
from random import Random

from django.db import connection

from resources.domain.requirements import canonical
from resources.queries.eligible_queues import eligible_queues
from tests.benchmarks.measuring import Report, timed
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.supply import make_grid, requirements
from wms.accounts.models import VO

QUEUES = 20_000


def run(ready: Surroundings, options: Options) -> Report:
    """Query with different requirements each time; then with none, which every queue meets."""
    chance = Random(options.seed)
    queues = options.queues or QUEUES
    vo = VO.objects.create(name="community", setup="Production", setups=["Production"])
    make_grid(vo, queues=queues, chance=chance)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")
    report = Report(benchmark="eligible", sizes={"queues": queues})
    wanted = [canonical(requirements(number, chance=chance)) for number in range(max(1, options.operations // 40))]
    eligible_queues(vo, wanted[0])
    report.add("tree of a job's requirements", [timed(partial(eligible_queues, vo, form))[1] for form in wanted])
    report.add("tree of all queues", [timed(partial(eligible_queues, vo, {}))[1] for _ in wanted])
    return report
