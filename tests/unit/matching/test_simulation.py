"""A simulated VO agrees with the rules: shares, starvation, bans; the same seed gives the same result."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from matching.domain.simulation.outcome import GroupResult, SimulationResult
from matching.domain.simulation.scenario import RunTime, Scenario, SimulatedGroup, SimulatedVO, Slots, Work
from matching.domain.simulation.simulator import simulate
from taskqueues.domain.definition import JobRequirements, Rounding, define
from taskqueues.domain.offer import ResourceOffer

LHCB = SimulatedVO(vo_id=1, name="lhcb")
USERS = SimulatedGroup(group_id=1, vo_id=1, name="users", share=1)
PRODUCTION = SimulatedGroup(group_id=2, vo_id=1, name="production", share=3, shares_jobs=True)
ALICE, BOB, MARY = 1, 2, 3
ROUNDING = Rounding(
    cpu_segments_s=(500, 5000, 50000, 300000), steps={"memory_mb": 500, "wall_time_s": 600, "disk_mb": 1000}
)


def work(
    group: SimulatedGroup,
    *,
    owner_id: int = ALICE,
    cpu_time_s: int = 5000,
    run_s: float = 3600,
    per_day: float = 0,
    waiting: int = 0,
    user_priority: int = 1,
    banned_sites: tuple[str, ...] = (),
    sites: tuple[str, ...] = (),
) -> Work:
    definition = define(
        JobRequirements(
            owner_id=owner_id,
            group_id=group.group_id,
            vo_id=group.vo_id,
            setup="S",
            cpu_time_s=cpu_time_s,
            sites=sites,
            banned_sites=banned_sites,
            job_type="User",
        ),
        rounding=ROUNDING,
    )
    run_time = RunTime(mean_s=run_s, most_s=10**9)
    return Work(
        definition=definition,
        user_priority=user_priority,
        jobs_per_day=per_day,
        waiting_at_start=waiting,
        run_time=run_time,
    )


def slots(number: int, *, site: str = "CERN", vo_ids: Sequence[int] = (1,)) -> Slots:
    offers = {
        vo_id: ResourceOffer(
            vo_id=vo_id, setup="S", cpu_time_s=300000, site=site, ce="ce", platforms=None, submit_pools=None
        )
        for vo_id in vo_ids
    }
    return Slots(site=site, number=number, processors=1, offers=offers)


def scenario(
    *of: Work,
    at: Sequence[Slots] = (slots(20),),
    groups: Sequence[SimulatedGroup] = (USERS, PRODUCTION),
    vos: Sequence[SimulatedVO] = (LHCB,),
    suspended: frozenset[int] = frozenset(),
) -> Scenario:
    users = {ALICE: "alice", BOB: "bob", MARY: "mary"}
    return Scenario(vos=tuple(vos), groups=tuple(groups), users=users, suspended=suspended, work=of, slots=tuple(at))


def play(played: Scenario, *, days: float = 2, seed: int = 1) -> SimulationResult:
    return simulate(played, days=days, chance_of=lambda name: Random(f"{seed} {name}"))


def group(outcome: SimulationResult, name: str) -> GroupResult:
    (found,) = (group for group in outcome.groups if group.group == name)
    return found


SATURATED = (work(USERS, waiting=4000), work(PRODUCTION, owner_id=BOB, waiting=4000))


def test_saturated_groups_of_equal_jobs_get_their_shares() -> None:
    outcome = play(scenario(*SATURATED, at=[slots(100)]), days=1)
    production = group(outcome, "production")
    started = sum(each.delivered.started for each in outcome.groups)
    assert started == 24 * 100
    # A binomial of 2400 draws with 3/4: four standard deviations are 0.035.
    assert production.delivered.start_share == pytest.approx(0.75, abs=0.035)
    assert production.delivered.cpu_share == pytest.approx(0.75, abs=0.035)
    assert production.contended.time_fraction == 1.0
    assert production.contended.start_share == production.delivered.start_share
    assert production.configured_share == 0.75


def test_jobs_twice_as_long_get_twice_the_time_unless_history_is_looked_at() -> None:
    equal = replace(PRODUCTION, share=1)
    jobs = (work(USERS, waiting=9000), work(equal, run_s=7200, waiting=9000))
    without = play(scenario(*jobs, groups=[USERS, equal]), days=6)
    corrected = play(scenario(*jobs, groups=[USERS, equal], vos=[replace(LHCB, history_fair_share=True)]), days=6)
    assert group(without, "production").delivered.cpu_share == pytest.approx(2 / 3, abs=0.04)
    # Factors are 1/2 over the used part, so of x used 1 - x are started: x = 2 (1 - x) / (2 - x), which is 2 - sqrt(2).
    assert group(corrected, "production").delivered.cpu_share == pytest.approx(0.586, abs=0.03)


def test_a_group_of_priority_0_starts_no_job() -> None:
    none = replace(USERS, share=0)
    outcome = play(scenario(work(none, waiting=10, per_day=100), at=[slots(5)], groups=[none]))
    assert outcome.groups[0].delivered.started == 0
    assert outcome.groups[0].delivered.oldest_waiting_s == outcome.simulated_s
    assert outcome.groups[0].configured_share is None


def test_users_of_a_group_that_does_not_share_get_equal_parts_however_much_they_submit() -> None:
    outcome = play(scenario(work(USERS, waiting=9000), work(USERS, owner_id=BOB, waiting=900)), days=1)
    alice, bob = outcome.users
    assert (alice.user, bob.user) == ("alice", "bob")
    # 480 draws with 1/2: four standard deviations are 0.09.
    assert bob.delivered.start_share == pytest.approx(0.5, abs=0.09)


def test_users_of_a_sharing_group_are_not_distinguished() -> None:
    outcome = play(scenario(work(PRODUCTION, waiting=9), work(PRODUCTION, owner_id=BOB, waiting=1)), days=1)
    assert outcome.users == ()


@pytest.mark.parametrize(("fraction", "least", "most"), [(0.0, 0, 0), (0.2, 50, 140)])
def test_short_jobs_starve_unless_a_fraction_may_ignore_the_segments(fraction: float, least: int, most: int) -> None:
    jobs = (work(USERS, cpu_time_s=500, waiting=2000), work(USERS, cpu_time_s=50000, waiting=2000))
    vo = replace(LHCB, any_segment_fraction=fraction)
    short, long = play(scenario(*jobs, vos=[vo]), days=2).segments
    assert (short.cpu_segment_s, long.cpu_segment_s) == (500, 50000)
    # Of 960 draws a fifth is of both queues alike: 96 with a standard deviation of 9.3.
    assert least <= short.delivered.started <= most


def test_a_banned_site_runs_nothing_of_the_job() -> None:
    at = [slots(5, site="CERN"), slots(5, site="GRIDKA")]
    outcome = play(scenario(work(USERS, per_day=500, banned_sites=("CERN",)), at=at))
    cern, gridka = outcome.sites
    assert cern.started == 0
    assert cern.utilization == 0.0
    assert gridka.started > 0


def test_slots_without_work_are_free_and_jobs_without_rivals_do_not_wait() -> None:
    outcome = play(scenario(work(USERS, per_day=24, run_s=1800), at=[slots(20)]), days=30)
    (site,) = outcome.sites
    # A job an hour for half an hour on 20 slots; 720 arrivals have a standard deviation of 27.
    assert site.utilization == pytest.approx(0.5 / 20, rel=0.15)
    waits = outcome.groups[0].delivered.waits
    assert waits is not None
    assert waits.max_s == 0.0
    assert outcome.groups[0].contended.time_fraction == 0.0


def test_a_high_user_priority_is_matched_first() -> None:
    jobs = (work(USERS, waiting=600, user_priority=1), work(USERS, waiting=100, user_priority=10, per_day=0))
    outcome = play(scenario(*jobs, at=[slots(10)]), days=10 / 24)
    # 100 starts in ten hours, nearly all of them of priority 10: the weights are 1e5 to 1.
    assert outcome.groups[0].delivered.started == 100
    assert outcome.groups[0].delivered.waiting == 600


def test_waiting_times_follow_from_the_draw() -> None:
    outcome = play(scenario(work(USERS, waiting=3), at=[slots(1)]), days=1)
    waits = outcome.groups[0].delivered.waits
    assert waits is not None
    assert (waits.median_s, waits.max_s) == (3600.0, 7200.0)
    assert outcome.groups[0].contended.time_fraction == pytest.approx(7200 / 86400)


def test_a_suspended_user_starts_nothing() -> None:
    outcome = play(scenario(work(USERS, waiting=5), suspended=frozenset({ALICE})))
    assert outcome.groups[0].delivered.started == 0


def test_a_suspended_user_has_no_part_in_the_share_of_the_group() -> None:
    jobs = [work(USERS, owner_id=owner, waiting=9000) for owner in (ALICE, BOB)]
    outcome = play(scenario(*jobs, work(PRODUCTION, owner_id=MARY, waiting=9000), suspended=frozenset({ALICE})))
    # A binomial of 960 draws with 1/4: four standard deviations are 0.056. With half of the share it would be 1/7.
    assert group(outcome, "users").delivered.start_share == pytest.approx(0.25, abs=0.056)


def test_a_slot_unused_by_one_vo_is_given_to_the_other() -> None:
    atlas = SimulatedVO(vo_id=2, name="atlas")
    theirs = SimulatedGroup(group_id=3, vo_id=2, name="theirs", share=1)
    vos, groups = [LHCB, atlas], [USERS, PRODUCTION, theirs]
    one = play(scenario(work(theirs, waiting=9000), at=[slots(10, vo_ids=(1, 2))], vos=vos, groups=groups))
    assert one.sites[0].utilization == 1.0
    jobs = (work(theirs, waiting=9000), work(USERS, waiting=9000))
    both = play(scenario(*jobs, at=[slots(10, vo_ids=(1, 2))], vos=vos, groups=groups))
    # 480 draws with 1/2: four standard deviations are 44.
    assert group(both, "theirs").delivered.started == pytest.approx(240, abs=44)
    assert group(both, "theirs").delivered.start_share == 1.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_job_is_lost_or_run_twice(seed: int) -> None:
    jobs = (work(USERS, per_day=300, waiting=7), work(PRODUCTION, owner_id=BOB, per_day=400, cpu_time_s=50000))
    outcome = play(scenario(*jobs), seed=seed)
    for each in outcome.groups:
        got = each.delivered
        assert got.submitted == got.finished + got.running + got.waiting
        assert got.started == got.finished + got.running
    assert sum(site.started for site in outcome.sites) == sum(each.delivered.started for each in outcome.groups)
    assert sum(each.delivered.cpu_share or 0.0 for each in outcome.groups) == pytest.approx(1.0)
    assert sum(each.delivered.submitted for each in outcome.segments) == sum(
        each.delivered.submitted for each in outcome.groups
    )


def test_the_same_chance_gives_the_same_outcome() -> None:
    played = scenario(work(USERS, per_day=300), work(PRODUCTION, owner_id=BOB, per_day=300), at=[slots(10)])
    assert play(played) == play(played)
    assert play(played) != play(played, seed=2)


def test_other_shares_simulate_the_same_jobs() -> None:
    jobs = (work(USERS, per_day=300), work(PRODUCTION, owner_id=BOB, per_day=300))
    other = [replace(USERS, share=9), PRODUCTION]
    submitted = [
        [each.delivered.submitted for each in play(scenario(*jobs, groups=groups)).groups]
        for groups in ([USERS, PRODUCTION], other)
    ]
    assert submitted[0] == submitted[1]


def test_a_run_time_spreads_around_its_mean_up_to_where_a_job_is_stopped() -> None:
    chance = Random(1)
    free = RunTime(mean_s=1000, sigma=0.5, most_s=10**9)
    # The standard deviation of the mean of 20,000 is 1000 * sqrt(exp(0.25) - 1) / sqrt(20000) = 3.8.
    assert sum(free.draw(chance) for _ in range(20_000)) / 20_000 == pytest.approx(1000, abs=16)
    assert max(replace(free, most_s=1500).draw(chance) for _ in range(1000)) == 1500
    assert replace(free, sigma=0).draw(chance) == 1000
