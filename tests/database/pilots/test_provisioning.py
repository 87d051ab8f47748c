"""A cycle of the directors: pilots for waiting jobs, where these can run, within all limits (PIL §2.3)."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.db import transaction

from pilots.backends.interface import BatchRequest, PilotOrder, SubmitResult
from pilots.domain.pilot import PilotStatus
from pilots.models import Director, Pilot, PilotSecret
from pilots.queries import open_queues
from pilots.services.demand_snapshot import take_snapshot
from pilots.services.director_scopes import DirectorScopes
from pilots.services.secrets import issue_secrets
from resources.domain.enums import PilotType, ResourceState
from resources.models import ComputingElement, Queue, Site
from taskqueues.models import TaskQueue
from taskqueues.services.index.shared import index
from tests.cases import quick_cases
from tests.database.pilots.conftest import Fleet, ScriptedBackend
from tests.factories import NOW, make_ce, make_group, make_queue, make_site, make_task_queue, make_user, make_vo
from wms.accounts.domain import digest_of
from wms.accounts.models import VO, Group, Membership

pytestmark = pytest.mark.django_db

_job_ids = count(1)


def waiting(jobs: int, *, group: Group, **requirements: Any) -> TaskQueue:
    return make_task_queue(group=group, job_ids=[next(_job_ids) for _ in range(jobs)], **requirements)


def cycle(fleet: Fleet, *, after: timedelta = timedelta()) -> int:
    return fleet.cycle(after=after)


def sent_pilots(queue: Queue, *, vo: VO, number: int = 1, **columns: Any) -> list[Pilot]:
    """Return pilots that a director has sent and that have not reported yet."""
    columns = {"status": PilotStatus.WAITING, "submitted_at": NOW - timedelta(minutes=1), **columns}
    pilots = [Pilot.objects.create(vo=vo, queue=queue, stamp=f"s{next(_job_ids)}", **columns) for _ in range(number)]
    with transaction.atomic():
        issue_secrets(pilots, now=NOW)
    return pilots


@pytest.fixture
def vo() -> VO:
    return make_vo(name="lhcb")


@pytest.fixture
def group(vo: VO) -> Group:
    return make_group(vo=vo)


@pytest.fixture
def queue() -> Queue:
    return make_queue(max_waiting_pilots=50)


# ---- how many --------------------------------------------------------------------------------------------------------


def test_without_waiting_jobs_no_pilots_are_sent(fleet: Fleet, queue: Queue, group: Group) -> None:
    make_task_queue(group=group)  # emptied a moment ago
    assert cycle(fleet) == 0
    assert not Pilot.objects.exists()


def test_ten_jobs_get_ten_pilots_of_their_vo_once(
    fleet: Fleet, backend: ScriptedBackend, queue: Queue, group: Group
) -> None:
    waiting(10, group=group)

    assert cycle(fleet) == 10
    assert cycle(fleet, after=timedelta(minutes=1)) == 0

    pilots = list(Pilot.objects.select_related("secret"))
    assert len(pilots) == 10
    for pilot in pilots:
        assert (pilot.vo, pilot.queue, pilot.group, pilot.owner) == (group.vo, queue, None, None)
        assert (pilot.status, pilot.batch_id) == (PilotStatus.WAITING, f"id-{pilot.stamp}")
        assert (pilot.submitted_at, pilot.started_at, pilot.ended_at) == (NOW, None, None)
    orders = {order.stamp: order for order in backend.orders}
    for pilot in pilots:
        order = orders[pilot.stamp]
        assert (order.vo, order.site, order.ce, order.queue) == ("lhcb", queue.ce.site.name, queue.ce.name, queue.name)
        assert bytes(pilot.secret.digest) == digest_of(order.secret)
        assert order.secret not in repr(order)


def test_ten_jobs_with_twenty_waiting_pilots_get_no_more(fleet: Fleet, queue: Queue, group: Group) -> None:
    waiting(10, group=group)
    sent_pilots(queue, vo=group.vo, number=20)
    assert cycle(fleet) == 0


def test_pilots_of_another_vo_are_not_counted(fleet: Fleet, queue: Queue, group: Group) -> None:
    waiting(10, group=group)
    sent_pilots(queue, vo=make_vo(), number=20)
    assert cycle(fleet) == 10


@pytest.mark.parametrize(
    ("columns", "counts"),
    [
        ({}, True),
        ({"status": PilotStatus.RUNNING, "started_at": NOW, "last_seen_at": NOW - timedelta(minutes=9)}, True),
        ({"status": PilotStatus.RUNNING, "started_at": NOW, "last_seen_at": NOW - timedelta(minutes=11)}, False),
        ({"status": PilotStatus.RUNNING, "started_at": NOW, "last_seen_at": NOW, "matched_at": NOW}, False),
        ({"submitted_at": NOW - timedelta(hours=5)}, True),
        ({"submitted_at": NOW - timedelta(hours=7), "status": PilotStatus.STALLED}, False),
        ({"status": PilotStatus.DONE, "ended_at": NOW}, False),
        ({"revoked_at": NOW}, False),
    ],
)
def test_a_pilot_counts_until_it_matched_or_is_lost(
    fleet: Fleet, queue: Queue, group: Group, columns: dict[str, Any], counts: bool
) -> None:
    waiting(3, group=group)
    sent_pilots(queue, vo=group.vo, **columns)
    assert cycle(fleet) == (2 if counts else 3)


def test_many_queues_get_no_more_pilots_than_waiting_jobs(fleet: Fleet, group: Group) -> None:
    queues = [make_queue() for _ in range(5)]
    waiting(10, group=group)

    assert cycle(fleet) == 10

    spread = Counter(Pilot.objects.values_list("queue_id", flat=True))
    assert spread == {queue.pk: 2 for queue in queues}


def test_many_directors_send_no_more_pilots_than_waiting_jobs(fleet: Fleet, queue: Queue, group: Group) -> None:
    for name in ("a", "b", "c"):
        Director.objects.create(name=name)
    waiting(10, group=group)
    assert cycle(fleet) == 10


# ---- within the limits -----------------------------------------------------------------------------------------------


def test_no_more_pilots_wait_at_a_queue_than_it_allows(fleet: Fleet, group: Group) -> None:
    queue = make_queue(max_waiting_pilots=4, max_pilots=100)
    waiting(50, group=group)

    assert cycle(fleet) == 4
    assert cycle(fleet) == 0
    first = Pilot.objects.order_by("pk").first()
    assert first is not None
    Pilot.objects.filter(pk=first.pk).update(status=PilotStatus.RUNNING, started_at=NOW, matched_at=NOW)
    assert cycle(fleet) == 1
    assert Pilot.objects.filter(queue=queue, started_at=None).count() == 4


def test_no_more_pilots_live_at_a_queue_than_it_allows(fleet: Fleet, group: Group) -> None:
    queue = make_queue(max_waiting_pilots=10, max_pilots=6)
    sent_pilots(queue, vo=group.vo, number=2, status=PilotStatus.RUNNING, started_at=NOW, matched_at=NOW)
    sent_pilots(queue, vo=group.vo, number=9, status=PilotStatus.DONE, ended_at=NOW)
    waiting(50, group=group)
    assert cycle(fleet) == 4


def test_the_free_slots_of_the_ce_bound_the_pilots(
    fleet: Fleet, backend: ScriptedBackend, queue: Queue, group: Group
) -> None:
    make_queue(ce=queue.ce)
    backend.free = 3
    waiting(50, group=group)
    assert cycle(fleet) == 3


@pytest.mark.parametrize("level", ["site", "ce", "queue"])
@pytest.mark.parametrize("state", [ResourceState.BANNED, ResourceState.DRAINING])
def test_a_banned_or_draining_place_gets_no_pilots(
    fleet: Fleet, queue: Queue, group: Group, level: str, state: ResourceState
) -> None:
    waiting(10, group=group)
    closed = {"state": state, "state_until": NOW + timedelta(hours=1)}
    for name, rows in {"site": Site.objects, "ce": ComputingElement.objects, "queue": Queue.objects}.items():
        if name == level:
            rows.update(**closed)

    assert cycle(fleet) == 0
    assert not Pilot.objects.exists()
    assert cycle(fleet, after=timedelta(hours=2)) == 10


def test_no_pilots_are_sent_for_a_paused_vo(fleet: Fleet, queue: Queue, group: Group) -> None:
    waiting(10, group=group)
    VO.objects.filter(pk=group.vo_id).update(paused_until=NOW + timedelta(hours=1), pause_reason="full")
    assert cycle(fleet) == 0
    assert cycle(fleet, after=timedelta(hours=2)) == 10


# ---- by the conditions of the match ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "requirements",
    quick_cases(
        [
            {"sites": ["LCG.Other.org"]},
            {"banned_sites": ["LCG.CERN.ch"]},
            {"platforms": ["aarch64-el9"]},
            {"tags": ["GPU"]},
            {"processors": 2},
            {"memory_mb": 4500},
            {"cpu_time_s": 300_000},
            {"job_type": "Reconstruction"},
            {"submit_pools": ["0" * 64]},
            {"setup": "Development"},
            {"grid_ces": ["other.cern.ch"]},
            {"priority": 0.0},
        ],
        quick=4,
    ),
)
def test_jobs_that_no_pilot_there_could_run_get_no_pilots(
    fleet: Fleet, group: Group, requirements: dict[str, object]
) -> None:
    make_queue(
        ce=make_ce(site=make_site(name="LCG.CERN.ch")),
        cpu_time_s=50_000,
        platforms=["x86_64-el9"],
        job_types=["User", "MCSimulation"],
        setup=group.vo.setup,
    )
    waiting(10, group=group, **{"cpu_time_s": 50_000, **requirements})
    assert cycle(fleet) == 0
    waiting(1, group=group, cpu_time_s=500, platforms=["x86_64-el9"], sites=["LCG.CERN.ch"])
    assert cycle(fleet) == 1


def test_a_site_that_serves_other_vos_gets_none(fleet: Fleet, group: Group) -> None:
    make_queue(ce=make_ce(site=make_site(vos=[make_vo()])))
    waiting(10, group=group)
    assert cycle(fleet) == 0


def setups_sent() -> dict[str, int]:
    return dict(Counter(Pilot.objects.values_list("setup", flat=True)))


def test_jobs_of_each_setup_get_pilots_of_theirs(fleet: Fleet, queue: Queue) -> None:
    group = make_group(vo=make_vo(setups=["Development"]))
    waiting(3, group=group)
    waiting(2, group=group, setup="Development")
    assert cycle(fleet) == 5
    assert setups_sent() == {"Production": 3, "Development": 2}
    # Those without a job count for jobs of their setup only; those of an earlier version for the default.
    Pilot.objects.filter(setup="Production").update(setup="")
    waiting(4, group=group, setup="Development", cpu_time_s=5000)
    assert cycle(fleet, after=timedelta(minutes=1)) == 4
    assert setups_sent() == {"": 3, "Development": 6}


@pytest.mark.parametrize(
    ("director", "ce", "queue", "sent"),
    [
        ("Development", "", "", {"Development": 2, "Atlas": 1}),
        ("Development", "Production", "", {"Production": 3, "Atlas": 1}),
        ("Development", "Production", "Development", {"Development": 2, "Atlas": 1}),
        ("Atlas", "", "", {"Production": 3, "Development": 2, "Atlas": 1}),
        ("", "Development", "Atlas", {"Development": 2, "Atlas": 1}),
    ],
)
def test_queue_ce_and_director_choose_the_setup_for_vos_that_have_it(
    fleet: Fleet, director: str, ce: str, queue: str, sent: dict[str, int]
) -> None:
    group = make_group(vo=make_vo(setups=["Development"]))
    there = make_queue(setup=queue)
    ComputingElement.objects.filter(pk=there.ce_id).update(setup=ce)
    Director.objects.create(name="one", setup=director)
    waiting(3, group=group)
    waiting(2, group=group, setup="Development")
    waiting(1, group=make_group(vo=make_vo(setup="Atlas")))
    cycle(fleet)
    assert setups_sent() == sent


@pytest.mark.parametrize(
    ("requirements", "sent"),
    quick_cases(
        [
            ("GPUs > 0", {"gpu"}),
            ("target.gpus > 0 || cputime < 1000", {"gpu", "short"}),
            ('VO == "lhcb" && JobType != "gpu"', {"short", "long", "tagged"}),
            ('stringListMember("Big", "Big,Small") && member("Big", Tags)', {"tagged"}),
            ("time() > 1000000000", {"gpu", "short", "long", "tagged"}),
            ("Nonsense > 1", set()),
            ("GPUs", set()),
            ("GPUs >", set()),
        ],
        quick=4,
    ),
)
def test_a_director_sends_pilots_for_task_queues_that_meet_its_requirements(
    fleet: Fleet, group: Group, requirements: str, sent: set[str]
) -> None:
    make_queue(gpus=1, tags=["Big"])
    Director.objects.create(name="farm", kind="taskqueue", requirements=requirements)
    needs: dict[str, dict[str, Any]] = {
        "gpu": {"gpus": 1},
        "short": {"cpu_time_s": 500},
        "long": {},
        "tagged": {"tags": ["Big"]},
    }
    for job_type, needed in needs.items():
        waiting(1, group=group, job_type=job_type, **{"cpu_time_s": 300_000, **needed})
    snapshot = index.renewed()
    scopes = DirectorScopes(take_snapshot(list(open_queues(now=NOW)), snapshot, now=NOW), now=NOW)
    served = {demand.task_queue_id for demand in scopes.of(Director.objects.get()).demands}
    assert set(TaskQueue.objects.filter(pk__in=served).values_list("job_type", flat=True)) == sent
    assert cycle(fleet) == len(sent)


def test_a_director_looks_at_its_own_sites_and_job_types(fleet: Fleet, group: Group) -> None:
    here, _there = make_queue(), make_queue()
    director = Director.objects.create(name="mc-farm", job_types=["MCSimulation"])
    director.sites.set([here.ce.site])
    waiting(3, group=group, job_type="MCSimulation")
    waiting(5, group=group, job_type="User")

    assert cycle(fleet) == 3
    assert set(Pilot.objects.values_list("queue", flat=True)) == {here.pk}


# ---- what is asked of the batch system -------------------------------------------------------------------------------


def test_a_site_director_requests_the_slot_of_the_batch_queue(
    fleet: Fleet, backend: ScriptedBackend, group: Group
) -> None:
    make_queue(
        name="long", wall_time_s=345_600, processors=8, memory_mb=16_000, gpus=1, platforms=["x86_64-el9"], tags=["Big"]
    )
    waiting(1, group=group)
    assert cycle(fleet) == 1
    assert backend.orders[0].slot == BatchRequest(
        queue="long",
        wall_time_s=345_600,
        processors=8,
        memory_mb=16_000,
        gpus=1,
        platforms=("x86_64-el9",),
        tags=("Big",),
    )


def test_a_task_queue_director_requests_the_requirements_of_the_jobs(
    fleet: Fleet, backend: ScriptedBackend, group: Group
) -> None:
    Director.objects.create(name="exact", kind="taskqueue")
    make_queue(name="long", wall_time_s=345_600, processors=8, memory_mb=16_000, platforms=["x86_64-el9", "x86_64-el8"])
    waiting(1, group=group, cpu_time_s=5000, processors=2, memory_mb=3000, platforms=["x86_64-el8"])
    assert cycle(fleet) == 1
    assert backend.orders[0].slot == BatchRequest(
        queue="long", wall_time_s=8400, processors=2, memory_mb=3000, platforms=("x86_64-el8",)
    )


def test_pilots_of_small_slots_are_not_counted_for_large_jobs(
    fleet: Fleet, backend: ScriptedBackend, group: Group
) -> None:
    Director.objects.create(name="exact", kind="taskqueue")
    make_queue(processors=8, memory_mb=16_000, cpu_time_s=300_000)
    waiting(3, group=group, cpu_time_s=500)
    assert cycle(fleet) == 3
    waiting(2, group=group, processors=4)
    waiting(2, group=group, cpu_time_s=300_000)
    waiting(1, group=group, cpu_time_s=500, wall_time_s=36_000)
    assert cycle(fleet) == 5
    assert cycle(fleet) == 0


# ---- where nothing was found -----------------------------------------------------------------------------------------


def pilots_without_a_job(queue: Queue, *, vo: VO, number: int, at: timedelta, ended: bool = True) -> None:
    columns = {"status": PilotStatus.DONE, "ended_at": NOW + at} if ended else {"last_seen_at": NOW + at}
    sent_pilots(queue, vo=vo, number=number, started_at=NOW, nothing_at=NOW + at, **columns)


@pytest.mark.parametrize(
    ("asked_at", "sent"),
    [(timedelta(minutes=-1), 5), (timedelta(minutes=5), 2), (timedelta(minutes=5, seconds=-20), 2)],
)
def test_pilots_without_a_match_are_counted_for_jobs_that_waited(
    fleet: Fleet, queue: Queue, group: Group, asked_at: timedelta, sent: int
) -> None:
    waiting(5, group=group)
    TaskQueue.objects.update(created_at=NOW)
    pilots_without_a_job(queue, vo=group.vo, number=3, at=asked_at)
    assert cycle(fleet, after=timedelta(minutes=6)) == sent


def test_pilots_without_a_match_are_counted_for_ten_minutes(fleet: Fleet, queue: Queue, group: Group) -> None:
    waiting(5, group=group)
    TaskQueue.objects.update(created_at=NOW - timedelta(hours=1))
    pilots_without_a_job(queue, vo=group.vo, number=3, at=timedelta())
    assert cycle(fleet, after=timedelta(minutes=9)) == 2
    assert cycle(fleet, after=timedelta(minutes=11)) == 3


def test_a_queue_with_empty_matches_gets_no_pilots_for_a_while(fleet: Fleet, queue: Queue, group: Group) -> None:
    waiting(40, group=group)
    TaskQueue.objects.update(created_at=NOW - timedelta(hours=1))
    pilots_without_a_job(queue, vo=group.vo, number=12, at=timedelta())
    assert cycle(fleet, after=timedelta(minutes=12)) == 0
    waiting(2, group=group, job_type="Other")
    TaskQueue.objects.filter(job_type="Other").update(created_at=NOW + timedelta(minutes=12))
    assert cycle(fleet, after=timedelta(minutes=13)) == 2
    assert cycle(fleet, after=timedelta(minutes=16)) == 40


# ---- private pilots --------------------------------------------------------------------------------------------------


def test_a_ce_that_accepts_only_private_pilots_gets_private_ones(fleet: Fleet, vo: VO) -> None:
    make_queue(ce=make_ce(pilot_types=[PilotType.PRIVATE]))
    alone, sharing = make_group(vo=vo), make_group(vo=vo, shares_jobs=True)
    alice, bob = make_user(groups=[alone, sharing]), make_user(groups=[alone])
    waiting(2, group=alone, owner=alice)
    waiting(1, group=alone, owner=bob)
    waiting(3, group=sharing, owner=alice)

    assert cycle(fleet) == 6
    assert cycle(fleet) == 0

    kinds = Counter(Pilot.objects.values_list("group", "owner"))
    assert kinds == {(alone.pk, alice.pk): 2, (alone.pk, bob.pk): 1, (sharing.pk, None): 3}


def test_jobs_for_private_pilots_only_get_private_ones(fleet: Fleet, queue: Queue, group: Group) -> None:
    task_queue = waiting(2, group=group, pilot_types=["private"])
    assert cycle(fleet) == 2
    assert set(Pilot.objects.values_list("group", "owner")) == {(group.pk, task_queue.owner_id)}


def test_a_ce_that_accepts_only_generic_pilots_gets_none_for_jobs_of_private_ones(fleet: Fleet, group: Group) -> None:
    make_queue(ce=make_ce(pilot_types=[PilotType.GENERIC]))
    Director.objects.create(name="all", private_fraction=1.0)
    waiting(2, group=group, pilot_types=["private"])
    assert cycle(fleet) == 0
    waiting(2, group=group)
    assert cycle(fleet) == 2
    assert not Pilot.objects.exclude(group=None).exists()


@pytest.mark.parametrize(("fraction", "private"), [(0.0, 0), (1.0, 5)])
def test_the_private_fraction_of_a_director_is_respected(
    fleet: Fleet, queue: Queue, group: Group, fraction: float, private: int
) -> None:
    Director.objects.create(name="all", private_fraction=fraction)
    waiting(5, group=group)
    assert cycle(fleet) == 5
    assert Pilot.objects.exclude(group=None).count() == private


def test_jobs_of_a_suspended_owner_get_no_pilots(fleet: Fleet, group: Group) -> None:
    make_queue(ce=make_ce(pilot_types=[PilotType.PRIVATE]))
    make_queue()
    waiting(5, group=group, owner=make_user(groups=[group], suspended=True))
    assert cycle(fleet) == 0


def test_jobs_of_a_former_member_get_no_pilots(fleet: Fleet, group: Group) -> None:
    make_queue(ce=make_ce(pilot_types=[PilotType.PRIVATE]))
    make_queue()
    owner = make_user(groups=[group])
    waiting(5, group=group, owner=owner)
    Membership.objects.filter(user=owner).delete()
    assert cycle(fleet) == 0
    Membership.objects.create(user=owner, group=group)
    assert cycle(fleet) > 0


# ---- committed first -------------------------------------------------------------------------------------------------


def test_no_pilot_is_submitted_before_the_commit(
    fleet: Fleet, backend: ScriptedBackend, queue: Queue, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting(3, group=group)

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("in the middle")

    monkeypatch.setattr("pilots.services.director_cycle.issue_secrets", fails)
    with pytest.raises(RuntimeError):
        cycle(fleet)
    assert not Pilot.objects.exists()
    assert not PilotSecret.objects.exists()
    assert backend.orders == []


def test_pilots_are_committed_as_submitted_before_they_are_started(
    fleet: Fleet, backend: ScriptedBackend, queue: Queue, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting(3, group=group)
    found: list[tuple[str, str]] = []
    accept = backend.submit

    def look_first(orders: Sequence[PilotOrder]) -> Sequence[SubmitResult]:
        found.extend(Pilot.objects.values_list("status", "batch_id"))
        return accept(orders)

    monkeypatch.setattr(backend, "submit", look_first)
    assert cycle(fleet) == 3
    assert found == [(PilotStatus.SUBMITTED, "")] * 3
