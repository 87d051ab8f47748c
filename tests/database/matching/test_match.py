"""The match: the job that a pilot gets (TQM, PIL, docs/architecture.md, Matching)."""

from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from matching.models import Match
from matching.services.match import match
from matching.services.offers import BadOfferError, NotYourQueueError, OfferRequest
from matching.services.search import PilotRefusedError
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from resources.domain.enums import ResourceState
from resources.models import Site
from resources.queries.places import UnknownPlaceError
from taskqueues.domain.conditions import CONDITIONS
from taskqueues.models import QueuedJob, TaskQueue
from taskqueues.services import priorities, submit_pools
from tests.factories import (
    NOW,
    make_ce,
    make_group,
    make_job,
    make_pilot,
    make_platform,
    make_queue,
    make_site,
    make_user,
    redescribe,
)
from wms.accounts.models import VO, Group
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.services.enqueueing import put_back_in_queues

pytestmark = pytest.mark.django_db


@pytest.fixture
def group() -> Group:
    return make_group(priority=100.0, shares_jobs=True)


def ask(
    pilot: Pilot, *, request_id: UUID | None = None, max_jobs: int = 1, seed: int = 1, **offered: Any
) -> list[Match]:
    request = OfferRequest(**{"cpu_time_s": 300_000, **offered})
    chance = Random(seed)
    leases = match(request, request_id=request_id or uuid4(), pilot_id=pilot.pk, max_jobs=max_jobs, chance=chance)
    return [Match.objects.get(pk=lease.match_id) for lease in leases]


def test_a_matched_job_is_leased_flagged_and_out_of_its_queue(group: Group) -> None:
    queue = make_queue()
    job, pilot = make_job(group=group), make_pilot(vo=group.vo, queue=queue)
    (lease,) = ask(pilot)
    job.refresh_from_db()
    pilot.refresh_from_db()
    assert lease.job == job
    assert (lease.expires_at - lease.leased_at).total_seconds() == 300
    assert (job.status, job.site, job.queue, job.pilot_id) == (JobStatus.MATCHED, queue.ce.site, queue, pilot.pk)
    assert job.matched_at == pilot.matched_at == lease.leased_at
    assert not QueuedJob.objects.exists()
    assert not TaskQueue.objects.exists()
    assert [row.status for row in job.history.order_by("pk")] == ["Matched"]


def test_without_a_fitting_job_there_is_no_match(group: Group) -> None:
    make_job(group=group)
    pilot = make_pilot(vo=group.vo)
    assert ask(pilot, cpu_time_s=499) == []
    assert not Match.objects.exists()
    assert QueuedJob.objects.count() == 1


def test_the_same_request_gets_the_same_lease(group: Group) -> None:
    for _ in range(3):
        make_job(group=group)
    pilot, request_id = make_pilot(vo=group.vo), uuid4()
    first = ask(pilot, request_id=request_id)
    assert ask(pilot, request_id=request_id, seed=2) == first
    assert Match.objects.count() == 1


def test_the_same_request_id_of_another_pilot_is_another_request(group: Group) -> None:
    for _ in range(2):
        make_job(group=group)
    request_id = uuid4()
    one, other = (ask(make_pilot(vo=group.vo), request_id=request_id) for _ in range(2))
    assert one[0].job != other[0].job


def test_the_highest_nonempty_cpu_segment_is_matched_first(group: Group) -> None:
    for cpu_time_s in (500, 50_000, 300_000, 5000, 300_000):
        make_job(group=group, cpu_time_s=cpu_time_s)
    pilot = make_pilot(vo=group.vo)
    drawn = [ask(pilot)[0].job.description["cpu_time_s"] for _ in range(5)]
    assert drawn == [300_000, 300_000, 50_000, 5000, 500]
    assert ask(pilot) == []


def test_a_segment_above_the_offer_is_not_drawn(group: Group) -> None:
    for cpu_time_s in (500, 300_000):
        make_job(group=group, cpu_time_s=cpu_time_s)
    (lease,) = ask(make_pilot(vo=group.vo), cpu_time_s=299_999)
    assert lease.job.description["cpu_time_s"] == 500


