"""``pools``: refreshes of 1,000 submit pools with 100,000 waiting jobs, and the removal of unused pools."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from random import Random

from django.db import connection, transaction

from resources.models import Queue
from taskqueues.models import SubmitPool, TaskQueue
from taskqueues.services import submit_pools
from tests.benchmarks.measuring import Report, timed
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.loaded import LoadedWorkload
from tests.benchmarks.workloads.loading import load
from tests.benchmarks.workloads.supply import make_grid, requirements
from tests.benchmarks.workloads.uniform import uniform
from wms.jobs.models import Job
from wms.jobs.services import unused_submit_pools

JOBS = 100_000
#: As many task queues: one for each pool.
POOLS = 1000
QUEUES = 2000


def run(ready: Surroundings, options: Options) -> Report:
    """Refresh all pools: with no queues stored yet, with one site changed, and with nothing changed; then clean up."""
    chance = Random(options.seed)
    wanted = options.queues or POOLS
    loaded = load(uniform(queues=wanted, jobs=options.jobs or JOBS, seed=options.seed), seed=options.seed)
    make_grid(loaded.vo, queues=QUEUES, chance=chance)
    report = Report(benchmark="pools", sizes={"pools": wanted, "waiting jobs": options.jobs or JOBS, "queues": QUEUES})
    _, registered_s = timed(partial(_register, loaded, wanted, chance))
    report.add("registration of all pools, one after another in one transaction", [registered_s])
    members = SubmitPool.queues.through._default_manager
    report.facts["memberships"] = members.count()
    with transaction.atomic():
        members.all().delete()
    report.add("refresh, no membership written yet", [timed(_refresh)[1]])
    changed_s, unchanged_s = [], []
    for number in range(options.repeat):
        _change_a_site(f"Grid{number % (QUEUES // 20)}", memory_mb=2500 + number)
        changed_s.append(timed(_refresh)[1])
        unchanged_s.append(timed(_refresh)[1])
    report.add("refresh, the queues of one site changed", changed_s)
    report.add("refresh, nothing changed", unchanged_s)
    report.add("look for pools that no job needs", [timed(_remove)[1] for _ in range(options.repeat)])
    report.facts["pools left"] = SubmitPool.objects.count()
    return report


def _register(loaded: LoadedWorkload, wanted: int, chance: Random) -> None:
    """Register a pool for each task queue, and assign it to the queue's jobs."""
    with transaction.atomic():
        sets: Sequence[object] = [requirements(number, chance=chance) for number in range(wanted)]
        registered = submit_pools.register_all(vo=loaded.vo, requirements=sets, now=datetime.now(UTC))
        names = dict(zip(TaskQueue.objects.order_by("pk").values_list("pk", flat=True), registered, strict=True))
    for task_queue_id, pool in names.items():
        TaskQueue.objects.filter(pk=task_queue_id).update(submit_pools=[pool.id])
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {Job._meta.db_table} AS job SET submit_pools = task_queue.submit_pools"
            " FROM taskqueues_queuedjob AS waiting JOIN taskqueues_taskqueue AS task_queue"
            " ON task_queue.id = waiting.task_queue_id WHERE waiting.job_id = job.id"
        )
        cursor.execute("VACUUM (ANALYZE)")


def _change_a_site(name: str, *, memory_mb: int) -> None:
    Queue.objects.filter(ce__site__name=name).update(parameters={"Memory": memory_mb})


def _refresh() -> int:
    return submit_pools.refresh_all(now=datetime.now(UTC))


def _remove() -> int:
    return unused_submit_pools.remove_unused(now=datetime.now(UTC))
