"""A pilot of unknown queue gets only jobs that every queue where it may be could take."""

from random import Random
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction

from matching.services.match import match, why_narrowed
from matching.services.offers import NotYourQueueError, OfferRequest
from matching.services.search import PilotRefusedError
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.services.registration import PilotTypeRefusedError
from pilots.services.reports import end_pilot
from resources.domain.enums import PilotType, ResourceState, ThrottlePolicy
from resources.models import Queue, Site
from resources.queries.places import UnknownPlaceError
from taskqueues.models import Limit
from taskqueues.services import submit_pools
from tests.factories import (
    LARGE_SLOT,
    NOW,
    make_ce,
    make_group,
    make_job,
    make_pilot,
    make_platform,
    make_queue,
    make_site,
    make_throttled_site,
    make_vo,
)
from wms.accounts.models import Group
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db


@pytest.fixture
def group() -> Group:
    return make_group(priority=100.0, shares_jobs=True)


def ask(pilot: Pilot, **offered: Any) -> list[int]:
    """Return the jobs that the pilot gets for one offer."""
    request = OfferRequest(**{"cpu_time_s": 300_000, "memory_mb": 4000, **offered})
    leases = match(request, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=10, chance=Random(1))
    return sorted(lease.job_id for lease in leases)


def pool_of(group: Group, **requirements: object) -> str:
    with transaction.atomic():
        return submit_pools.register(vo=group.vo, requirements=requirements, now=NOW).id


def two_queues(**parameters: Any) -> tuple[Queue, Queue]:
    """Return two queues of two CEs of one site; only the first has the parameters."""
    site = make_site(name="S.TWO")
    first = make_queue(name="first", ce=make_ce(name="ce1", site=site), **LARGE_SLOT, **parameters)
    return first, make_queue(name="second", ce=make_ce(name="ce2", site=site), **LARGE_SLOT)


# ---- requirements


@pytest.mark.parametrize(
    ("named", "is_given"),
    [
        ({}, False),
        ({"site": "S.TWO"}, False),
        ({"site": "S.TWO", "ce": "ce2"}, False),
        ({"ce": "ce2"}, False),
        ({"queue": "second"}, False),
        ({"site": "S.TWO", "ce": "ce1"}, True),
        ({"ce": "ce1"}, True),
        ({"queue": "first"}, True),
        ({"site": "S.TWO", "ce": "ce1", "queue": "first"}, True),
    ],
)
def test_requirements_are_met_only_where_every_possible_queue_meets_them(
    group: Group, named: dict[str, str], is_given: bool
) -> None:
    two_queues(parameters={"Memory": 16000})
    pool = pool_of(group, Memory=16000)
    job = make_job(group=group, submit_pools=[pool])
    pilot = make_pilot(vo=group.vo)
    assert ask(pilot, **named, submit_pools=(pool,)) == ([job.pk] if is_given else [])


def test_a_requirement_that_every_queue_of_the_site_meets_is_met_there(group: Group) -> None:
    site = make_site(name="S.TWO", parameters={"Memory": 16000})
    for name in ("ce1", "ce2"):
        make_queue(ce=make_ce(name=name, site=site))
    job = make_job(group=group, submit_pools=[pool_of(group, Memory=16000)])
    assert ask(make_pilot(vo=group.vo), site="S.TWO", submit_pools=()) == []
    assert ask(make_pilot(vo=group.vo), site="S.TWO") == [job.pk]


@pytest.mark.parametrize("has_ce", [False, True])
def test_a_site_without_queues_meets_no_requirement(group: Group, has_ce: bool) -> None:
    site = make_site(name="S.EMPTY", parameters={"Memory": 16000})
    make_queue(parameters={"Memory": 16000})
    if has_ce:
        make_ce(site=site)
    pool = pool_of(group, Memory=16000)
    make_job(group=group, submit_pools=[pool])
    plain = make_job(group=group)
    for named in ({"site": "S.EMPTY"}, {}):
        assert ask(make_pilot(vo=group.vo), **named, submit_pools=(pool,)) == ([plain.pk] if named else [])


# ---- sites, bans, CEs