def test_a_group_of_priority_zero_is_never_drawn_and_does_not_hide_lower_segments(group: Group) -> None:
    nobody = make_group(vo=group.vo, priority=0.0)
    make_job(group=nobody, cpu_time_s=300_000)
    mine = make_job(group=group, cpu_time_s=500)
    pilot = make_pilot(vo=group.vo)
    assert ask(pilot)[0].job == mine
    assert ask(pilot) == []
    assert QueuedJob.objects.count() == 1


def test_one_of_the_ten_oldest_jobs_of_a_level_is_matched(group: Group) -> None:
    owner = make_user(groups=[group])
    jobs = [make_job(group=group, owner=owner).pk for _ in range(13)]
    pilot = make_pilot(vo=group.vo)
    first = {ask(pilot, seed=seed)[0].job_id for seed in range(3)}
    assert first <= set(jobs[:12])
    for seed in range(3, 13):
        ask(pilot, seed=seed)
    assert set(Match.objects.values_list("job_id", flat=True)) == set(jobs)


def test_user_priority_ten_is_matched_before_one_and_zero_last(group: Group) -> None:
    owner = make_user(groups=[group])
    made = {priority: make_job(group=group, owner=owner, priority=priority).pk for priority in (1, 0, 10)}
    pilot = make_pilot(vo=group.vo)
    assert [ask(pilot, seed=seed)[0].job_id for seed in range(3)] == [made[10], made[1], made[0]]


def test_a_stray_row_in_a_queue_does_not_keep_others_from_matching(group: Group) -> None:
    owner = make_user(groups=[group])
    stray, good = (make_job(group=group, owner=owner, priority=p) for p in (10, 1))
    Job.objects.filter(pk=stray.pk).update(status=JobStatus.HELD)
    assert [lease.job for lease in ask(make_pilot(vo=group.vo))] == [good]
    assert Job.objects.get(pk=stray.pk).status == JobStatus.HELD
    assert not QueuedJob.objects.exists()


def test_an_empty_match_updates_last_seen_but_not_the_match_flag(group: Group) -> None:
    pilot = make_pilot(vo=group.vo)
    assert ask(pilot) == []
    pilot.refresh_from_db()
    assert pilot.last_seen_at is not None
    assert pilot.matched_at is None


def test_jobs_of_a_suspended_owner_are_not_matched(group: Group) -> None:
    job = make_job(group=group)
    job.owner.is_active = False
    job.owner.save()
    assert ask(make_pilot(vo=group.vo)) == []


@pytest.mark.parametrize("state", [ResourceState.BANNED, ResourceState.DRAINING])
def test_inactive_sites_ces_and_queues_get_no_jobs(group: Group, state: ResourceState) -> None:
    make_job(group=group)
    site = make_site(state=state)
    ce = make_ce(state=state)
    for queue in (make_queue(ce=make_ce(site=site)), make_queue(ce=ce), make_queue(state=state)):
        assert ask(make_pilot(vo=group.vo, queue=queue)) == []
    assert QueuedJob.objects.count() == 1


def test_a_ban_that_has_passed_is_over(group: Group) -> None:
    make_job(group=group)
    queue = make_queue(ce=make_ce(site=make_site(state=ResourceState.BANNED, state_until=NOW)))
    assert len(ask(make_pilot(vo=group.vo, queue=queue))) == 1


def test_several_jobs_share_the_slots_processors_and_memory(group: Group) -> None:
    for _ in range(5):
        make_job(group=group, processors=2, memory_mb=1500)
    pilot = make_pilot(vo=group.vo)
    leases = ask(pilot, max_jobs=10, processors=8, memory_mb=5000)
    assert [lease.ordinal for lease in leases] == [0, 1, 2]  # the fourth would need 1500 of the 500 MB left
    assert len({lease.job_id for lease in leases}) == 3


