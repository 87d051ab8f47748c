"""``directors``: time of a cycle of the directors for 500 computing elements and 5,000 batch queues."""

from random import Random

from django.db import connection, transaction
from django.utils import timezone

from matching.queries.restrictions import closings_now
from pilots.domain.pilot import PilotStatus
from pilots.models import CEHealth, Pilot
from pilots.services.director_cycle import run_cycle
from pilots.services.secrets import issue_secrets
from resources.models import ComputingElement, Queue, Site
from tests.benchmarks.machine import Pace
from tests.benchmarks.measuring import Report, timed
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.loading import load, loaded_sizes

QUEUES_OF_CE = 10
#: Every queue has a pilot that works; of so many one waits besides.
WAITING = 0.1
CYCLES_PER_REPEAT = 2
#: Looks at the pace of the machine before each.
SAMPLES = 20
FREE_SLOTS = 20


def run(ready: Surroundings, options: Options) -> Report:
    """Run the decision repeatedly, each time from the same state."""
    loaded = load(options.shape(), seed=options.seed)
    chance = Random(options.seed)
    queues = _make_queues(chance, ces=options.ces)
    _make_pilots(queues, vo_id=loaded.vo.pk, chance=chance)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")
    living = Pilot.objects.count()
    sizes = {**loaded_sizes(loaded), "ces": options.ces, "batch queues": len(queues), "living pilots": living}
    report = Report(benchmark="directors", sizes=sizes)
    last = Pilot.objects.order_by("-pk").values_list("pk", flat=True)[0]
    times_s, sent, pace = [], 0, Pace()
    for _ in range(CYCLES_PER_REPEAT * options.repeat):
        for _ in range(SAMPLES):
            pace.sample()
        times_s.append(timed(lambda: run_cycle(closings=closings_now, chance=chance, now=timezone.now()))[1])
        decided = Pilot.objects.filter(pk__gt=last)
        sent += decided.count()
        decided.delete()
    report.add("a cycle of the directors", times_s)
    report.facts["pilots that a cycle sends"] = sent / len(times_s)
    report.facts["slowness of the machine meanwhile"] = pace.slowness()
    return report


def _make_queues(chance: Random, *, ces: int) -> list[Queue]:
    """Give each site further computing elements, of which some queues are for short, large or special jobs."""
    now, sites = timezone.now(), list(Site.objects.order_by("pk"))
    model = Queue.objects.order_by("pk").first()
    assert model is not None
    made = ComputingElement.objects.bulk_create(
        ComputingElement(site=sites[number % len(sites)], name=f"ce{number:03}.example.org") for number in range(ces)
    )
    CEHealth.objects.bulk_create(CEHealth(ce=ce, asked_at=now, free_slots=FREE_SLOTS) for ce in made)
    return Queue.objects.bulk_create(
        Queue(
            ce=ce,
            name=f"grid{number}",
            cpu_time_s=chance.choice([5000, 50_000, 300_000]),
            memory_mb=chance.choice([2000, 4000, 16_000]),
            processors=chance.choice([1, 1, 8]),
            tags=model.tags if chance.random() < 0.5 else [],
        )
        for ce in made
        for number in range(QUEUES_OF_CE)
    )


def _make_pilots(queues: list[Queue], *, vo_id: int, chance: Random) -> None:
    now, pilots = timezone.now(), list[Pilot]()
    for number, queue in enumerate(queues):
        sent = [Pilot(vo_id=vo_id, queue=queue, stamp=f"r{number}", status=PilotStatus.RUNNING, started_at=now)]
        if chance.random() < WAITING:
            sent.append(Pilot(vo_id=vo_id, queue=queue, stamp=f"w{number}", status=PilotStatus.WAITING))
        for pilot in sent:
            pilot.submitted_at, pilot.batch_id = now, pilot.stamp
            if pilot.started_at is not None:
                pilot.last_seen_at = pilot.matched_at = now
        pilots += sent
    Pilot.objects.bulk_create(pilots)
    with transaction.atomic():
        issue_secrets(pilots, now=now)
