"""The workloads of the benchmarks have the documented shape and are consistent."""

from collections import Counter
from collections.abc import Callable

import pytest

from matching.queries.invariants import violations
from taskqueues.models import QueuedJob, TaskQueue
from taskqueues.services import priorities
from tests.benchmarks.workloads.leasing import hold
from tests.benchmarks.workloads.lhcb import lhcb
from tests.benchmarks.workloads.loading import definition_of, load
from tests.benchmarks.workloads.shape import Workload, apportion
from tests.benchmarks.workloads.uniform import uniform
from wms.jobs.domain.description import parse
from wms.jobs.models import Job

WORKLOADS = [uniform, lhcb]


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.django_db(transaction=True)
def test_a_loaded_workload_equals_submitted_jobs(
    workload: Callable[..., Workload], settings: pytest.FixtureRequest
) -> None:
    shape = workload(queues=60, jobs=2000)
    settings.WMS_CPU_SEGMENTS_S = list(shape.cpu_segments_s)  # type: ignore[attr-defined]  # Django's settings

    sample = load(shape, pilots=200)
    hold(sample, jobs=30)

    assert list(violations()) == []
    assert (TaskQueue.objects.count(), QueuedJob.objects.count(), Job.objects.count()) == (60, 2000, 2030)
    assert priorities.recalculate() == 0
    signatures = {bytes(queue.signature) for queue in TaskQueue.objects.all()}
    assert signatures == {definition_of(queue, sample).signature() for queue in shape.queues}
    for job in Job.objects.all()[:20]:
        parse(job.description)
    assert set(Job.objects.values_list("history__status", flat=True)) == {"Received", "Waiting", "Running"}


def test_the_same_seed_gives_the_same_workload() -> None:
    assert uniform(queues=50, jobs=1000, seed=3) == uniform(queues=50, jobs=1000, seed=3)
    assert lhcb(queues=50, jobs=1000, seed=3) == lhcb(queues=50, jobs=1000, seed=3)


def test_uniform_has_the_stated_fractions_of_sites_bans_platforms_and_tags() -> None:
    queues = uniform().queues

    def part(field: str) -> float:
        return sum(bool(getattr(queue, field)) for queue in queues) / len(queues)

    assert (len(queues), sum(queue.jobs for queue in queues)) == (10_000, 1_000_000)
    # Within five standard deviations of the binomial.
    assert part("sites") == pytest.approx(0.45, abs=0.025)
    assert part("banned_sites") == pytest.approx(0.25, abs=0.022)
    assert part("platforms") == pytest.approx(0.40, abs=0.025)
    assert part("tags") == pytest.approx(0.15, abs=0.018)


def test_lhcb_has_the_sums_of_the_snapshot() -> None:
    shape = lhcb()
    jobs_of_type, jobs_of_segment, queues_of_site, jobs_of_site = (Counter[object]() for _ in range(4))
    for queue in shape.queues:
        jobs_of_type[queue.job_type] += queue.jobs
        jobs_of_segment[queue.cpu_time_s] += queue.jobs
        queues_of_site.update(queue.sites)
        jobs_of_site.update(dict.fromkeys(queue.sites, queue.jobs))

    assert (len(shape.queues), shape.jobs) == (501, 871_973)
    assert jobs_of_type["MCSimulation"] == pytest.approx(520_258, rel=0.001)
    assert jobs_of_segment[1_080_000] == pytest.approx(155_890, rel=0.001)
    (_, largest), *others = queues_of_site.most_common()
    assert (largest, others[0][1], others[-1][1], len(others)) == (368, 269, 255, 59)
    assert jobs_of_site.most_common(1)[0][1] == pytest.approx(800_227, rel=0.01)
    assert all(jobs == pytest.approx(700_000, rel=0.05) for _, jobs in jobs_of_site.most_common()[1:])
    assert sum(not queue.sites for queue in shape.queues) == 1


def test_parts_add_up_to_the_whole() -> None:
    assert apportion(10, [1, 1, 1]) == [4, 3, 3]
    assert apportion(10, [98, 1, 1], least=2) == [6, 2, 2]
    with pytest.raises(ValueError, match="not enough"):
        apportion(2, [1, 1, 1], least=1)