@pytest.mark.parametrize(
    ("asked", "named", "is_given"),
    [
        ({"sites": ["S.ONE"]}, {}, False),
        ({"sites": ["S.ONE", "S.TWO"]}, {}, True),
        ({"sites": ["S.ONE"]}, {"site": "S.TWO"}, False),
        ({"sites": ["S.ONE"]}, {"site": "S.ONE"}, True),
        ({"sites": ["S.ONE"]}, {"ce": "ce1"}, True),
        ({"sites": ["S.ONE"]}, {"ce": "twin"}, False),
        ({"banned_sites": ["S.ONE"]}, {}, False),
        ({"banned_sites": ["S.ELSEWHERE"]}, {}, True),
        ({"banned_sites": ["S.ONE"]}, {"site": "S.TWO"}, True),
        ({"banned_sites": ["S.ONE"]}, {"ce": "twin"}, False),
        ({"grid_ces": ["ce1"]}, {}, False),
        ({"grid_ces": ["ce1"]}, {"site": "S.ONE"}, False),
        ({"grid_ces": ["ce1", "twin"]}, {"site": "S.ONE"}, True),
        ({"grid_ces": ["ce1"]}, {"ce": "ce1"}, True),
        ({"grid_ces": ["twin"]}, {"ce": "twin"}, True),
    ],
)
def test_sites_bans_and_ces_are_compared_with_every_possible_place(
    group: Group, asked: dict[str, Any], named: dict[str, str], is_given: bool
) -> None:
    one, two = make_site(name="S.ONE"), make_site(name="S.TWO")
    for site, ce in ((one, "ce1"), (one, "twin"), (two, "twin")):
        make_queue(ce=make_ce(name=ce, site=site))
    job = make_job(group=group, **asked)
    assert ask(make_pilot(vo=group.vo), **named) == ([job.pk] if is_given else [])


@pytest.mark.parametrize("asked", [{"sites": ["S.ONE"]}, {"banned_sites": ["S.ONE"]}, {"grid_ces": ["ce1"]}])
def test_without_a_known_place_conditions_on_places_fail(group: Group, asked: dict[str, Any]) -> None:
    make_site(vos=[make_vo()])
    make_job(group=group, **asked)
    plain = make_job(group=group)
    assert ask(make_pilot(vo=group.vo)) == [plain.pk]


@pytest.mark.parametrize("state", [ResourceState.BANNED, ResourceState.DRAINING])
@pytest.mark.parametrize("level", ["site", "ce", "queue"])
def test_a_possible_place_that_takes_no_jobs_closes_until_another_is_named(
    group: Group, level: str, state: ResourceState
) -> None:
    closed = {level: state}
    site = make_site(name="S.ONE", state=closed.get("site", ResourceState.ACTIVE))
    ce = make_ce(site=site, state=closed.get("ce", ResourceState.ACTIVE))
    make_queue(ce=ce, state=closed.get("queue", ResourceState.ACTIVE))
    make_queue(ce=make_ce(site=make_site(name="S.TWO")))
    job = make_job(group=group)
    pilot = make_pilot(vo=group.vo)
    assert ask(pilot) == ask(pilot, site="S.ONE") == []
    assert ask(pilot, site="S.TWO") == [job.pk]


def test_a_site_that_does_not_serve_the_vo_is_refused(group: Group) -> None:
    make_site(name="S.OTHER", vos=[make_vo()])
    with pytest.raises(UnknownPlaceError):
        ask(make_pilot(vo=group.vo), site="S.OTHER")


# ---- what queues decide


@pytest.mark.parametrize(
    ("asked", "told", "is_given"),
    [
        ([], ("deb12",), True),
        (["el8"], ("el9",), True),
        (["el8", "el7"], ("el9",), True),
        (["el7"], ("el9",), False),
        (["el8"], ("deb12",), False),
        (["el8"], None, True),
        (["el9"], None, False),
    ],
)
def test_a_platform_is_met_only_where_every_possible_queue_runs_it(
    group: Group, asked: list[str], told: tuple[str, ...] | None, is_given: bool
) -> None:
    make_platform(name="el9", runs=["el8", "el7"])
    two_queues(platforms=["el9"])
    Queue.objects.filter(name="second").update(platforms=["el8"])
    job = make_job(group=group, platforms=asked)
    assert ask(make_pilot(vo=group.vo), site="S.TWO", platforms=told) == ([job.pk] if is_given else [])