@pytest.mark.parametrize(
    ("asked", "offered", "given"),
    [
        ({"gpus": 1}, {"gpus": 2}, 2),
        ({"gpus": 2}, {"gpus": 3}, 1),
        ({"gpus": 1}, {}, 0),
        # The third fits as its queue has it rounded, 2000 MB of the 2400 MB left; the fourth does not.
        ({"disk_mb": 1800}, {"disk_mb": 6000}, 3),
        # Each has the whole time, and the container runtime serves them all.
        ({"wall_time_s": 3600}, {"wall_time_s": 3600}, 4),
        ({"container": "docker://alpine"}, {"container": True}, 4),
    ],
)
def test_several_jobs_share_what_can_be_used_up(
    group: Group, asked: dict[str, Any], offered: dict[str, Any], given: int
) -> None:
    for _ in range(4):
        make_job(group=group, **asked)
    pilot = make_pilot(vo=group.vo)
    assert len(ask(pilot, max_jobs=10, processors=8, **offered)) == given


def test_jobs_with_descriptions_of_earlier_versions_are_matched_and_requeued(group: Group) -> None:
    jobs = [make_job(group=group) for _ in range(2)]
    for job in jobs:
        redescribe(job, without=("wall_time_s", "gpus", "disk_mb", "container"))
    leases = ask(make_pilot(vo=group.vo), max_jobs=10, processors=2, gpus=1, disk_mb=10)
    assert {lease.job_id for lease in leases} == {job.pk for job in jobs}
    with transaction.atomic():
        again = put_back_in_queues(jobs, now=NOW)
    assert {TaskQueue.objects.get(pk=pk).gpus for pk in again.values()} == {0}


def test_max_jobs_bounds_the_leases_and_a_replay_gives_all_of_them(group: Group) -> None:
    for _ in range(5):
        make_job(group=group)
    pilot, request_id = make_pilot(vo=group.vo), uuid4()
    leases = ask(pilot, request_id=request_id, max_jobs=3, processors=8)
    assert len(leases) == 3
    assert ask(pilot, request_id=request_id, max_jobs=3, processors=8) == leases


def test_a_registered_pilot_is_compared_with_its_own_place(group: Group) -> None:
    queue = make_queue()
    here = make_job(group=group, sites=[queue.ce.site.name])
    make_job(group=group, banned_sites=[queue.ce.site.name])
    make_job(group=group, sites=["LCG.Elsewhere.org"])
    pilot = make_pilot(vo=group.vo, queue=queue)
    assert [lease.job for lease in ask(pilot)] == [here]
    assert ask(pilot) == []


@pytest.mark.parametrize("level", ["site", "ce", "queue"])
def test_a_registered_pilot_that_names_another_place_is_refused(group: Group, level: str) -> None:
    make_job(group=group)
    pilot = make_pilot(vo=group.vo, queue=make_queue())
    named: dict[str, Any] = {level: "another"}
    with pytest.raises(NotYourQueueError):
        ask(pilot, **named)
    assert QueuedJob.objects.count() == 1


def test_a_pilot_made_by_hand_gets_only_jobs_that_accept_every_site_where_it_may_be(group: Group) -> None:
    site = make_site(name="LCG.CERN.ch")
    make_job(group=group, sites=["LCG.Elsewhere.org"])
    pilot = make_pilot(vo=group.vo)
    assert ask(pilot, site=site.name) == []
    with pytest.raises(UnknownPlaceError, match=r"Did you mean \"LCG.CERN.ch\"\?"):
        ask(pilot, site="LCG.CERM.ch")
    # ADR 27: it may be at any site of its VO, and the job must accept each.
    assert ask(pilot, site="ANY") == []
    make_job(group=group, sites=["LCG.Elsewhere.org", site.name])
    assert len(ask(pilot, site="ANY")) == 1


def test_a_private_pilot_serves_its_owner(group: Group) -> None:
    plain = make_group(vo=group.vo)
    alice, bob = make_user(groups=[plain]), make_user(groups=[plain])
    make_job(group=plain, owner=bob)
    hers = make_job(group=plain, owner=alice)
    pilot = make_pilot(group=plain, owner=alice)
    assert [lease.job for lease in ask(pilot)] == [hers]
    assert ask(pilot) == []


