"""``held-back``: claims at a place that other jobs of the level avoid, and matches beside levels noted as held back."""

from collections.abc import Sequence
from datetime import timedelta
from random import Random
from uuid import UUID

from django.db import connection, transaction

from matching.services.claim import Claimant, Claimed, HeldFor, claim
from pilots.models import Pilot
from taskqueues.models import QueuedJob, TaskQueue
from taskqueues.services.index.shared import index
from tests.benchmarks.match import match_once
from tests.benchmarks.measuring import Report, timed
from tests.benchmarks.offers import Question, draw_question
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings
from tests.benchmarks.workloads.loaded import LoadedWorkload
from tests.benchmarks.workloads.loading import load, loaded_sizes
from wms.kernel.db import database_now

#: No job of a workload has this user priority.
EMPTY_LEVEL = 2
#: Of the task queues, so many parts have their levels noted as held back.
NOTED = (0.0, 0.5)


def run(ready: Surroundings, options: Options) -> Report:
    """Claim beside more and more jobs that avoid the place, then match beside levels that are held back there."""
    loaded = load(options.shape(), seed=options.seed)
    report = Report(benchmark="held-back", sizes=loaded_sizes(loaded))
    counts = (0, options.batch // 10, 5 * options.batch)
    for name, user_priority in (("and other jobs wait", _fullest_level()), ("and no others wait", EMPTY_LEVEL)):
        medians = []
        for count in counts:
            times_s = _claim_often(loaded, options, user_priority=user_priority, avoiding=count)
            medians.append(report.add(f"claim, {count} jobs of the level avoid the place {name}", times_s).median_ms)
        report.facts[f"claim, {counts[-1]} avoid the place {name}; none = 1"] = medians[-1] / medians[0]
    medians = []
    for part in NOTED:
        noted, times_s = _match_often(loaded, options, part=part)
        medians.append(report.add(f"match, {noted} levels noted as held back", times_s).median_ms)
    report.facts["match beside levels noted as held back, none = 1"] = medians[-1] / medians[0]
    return report


def _fullest_level() -> int:
    levels: Sequence[int] = TaskQueue.objects.order_by("pk")[0].jobs_of_level
    return levels.index(max(levels))


def _claim_often(loaded: LoadedWorkload, options: Options, *, user_priority: int, avoiding: int) -> list[float]:
    """Claim repeatedly from one level, undoing each claim; return the seconds of each."""
    pilot = Pilot.objects.select_related("queue__ce").get(pk=loaded.pilots[0][0])
    task_queue, chance, now = TaskQueue.objects.order_by("pk")[0], Random(options.seed), database_now()
    with connection.cursor() as cursor:
        # Older than all others: a claim that reads by age meets them first.
        cursor.execute(
            "INSERT INTO taskqueues_queuedjob (job_id, task_queue_id, user_priority, is_held_back, not_before,"
            " avoided_until, avoided_queue_ids)"
            " SELECT -number, %s, %s, true, %s, %s, ARRAY[%s::bigint] FROM generate_series(1, %s) AS number",
            [
                task_queue.pk,
                user_priority,
                now - timedelta(seconds=1),
                now + timedelta(days=1),
                pilot.queue_id,
                avoiding,
            ],
        )
        cursor.execute("VACUUM (ANALYZE) taskqueues_queuedjob")
    queue = pilot.queue
    assert queue is not None

    def once() -> Claimed:
        claimant = Claimant(
            pilot_id=pilot.pk,
            request_id=UUID(int=chance.getrandbits(128), version=4),
            site_id=queue.ce.site_id,
            ce_id=queue.ce_id,
            queue_id=queue.pk,
        )
        return claim(
            claimant,
            ordinal=0,
            task_queue_id=task_queue.pk,
            user_priority=user_priority,
            cpu_segment_s=task_queue.cpu_time_s,
            searched=index.current().view.seen,
            chance=chance.random(),
            may_wait=False,
        )

    times_s = []
    for _ in range(max(1, options.operations // 10)):
        with transaction.atomic():
            claimed, taken_s = timed(once)
            transaction.set_rollback(True)
        expected = "leased" if user_priority != EMPTY_LEVEL else "held_back" if avoiding else "empty_level"
        assert claimed.answer == expected, claimed
        times_s.append(taken_s)
    QueuedJob.objects.filter(pk__lt=0).delete()
    return times_s


def _match_often(loaded: LoadedWorkload, options: Options, *, part: float) -> tuple[int, list[float]]:
    """Match at one place where a part of all levels with jobs is held back; return levels and times."""
    chance = Random(options.seed)
    times = max(1, options.operations // 10)
    questions: list[Question] = []
    while len(questions) < times:
        question = draw_question(loaded, chance=chance)
        questions += [question] if question.site == 0 else []
    index.forget()
    snapshot = index.renewed()
    noted = [
        (int(task_queue_id), user_priority)
        for task_queue_id, jobs in zip(snapshot.columns.task_queue_id, snapshot.jobs, strict=True)
        for user_priority in jobs.nonzero()[0].tolist()
        if chance.random() < part
    ]
    here = (HeldFor.QUEUE, Pilot.objects.values_list("queue_id", flat=True).get(pk=loaded.pilots[0][0]))
    until = database_now() + timedelta(days=1)
    for level in noted:
        index.note_held_back(*level, of=here, until=until, snapshot=index.current())
    return len(noted), [match_once(question, chance=chance)[1] for question in questions]