def test_job_types_required_tags_and_wall_clock_time_are_those_that_every_possible_queue_allows(group: Group) -> None:
    first, second = two_queues(job_types=["Merge", "User"], required_tags=["gpu"], wall_time_s=7200)
    Queue.objects.filter(pk=second.pk).update(job_types=["MCSimulation", "User"], wall_time_s=3600)
    fits = make_job(group=group, job_type="User", tags=["gpu"], wall_time_s=3600)
    make_job(group=group, job_type="Merge", tags=["gpu"])
    make_job(group=group, job_type="User")
    long = make_job(group=group, job_type="User", tags=["gpu"], wall_time_s=7200)
    pilot = make_pilot(vo=group.vo)
    assert ask(pilot, site="S.TWO", tags=("gpu",), processors=8) == [fits.pk]
    assert ask(pilot, site="S.TWO", ce="ce1", tags=("gpu",), job_types=("User",), processors=8) == [long.pk]
    Queue.objects.filter(pk=first.pk).update(job_types=["Merge"])
    make_job(group=group, job_type="User", tags=["gpu"])
    assert ask(pilot, site="S.TWO", tags=("gpu",), processors=8) == []


def test_tags_that_a_queue_requires_hold_whatever_its_pilot_leaves_out(group: Group) -> None:
    queue = make_queue(tags=["gpu"], required_tags=["gpu"])
    make_job(group=group)
    with_tag = make_job(group=group, tags=["gpu"])
    pilot = make_pilot(vo=group.vo, queue=queue)
    assert ask(pilot) == []
    assert ask(pilot, tags=("gpu",)) == [with_tag.pk]


# ---- throttles and limits


def test_throttles_apply_to_pilots_at_unknown_places(group: Group) -> None:
    throttled = make_throttled_site(policy=ThrottlePolicy.MATCHES, name="S.THROTTLED", max_matches=1)
    make_queue(ce=make_ce(site=throttled), **LARGE_SLOT)
    make_queue(ce=make_ce(site=make_site(name="S.FREE")), **LARGE_SLOT)
    for _ in range(3):
        make_job(group=group)
    pilot = make_pilot(vo=group.vo)
    assert ask(pilot, processors=8) == []
    assert len(ask(pilot, site="S.THROTTLED", processors=8)) == 1
    assert Job.objects.filter(site=throttled).count() == 1
    assert len(ask(pilot, site="S.FREE", processors=8)) == 2


@pytest.mark.parametrize("level", ["site", "ce"])
def test_a_pilot_at_an_unknown_place_gets_no_job_that_a_limit_of_a_possible_place_is_on(
    group: Group, level: str
) -> None:
    first, _ = two_queues()
    make_queue(ce=make_ce(name="far", site=make_site(name="S.FAR")), **LARGE_SLOT)
    scope: dict[str, Any] = {"site": first.ce.site} if level == "site" else {"ce": first.ce}
    Limit.objects.create(running=10, job_type="Merge", **scope)
    Limit.objects.create(waiting=10, user=make_job(group=group, job_type="Merge").owner)
    user = make_job(group=group, job_type="User")
    merge = Job.objects.get(job_type="Merge")
    pilot = make_pilot(vo=group.vo)
    assert ask(pilot) == [user.pk]
    assert ask(pilot, site="S.TWO") == ([merge.pk] if level == "site" else [])
    if level == "ce":
        assert ask(pilot, site="S.TWO", ce="ce2") == [merge.pk]


def test_a_limit_of_a_place_that_the_pilot_cannot_be_at_does_not_keep_jobs_from_it(group: Group) -> None:
    first, _ = two_queues()
    make_queue(ce=make_ce(site=make_site(name="S.FAR")))
    Limit.objects.create(running=0, site=first.ce.site)
    job = make_job(group=group)
    assert ask(make_pilot(vo=group.vo), site="S.FAR") == [job.pk]


# ---- pilots whose token is of a place


def test_a_pilot_made_for_a_site_is_there_without_naming_it(group: Group) -> None:
    first, _ = two_queues(parameters={"Memory": 16000})
    job = make_job(group=group, sites=["S.TWO"])
    make_job(group=group, banned_sites=["S.TWO"])
    make_job(group=group, submit_pools=[pool_of(group, Memory=16000)])
    pilot = make_pilot(vo=group.vo, site=first.ce.site)
    assert ask(pilot, processors=8) == [job.pk]
    assert Job.objects.get(pk=job.pk).site == first.ce.site