def test_a_group_pilot_gets_no_jobs_when_the_group_stops_sharing(group: Group) -> None:
    job, pilot = make_job(group=group), make_pilot(group=group)
    Group.objects.filter(pk=group.pk).update(properties=[])
    assert ask(pilot) == []
    Group.objects.filter(pk=group.pk).update(properties=["JOB_SHARING"])
    assert [lease.job for lease in ask(pilot)] == [job]


def test_job_types_of_the_queue_hold_unless_the_pilot_names_its_own(group: Group) -> None:
    make_job(group=group, job_type="User")
    pilot = make_pilot(vo=group.vo, queue=make_queue(job_types=["MCSimulation"]))
    assert ask(pilot) == ask(pilot, job_types=()) == []
    assert len(ask(pilot, job_types=("User",))) == 1


def test_a_platform_fits_that_the_queue_is_configured_for_and_that_the_node_runs(group: Group) -> None:
    """ADR 28: before, the queue's platforms alone were compared."""
    make_platform(name="el9", runs=["el8"])
    job = make_job(group=group, platforms=["el8"])
    configured = make_queue(platforms=["el9"])
    for told in (("deb12",), ("el7", "deb12")):
        assert ask(make_pilot(vo=group.vo, queue=configured), platforms=told) == []
    assert ask(make_pilot(vo=group.vo, queue=make_queue(platforms=["deb12"])), platforms=("el9",)) == []
    assert ask(make_pilot(vo=group.vo, queue=make_queue()), platforms=("deb12",)) == []
    assert [lease.job for lease in ask(make_pilot(vo=group.vo, queue=configured), platforms=("el8",))] == [job]
    again = make_job(group=group, platforms=["el8"])
    assert [lease.job for lease in ask(make_pilot(vo=group.vo, queue=make_queue()), platforms=("el8",))] == [again]


def test_the_platform_comes_from_offer_node_report_or_queue(
    group: Group,
) -> None:
    queue = make_queue(platforms=["el9"])
    make_job(group=group, platforms=["el9"])
    silent, debian = make_pilot(vo=group.vo, queue=queue), make_pilot(vo=group.vo, queue=queue)
    Pilot.objects.filter(pk=debian.pk).update(node={"platform": "deb12"})
    assert ask(debian) == []
    assert len(ask(silent)) == 1


@pytest.mark.parametrize(("says_so", "container", "jobs"), [(True, True, 1), (True, False, 0), (False, True, 0)])
def test_containers_provide_the_platforms_of_the_queue(group: Group, says_so: bool, container: bool, jobs: int) -> None:
    queue = make_queue(platforms=["el9"], container=True)
    Site.objects.update(containers_provide_platforms=says_so)
    make_job(group=group, platforms=["el9"])
    pilot = make_pilot(vo=group.vo, queue=queue)
    assert len(ask(pilot, platforms=("deb12",), container=container)) == jobs


def test_required_tags_must_be_among_the_tags(group: Group) -> None:
    with pytest.raises(BadOfferError) as refusal:
        ask(make_pilot(vo=group.vo), required_tags=("gpu",))
    assert list(refusal.value.errors) == ["required_tags"]


def test_a_setup_that_the_vo_does_not_have_is_refused_with_the_nearest(group: Group) -> None:
    with pytest.raises(BadOfferError, match=f'Did you mean "{group.vo.setup}"'):
        ask(make_pilot(vo=group.vo), setup=group.vo.setup[:-1])


@pytest.mark.parametrize("status", [PilotStatus.DONE, PilotStatus.LOST, PilotStatus.ABORTED])
def test_an_ended_pilot_gets_no_jobs(group: Group, status: PilotStatus) -> None:
    make_job(group=group)
    with pytest.raises(PilotRefusedError):
        ask(make_pilot(vo=group.vo, status=status))
    assert Job.objects.get().status == JobStatus.WAITING


def test_a_revoked_pilot_gets_no_jobs(group: Group) -> None:
    make_job(group=group)
    pilot = make_pilot(vo=group.vo)
    Pilot.objects.update(revoked_at=NOW)
    with pytest.raises(PilotRefusedError):
        ask(pilot)


