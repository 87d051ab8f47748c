"""Submit pools that are removed while jobs that need them are submitted, held, released, changed, killed and
rescheduled.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import count
from random import Random

import pytest

from taskqueues.models import QueuedJob, SubmitPool
from taskqueues.services import queueing, submit_pools
from tests import factories
from tests.factories import NOW, submit
from tests.threads import at_once
from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job
from wms.jobs.services import bulk, editing, unused_submit_pools
from wms.kernel.errors import ConflictError

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 30
#: So many kinds that most pools are of one or two jobs, and go with them.
MEMORIES = range(500, 3001, 100)


@pytest.mark.parametrize("seed", range(2))
def test_no_job_waits_for_a_pool_that_is_gone(seed: int) -> None:  # noqa: C901 - eight at once
    vo = factories.make_vo(name="lhcb")
    group = factories.make_group(vo=vo)
    alice = factories.make_user(groups=[group])
    big = factories.make_queue(parameters={"Memory": 3000})
    small = factories.make_queue(parameters={"Memory": 1000})

    days, removed = count(1), [0]

    def submitting(chance: Random) -> None:
        described = {"executable": "a", "requirements": {"Memory": chance.choice(MEMORIES)}}
        submit(parse_submission({"jobs": [described] * chance.randint(1, 2)}), owner=alice, now=NOW)

    def acting(chance: Random) -> None:
        jobs = list(Job.objects.order_by("-pk").values_list("pk", flat=True)[:6])
        for action in (Action.HOLD, Action.RELEASE, Action.KILL):
            bulk.act_on(action, chance.sample(jobs, k=len(jobs) // 2), by=alice, now=NOW)
        # As a pilot would leave them.
        Job.objects.filter(pk__in=jobs, status=JobStatus.HELD).update(status=JobStatus.FAILED, ended_at=NOW)

    def rescheduling(chance: Random) -> None:
        failed = list(Job.objects.filter(status=JobStatus.FAILED).values_list("pk", flat=True))
        bulk.act_on(Action.RESCHEDULE, chance.sample(failed, k=len(failed) // 2), by=alice, now=NOW)

    def changing(chance: Random) -> None:
        job_id = Job.objects.order_by("?").values_list("pk", flat=True).first()
        if job_id is not None:
            with suppress(ConflictError):  # it neither waits nor is held
                editing.edit(job_id, changes={"priority": chance.randint(0, 10)}, by=alice, now=NOW)

    def removing(_chance: Random) -> None:
        queueing.remove_empty(now=NOW)
        # Each look is after the time of grace of whatever was needed before.
        removed.append(unused_submit_pools.remove_unused(now=NOW + timedelta(days=next(days))))

    def refreshing(chance: Random) -> None:
        chance.choice([submit_pools.refresh_all, submit_pools.refresh_stale])(now=NOW)

    busy = [1, 2]

    def to_the_end(number: int) -> None:
        chance = Random(100 * seed + number)
        try:
            for _ in range(ROUNDS):
                submitting(chance)
        finally:
            busy.remove(number)

    def meanwhile(act: Callable[[Random], None]) -> None:
        chance = Random(seed)
        while busy:
            act(chance)

    others = [acting, rescheduling, changing, removing, removing, refreshing]
    at_once([*(partial(to_the_end, number) for number in (1, 2)), *(partial(meanwhile, act) for act in others)])

    assert sum(removed) > 0
    waiting = Job.objects.filter(status=JobStatus.WAITING)
    assert waiting.exists()
    named = dict(QueuedJob.objects.values_list("pk", "task_queue__submit_pools"))
    assert named == dict(waiting.values_list("pk", "submit_pools"))
    known = {pool.pk: set(pool.queues.all()) for pool in SubmitPool.objects.all()}
    for job in waiting:
        (pool,) = job.submit_pools
        assert known[pool] == ({big, small} if job.description["requirements"]["Memory"] <= 1000 else {big})