def test_a_pilot_made_for_a_computing_element_may_name_a_queue_there(group: Group) -> None:
    first, _ = two_queues(parameters={"Memory": 16000})
    small = make_queue(name="small", ce=first.ce)
    job = make_job(group=group, submit_pools=[pool_of(group, Memory=16000)])
    pilot = make_pilot(vo=group.vo, site=first.ce.site, ce=first.ce)
    assert ask(pilot) == ask(pilot, queue=small.name) == []
    assert ask(pilot, queue="first") == [job.pk]


@pytest.mark.parametrize(
    ("named", "error"),
    [
        ({"site": "S.FAR"}, NotYourQueueError),
        ({"ce": "ce2"}, NotYourQueueError),
        ({"queue": "second"}, UnknownPlaceError),
        ({"site": "S.NONE"}, NotYourQueueError),
    ],
)
def test_a_pilot_made_for_a_place_that_names_another_is_refused(
    group: Group, named: dict[str, str], error: type[Exception]
) -> None:
    first, _ = two_queues()
    make_site(name="S.FAR")
    make_job(group=group)
    pilot = make_pilot(vo=group.vo, site=first.ce.site, ce=first.ce)
    with pytest.raises(error):
        ask(pilot, **named)


@pytest.mark.parametrize("level", ["site", "ce"])
def test_a_pilot_whose_place_was_deleted_is_refused(group: Group, level: str) -> None:
    first, _ = two_queues()
    pilot = make_pilot(vo=group.vo, site=first.ce.site, ce=first.ce if level == "ce" else None)
    ask(pilot)
    with transaction.atomic():
        end_pilot(pilot.pk, status=PilotStatus.DONE, reason="", now=NOW)
    (first.ce if level == "ce" else first.ce.site).delete()
    with pytest.raises(PilotRefusedError):
        ask(pilot)


# ---- types of pilots


@pytest.mark.parametrize("named", [{"site": "S.A", "ce": "dedicated"}, {"ce": "dedicated"}, {"queue": "private"}])
def test_a_pilot_that_names_a_computing_element_that_does_not_accept_its_type_is_refused(
    group: Group, named: dict[str, str]
) -> None:
    ce = make_ce(name="dedicated", site=make_site(name="S.A"), pilot_types=[PilotType.PRIVATE])
    make_queue(name="private", ce=ce)
    job = make_job(group=group)
    with pytest.raises(PilotTypeRefusedError):
        ask(make_pilot(vo=group.vo), **named)
    assert ask(make_pilot(group=group), **named) == [job.pk]


def test_a_pilot_possibly_at_a_ce_that_refuses_its_type_gets_no_jobs(
    group: Group,
) -> None:
    site = make_site(name="S.A")
    make_queue(ce=make_ce(name="dedicated", site=site, pilot_types=[PilotType.PRIVATE]))
    make_queue(ce=make_ce(name="open", site=site))
    job = make_job(group=group)
    pilot = make_pilot(vo=group.vo)
    options: list[dict[str, Any]] = [{}, {"site": "S.A"}]
    for named in options:
        assert ask(pilot, **named) == []
        said = why_narrowed(OfferRequest(cpu_time_s=500, **named), pilot_id=pilot.pk)
        assert "computing element dedicated accepts private pilots only" in said
    assert ask(pilot, ce="open") == [job.pk]


# ---- what is told


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"site": "S.FREE", "ce": "ce", "queue": "grid"}, ""),
        ({}, "sites where the pilot may be are throttled (S.THROTTLED): it gets no job"),
        ({"site": "S.FREE"}, "the pilot gets only jobs that fit each queue at which it may be"),
        ({"site": "S.BANNED"}, "computing element bad is banned, and the pilot may be there: it gets no job"),
    ],
)
def test_a_pilot_of_unknown_place_gets_the_reasons_for_excluded_jobs(
    group: Group, named: dict[str, Any], words: str
) -> None:
    make_queue(name="grid", ce=make_ce(name="ce", site=make_site(name="S.FREE")))
    make_queue(ce=make_ce(site=make_throttled_site(name="S.THROTTLED")))
    make_queue(ce=make_ce(name="bad", site=make_site(name="S.BANNED", vos=[group.vo]), state=ResourceState.BANNED))
    if not named:
        Site.objects.filter(name="S.BANNED").delete()
    said = why_narrowed(OfferRequest(cpu_time_s=500, **named), pilot_id=make_pilot(vo=group.vo).pk)
    assert words in said if words else said == ""