def test_a_job_with_requirements_runs_only_where_they_are_met(group: Group) -> None:
    able = make_queue(parameters={"SoftwareTag": ["v1", "v2"]})
    unable = make_queue(parameters={"SoftwareTag": ["v3"]})
    with transaction.atomic():
        pool = submit_pools.register(vo=group.vo, requirements={"softwaretag": ["v9", "v2"]}, now=NOW)
    assert pool.queues == 1
    job = make_job(group=group, submit_pools=[pool.id])
    assert ask(make_pilot(vo=group.vo, queue=unable)) == []
    # An offer can only narrow what the server knows.
    assert ask(make_pilot(vo=group.vo, queue=unable), submit_pools=(pool.id,)) == []
    assert ask(make_pilot(vo=group.vo, queue=able), submit_pools=()) == []
    assert [lease.job for lease in ask(make_pilot(vo=group.vo, queue=able))] == [job]


def test_a_repeated_partial_request_gets_no_further_leases(group: Group) -> None:
    owner = make_user(groups=[group])
    jobs = [make_job(group=group, owner=owner).pk for _ in range(2)]
    pilot, request_id = make_pilot(vo=group.vo), uuid4()
    leases = ask(pilot, request_id=request_id, max_jobs=3, processors=3)
    assert sorted(lease.job_id for lease in leases) == jobs
    make_job(group=group, owner=owner)
    assert ask(pilot, request_id=request_id, max_jobs=3, processors=3) == leases
    assert len(ask(pilot, max_jobs=3, processors=3)) == 1


def test_a_request_continues_after_its_server_died_between_two_leases(group: Group) -> None:
    owner = make_user(groups=[group])
    jobs = [make_job(group=group, owner=owner).pk for _ in range(3)]
    pilot, request_id = make_pilot(vo=group.vo), uuid4()
    first = ask(pilot, request_id=request_id, max_jobs=1)
    leases = ask(pilot, request_id=request_id, max_jobs=3, processors=3)
    assert leases[0] == first[0]
    assert sorted(lease.job_id for lease in leases) == jobs
    assert [lease.ordinal for lease in leases] == [0, 1, 2]


def test_an_empty_answer_leaves_with_the_pilot_how_many_queues_each_condition_left(group: Group) -> None:
    owner = make_user(groups=[group])
    make_job(group=group, owner=owner, cpu_time_s=500, tags=["gpu"])
    make_job(group=group, owner=owner, cpu_time_s=300_000)
    pilot = make_pilot(vo=group.vo)
    assert ask(pilot, cpu_time_s=5000) == []
    pilot.refresh_from_db()
    assert pilot.nothing_at is not None
    assert pilot.status == PilotStatus.RUNNING
    left = dict(pilot.nothing_left or {})
    assert left.keys() == CONDITIONS.keys()
    assert (left["owner_group"], left["cpu_time"], left["platform"], left["tags"], left["limit"]) == (2, 1, 1, 0, 0)


def test_an_empty_match_may_be_repeated_with_the_same_request_id(group: Group) -> None:
    pilot, request_id = make_pilot(vo=group.vo), uuid4()
    assert ask(pilot, request_id=request_id) == []
    job = make_job(group=group)
    assert [lease.job_id for lease in ask(pilot, request_id=request_id)] == [job.pk]


def test_short_jobs_starve_unless_their_vo_lets_a_part_of_its_matches_ignore_the_segments(group: Group) -> None:
    """Half of 30 matches draw among all segments, in which both queues have the same priority: 7 or 8 are expected."""
    owner = make_user(groups=[group])
    for cpu_time_s in (500, 300_000):
        for _ in range(45):
            make_job(group=group, owner=owner, cpu_time_s=cpu_time_s)
    priorities.recalculate()
    pilot = make_pilot(vo=group.vo)

    def short_ones(matches: int) -> int:
        leases = [ask(pilot, seed=seed)[0] for seed in range(matches)]
        return sum(lease.cpu_segment_s == 500 for lease in leases)

    assert short_ones(12) == 0  # of 12 among all segments, all would be long with 0.0002
    VO.objects.filter(pk=group.vo_id).update(any_segment_fraction=0.5)
    # Binomial(30, about 1/4): outside 1 … 16 with less than 0.001.
    assert 1 <= short_ones(30) <= 16
