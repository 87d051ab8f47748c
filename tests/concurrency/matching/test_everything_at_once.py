"""Every writer of jobs, queues and leases concurrently, on real connections: no deadlock, and the invariants hold.

A deadlock (40P01), or any other error that is not a refusal, ends its worker and so the test.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import pairwise
from random import Random
from uuid import uuid4

import pytest
from django.db import transaction
from django.utils import timezone

from matching.models import Match
from matching.queries.invariants import violations
from matching.services import expiry, leases
from matching.services.match import match
from matching.services.offers import OfferRequest
from matching.services.search import PilotRefusedError
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.services import reports
from resources.models import Queue
from taskqueues.models import QueuedJob, TaskQueue
from taskqueues.services import priorities, queueing, submit_pools
from tests.factories import make_ce, make_group, make_pilot, make_queue, make_site, make_user, submit
from tests.threads import at_once, repeat_at_once
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import TRANSITIONS, Action, JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job
from wms.jobs.services import control, editing
from wms.kernel.db import database_now
from wms.kernel.errors import ConflictError, NotFoundError
from wms.wire.protocol import NO_TAILS, Tails, Usage

pytestmark = pytest.mark.django_db(transaction=True)

#: Times that each step is done at least; the shorter ones go on until the longest has been done as often.
ROUNDS = 2
SITES = ("LCG.One.org", "LCG.Two.org", "LCG.Three.org")


@dataclass
class Storm:
    """One group with its jobs, pilots and leases; each method is one step of one kind of writer."""

    group: Group
    owner: User
    places: list[Queue]
    pilots: list[int] = field(default_factory=list)

    def send_pilot(self, chance: Random) -> None:
        self.pilots.append(make_pilot(vo=self.group.vo, queue=chance.choice(self.places)).pk)

    def submit(self, chance: Random) -> None:
        """Submit jobs of several queues: some of them new, some with requirements."""
        jobs = [
            {
                "executable": "a",
                "priority": chance.choice([0, 1, 3, 10]),
                "cpu_time_s": chance.choice([500, 5000]),
                "job_type": f"type{chance.randrange(4)}",
                "banned_sites": chance.choice([[], [SITES[0]]]),
                "requirements": chance.choice([{}, {"Memory": chance.choice([1000, 2000, 3000])}]),
            }
            for _ in range(6)
        ]
        submit(parse_submission({"jobs": jobs}), owner=self.owner, now=timezone.now())

    def match(self, chance: Random) -> None:
        offer = OfferRequest(cpu_time_s=chance.choice([500, 300_000]), processors=3)
        with suppress(PilotRefusedError):
            match(
                offer,
                request_id=uuid4(),
                pilot_id=chance.choice(self.pilots),
                max_jobs=chance.randint(1, 3),
                chance=chance,
            )

    def report(self, chance: Random) -> None:
        lease = Match.objects.filter(ended_at__isnull=True).order_by("?").values_list("pk", flat=True).first()
        if lease is None:
            return
        with suppress(ConflictError):
            leases.report_status(lease, status=JobStatus.RUNNING)
            orders = leases.heartbeat(lease, usage=Usage(cpu_s=1.0), tails=Tails("x"), acknowledged=[]).commands
            if orders and chance.random() < 0.5:
                acknowledged = [order.pk for order in orders]
                leases.heartbeat(lease, usage=Usage(), tails=NO_TAILS, acknowledged=acknowledged)
            if chance.random() < 0.7:
                leases.finish(
                    lease, exit_code=chance.choice([0, 3, 222]), minor=None, usage=Usage(), output_sandbox=None
                )

    def expire(self, chance: Random) -> None:
        ago = database_now() - timedelta(hours=1)
        some = list(Match.objects.filter(ended_at__isnull=True).values_list("pk", flat=True)[:40])
        if some:
            Match.objects.filter(pk=chance.choice(some)).update(expires_at=ago)
            Match.objects.filter(pk=chance.choice(some)).update(reported_at=ago)
        expiry.expire_leases()

    def end_a_pilot(self, chance: Random) -> None:
        with transaction.atomic():
            reports.end_pilot(chance.choice(self.pilots), status=PilotStatus.ABORTED, reason="", now=timezone.now())
        self.send_pilot(chance)

    def withdraw(self, chance: Random) -> None:
        """Kill or hold a waiting job."""
        waiting = list(QueuedJob.objects.order_by("?").values_list("pk", flat=True)[:1])
        with suppress(ConflictError):
            for job_id in waiting:
                action = chance.choice([Action.KILL, Action.HOLD])
                control.apply_to_one(action, job_id, by=self.owner, now=timezone.now())

    def act_on_many(self, chance: Random) -> None:
        ids = list(Job.objects.order_by("?").values_list("pk", flat=True)[:25])
        action = chance.choice([Action.RELEASE, Action.RESCHEDULE, Action.KILL, Action.DELETE])
        chance.shuffle(ids)
        control.apply(
            action, ids[:4] if action in {Action.KILL, Action.DELETE} else ids, by=self.owner, now=timezone.now()
        )

    def edit(self, chance: Random) -> None:
        waiting = list(QueuedJob.objects.order_by("?").values_list("pk", flat=True)[:1])
        changes: dict[str, object] = {"priority": chance.randrange(11), "banned_sites": [chance.choice(SITES)]}
        with suppress(ConflictError, NotFoundError):
            for job_id in waiting:
                editing.edit(job_id, changes=changes, by=self.owner, now=timezone.now())

    def keep_house(self, chance: Random) -> None:
        priorities.recalculate(only_changed=chance.random() < 0.7)
        queueing.remove_empty(now=timezone.now())
        if chance.random() < 0.2:
            submit_pools.refresh_all(now=timezone.now() + timedelta(hours=chance.choice([0, 2])))

    def change_the_share(self, chance: Random) -> None:
        with transaction.atomic():
            Group.objects.filter(pk=self.group.pk).update(priority=chance.choice([10.0, 20.0, 30.0]))
            priorities.mark_changed(group_id=self.group.pk, now=timezone.now())


@pytest.fixture
def storm() -> Storm:
    group = make_group(shares_jobs=True, priority=10.0)
    places = [
        make_queue(ce=make_ce(site=make_site(name=name)), parameters={"Memory": 2000}, processors=3) for name in SITES
    ]
    storm = Storm(group=group, owner=make_user(groups=[group]), places=places)
    chance = Random(1)
    for _ in range(8):
        storm.send_pilot(chance)
    for _ in range(10):
        storm.submit(chance)
    return storm


def test_everything_at_once_leaves_everything_in_order(storm: Storm) -> None:
    steps = [storm.match] * 8 + [storm.withdraw] * 2 + [storm.report] * 2 + [storm.submit, storm.expire, storm.edit]
    steps += [storm.act_on_many, storm.act_on_many, storm.keep_house, storm.keep_house, storm.end_a_pilot]
    steps += [storm.change_the_share]
    repeat_at_once(steps, until=lambda rounds: rounds >= ROUNDS)

    queueing.remove_empty(now=timezone.now())
    priorities.recalculate()
    assert list(violations()) == []
    assert TaskQueue.objects.with_jobs().count() == TaskQueue.objects.count()
    assert_histories_follow_the_table()
    assert_no_job_is_where_it_must_not_be()


def assert_histories_follow_the_table() -> None:
    for job in Job.objects.prefetch_related("history"):
        statuses = [JobStatus(row.status) for row in sorted(job.history.all(), key=lambda row: row.pk)]
        steps = [(before, after) for before, after in pairwise(statuses) if before is not after]
        assert all(after in TRANSITIONS[before] for before, after in steps), (job, statuses)
        assert statuses[-1] == job.status
        assert job.reschedules == statuses.count(JobStatus.RESCHEDULED) <= 3


def assert_no_job_is_where_it_must_not_be() -> None:
    for match_ in Match.objects.filter(ended_at__isnull=True).select_related("job", "queue__ce__site"):
        assert match_.queue is not None
        assert str(match_.queue.ce.site) not in match_.job.description["banned_sites"]


def test_every_pilot_that_matched_is_flagged_though_it_ends_meanwhile(storm: Storm) -> None:
    """A pilot either gets a job and is flagged, whose lease then ends with it, or has ended and gets none."""
    ids = list(storm.pilots)

    def end(pilot_id: int) -> int:
        with transaction.atomic():
            return int(reports.end_pilot(pilot_id, status=PilotStatus.DONE, reason="", now=timezone.now()))

    def ask(pilot_id: int) -> int:
        try:
            offer = OfferRequest(cpu_time_s=300_000)
            return len(match(offer, request_id=uuid4(), pilot_id=pilot_id, max_jobs=1, chance=Random(pilot_id)))
        except PilotRefusedError:
            return 0

    works: list[Callable[[], int]] = []
    for pilot_id in ids:
        works += [partial(ask, pilot_id), partial(end, pilot_id)]
    answers = at_once(works)

    assert sum(answers[1::2]) == len(ids)
    assert Match.objects.count() == sum(answers[0::2])
    assert Pilot.objects.filter(matched_at__isnull=False).count() == sum(answers[0::2])
    assert expiry.expire_leases() == sum(answers[0::2])
    assert not Match.objects.filter(ended_at__isnull=True).exists()
    priorities.recalculate()
    assert list(violations()) == []
