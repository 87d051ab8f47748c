"""Throttles and limits in the configuration file, and their counts after a change."""

import pytest

from matching.services.throttles import advertise
from resources.domain.advertised_load import SUBMITTING
from resources.domain.advertisements import of_numbers
from resources.domain.enums import ThrottlePolicy
from resources.models import (
    Site,
    ThrottleState,
)
from taskqueues.models import Limit, LimitCount
from tests.database.configuration.configuring import apply, problems_of
from tests.factories import NOW, make_ce, make_group, make_site, make_throttled_site, make_user, make_vo
from wms.configuration.export import export

pytestmark = pytest.mark.django_db


def test_a_changed_throttle_applies_at_once_to_the_last_advertisement() -> None:
    apply("sites: [{name: A, throttle: {policy: level0, max_submitting_jobs: 5}}]")
    advertise(Site.objects.get().pk, of_numbers({SUBMITTING: 2}))
    assert ThrottleState.objects.get().room == 3
    apply("sites: [{name: A, throttle: {policy: level0, max_submitting_jobs: 7}}]")
    assert ThrottleState.objects.get().room == 5
    apply("sites: [{name: A, throttle: null}]")
    assert not ThrottleState.objects.exists()


def test_a_site_advertises_by_the_token_that_the_file_names_and_nothing_warns() -> None:
    outcome = apply("sites: [{name: A, throttle: {policy: matches, max_matches: 1}, tokens: {advertise: a-token}}]")
    assert outcome.warnings == ()


def test_a_changed_limit_keeps_its_counters() -> None:
    make_user(username="alice")
    apply("limits: [{scope: {user: alice}, cpu_s_per_day: 100, waiting: 5}, {scope: {user: alice}, delay_s: 1}]")
    used, paced = Limit.objects.order_by("pk")
    LimitCount.objects.filter(limit=used).update(cpu_s=90)
    LimitCount.objects.filter(limit=paced).update(free_at=NOW)
    applied = apply(
        "limits: [{scope: {user: alice}, delay_s: 1}, {scope: {user: alice}, cpu_s_per_day: 95, waiting: 5}]"
    )
    assert applied.differences == (
        "+ limit scope {user: alice} waiting 5 cpu_s_per_day 95",
        "- limit scope {user: alice} waiting 5 cpu_s_per_day 100",
    )
    assert set(LimitCount.objects.values_list("limit", "cpu_s", "free_at")) == {(used.pk, 90, None), (paced.pk, 0, NOW)}
    assert Limit.objects.get(pk=used.pk).cpu_s_per_day == 95
    apply("limits: [{scope: {user: alice}, delay_s: 2}]")
    assert LimitCount.objects.get().free_at is None
    assert apply("limits: [{scope: {user: alice}, delay_s: 2}]").differences == ()


def test_a_limit_of_another_owner_is_a_separate_limit() -> None:
    make_user(username="alice")
    make_user(username="bob")
    apply("limits: [{scope: {user: alice}, cpu_s_per_day: 100}]")
    LimitCount.objects.update(cpu_s=90)
    apply("limits: [{scope: {user: bob}, cpu_s_per_day: 100}]")
    assert LimitCount.objects.get().cpu_s == 0


def test_equal_limits_are_matched_one_by_one() -> None:
    alice = make_user(username="alice")
    for _ in range(2):
        Limit.objects.create(user=alice, running=1)
    assert len(apply("limits: [{scope: {user: alice}, running: 1}]").differences) == 1
    assert Limit.objects.count() == 1
    Limit.objects.create(user=alice, running=1)
    assert apply(export(), dry_run=True).differences == ("- limit scope {user: alice} running 1",)
    apply("limits: []")
    assert not Limit.objects.exists()


def test_a_very_long_expression_of_a_site_survives_export() -> None:
    site = make_throttled_site(
        policy=ThrottlePolicy.CUSTOM, throttle_requirements=" && ".join(f'TARGET.Owner != "u{n}"' for n in range(900))
    )
    assert len(site.throttle_requirements) > 4096
    assert apply(export()).differences == ()


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        (
            "- {scope: {vo: lhcb}, running: 5, waiting: 9}\n- {scope: {vo: lhcb}, running: 7}",
            "line 3: limits[1].running: bounded for the same scope in line 2; keep one of them",
        ),
        (
            "- {scope: {ce: ce1}, running: 5}\n- {scope: {ce: ce1, site: A}, running: 7}",
            "line 3: limits[1].running: bounded for the same scope in line 2; keep one of them",
        ),
        (
            "- {scope: {vo: atlas, group: lhcb_user}, running: 5}",
            "line 2: limits[0].scope: the group belongs to lhcb; choose a group of atlas, or leave the VO out",
        ),
    ],
)
def test_a_limit_that_another_doubles_or_that_contradicts_itself_is_refused(limits: str, problem: str) -> None:
    make_vo(name="atlas")
    make_group(name="lhcb_user", vo=make_vo(name="lhcb"))
    make_ce(name="ce1", site=make_site(name="A"))
    assert problems_of(f"limits:\n{limits}") == [problem]
    assert not Limit.objects.exists()


def test_limits_that_were_stored_before_they_were_refused_stay() -> None:
    vo = make_vo(name="lhcb")
    for most in (5, 7):
        Limit.objects.create(vo=vo, running=most)
    both = "limits:\n- {scope: {vo: lhcb}, running: 5}\n- {scope: {vo: lhcb}, running: 7}\n"
    assert apply(both).differences == ()
    (problem,) = problems_of(f"{both}- {{scope: {{vo: lhcb}}, running: 6, waiting: 3}}")[:1]
    assert problem == "line 4: limits[2].running: bounded for the same scope in line 2; keep one of them"
