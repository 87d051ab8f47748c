"""Queries of resources: known names, eligible queues, and open places."""

import time
from collections.abc import Mapping
from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from resources.domain.enums import RequirementKind, ResourceState
from resources.domain.requirements import canonical
from resources.models import ComputingElement, Queue, Site
from resources.queries import eligible_queues, known_names, places
from tests.factories import (
    NOW,
    make_ce,
    make_platform,
    make_queue,
    make_requirement_definition,
    make_site,
    make_user,
    make_vo,
)
from tests.pace import cpu_within
from wms.accounts.models import VO

pytestmark = pytest.mark.django_db


@pytest.fixture
def lhcb() -> VO:
    return make_vo(name="lhcb")


@pytest.fixture
def atlas() -> VO:
    return make_vo(name="atlas")


# ---- Known names -----------------------------------------------------------------------------------------------------


def test_the_known_names_are_those_of_sites_that_serve_the_vo(lhcb: VO, atlas: VO) -> None:
    for name, vos in (("Ours", [lhcb]), ("Theirs", [atlas]), ("All", []), ("Both", [lhcb, atlas])):
        make_queue(ce=make_ce(name=f"ce.{name}", site=make_site(name=name, vos=vos)))

    assert known_names.known_sites(lhcb) == {"Ours", "All", "Both"}
    assert known_names.known_ces(lhcb) == {"ce.Ours", "ce.All", "ce.Both"}


def test_platforms_are_known_from_nodes_jobs_and_queues() -> None:
    make_platform(name="el9", runs=["el8"])
    make_queue(platforms=["arm"])
    assert known_names.known_platforms() == {"el9", "el8", "arm"}


def test_a_node_runs_jobs_of_its_own_and_of_compatible_platforms() -> None:
    make_platform(name="el9", runs=["el8", "el7"])
    assert known_names.compatible_platforms(["el9", "unknown"]) == ("el7", "el8", "el9", "unknown")
    assert known_names.compatible_platforms(["el8"]) == ("el8",)
    assert known_names.compatible_platforms([]) == ()


def test_requirement_names_come_from_definitions_and_every_level(lhcb: VO, atlas: VO) -> None:
    make_requirement_definition(name="Defined", kind=RequirementKind.SET)
    make_requirement_definition(name="DefinedForUs", kind=RequirementKind.SET, vos=[lhcb])
    make_requirement_definition(name="DefinedForThem", kind=RequirementKind.SET, vos=[atlas])
    site = make_site(parameters={"OfSite": 1}, vo_parameters={"lhcb": {"OursOfSite": 1}, "atlas": {"TheirsOfSite": 1}})
    make_queue(ce=make_ce(site=site, parameters={"OfCE": 1}), vo_parameters={"lhcb": {"OursOfQueue": 1}})
    make_site(vos=[atlas], parameters={"Elsewhere": 1})

    assert known_names.requirement_names(lhcb) == {
        "Defined",
        "DefinedForUs",
        "OfSite",
        "OursOfSite",
        "OfCE",
        "OursOfQueue",
    }


# ---- Eligible queues -------------------------------------------------------------------------------------------------


def ids(vo: VO, **requirements: object) -> list[int]:
    return eligible_queues.supply_of(vo).eligible(canonical(requirements))


def parameters(vo: VO, queue: Queue) -> Mapping[str, object]:
    return eligible_queues.supply_of(vo).offered(queue.pk, ["memory", "scratch", "odd"])


def test_queues_whose_effective_parameters_meet_the_requirements_are_eligible(lhcb: VO, atlas: VO) -> None:
    site = make_site(parameters={"Memory": 2000}, vo_parameters={"lhcb": {"Memory": 4000}})
    inherits = make_queue(ce=make_ce(site=site))
    less = make_queue(ce=make_ce(site=site), parameters={"memory": 3000})
    at_ce = make_queue(ce=make_ce(site=site, parameters={"Memory": 8000}))
    silent = make_queue()
    make_queue(ce=make_ce(site=make_site(vos=[atlas], parameters={"Memory": 9000})))

    assert ids(lhcb, Memory=4000) == [inherits.pk, at_ce.pk]
    assert ids(lhcb, Memory=3000) == [inherits.pk, less.pk, at_ce.pk]
    assert ids(lhcb) == [inherits.pk, less.pk, at_ce.pk, silent.pk]


def test_eligible_queues_are_returned_as_a_tree(lhcb: VO) -> None:
    cern, pic = make_site(name="CERN", parameters={"Memory": 4000}), make_site(name="PIC")
    first, second = make_ce(name="ce1", site=cern), make_ce(name="ce2", site=cern)
    for name, ce in (("long", first), ("short", first), ("long", second), ("long", make_ce(name="ce1", site=pic))):
        make_queue(name=name, ce=ce)
    make_queue(name="small", ce=second, parameters={"Memory": 1})

    assert eligible_queues.eligible_queues(lhcb, {"Memory": 4000.0}) == {
        "CERN": {"ce1": ("long", "short"), "ce2": ("long",)}
    }
    assert list(eligible_queues.eligible_queues(lhcb, {})) == ["CERN", "PIC"]
    assert eligible_queues.eligible_queues(lhcb, canonical({"Memory": 4001})) == {}


def test_the_tree_of_queues_follows_changes_at_once(lhcb: VO, atlas: VO) -> None:
    assert eligible_queues.eligible_queues(lhcb, {}) == {}
    theirs = make_queue(ce=make_ce(site=make_site(vos=[atlas])))
    assert eligible_queues.eligible_queues(lhcb, {}) == {}
    queue = make_queue(name='a "quoted", name', ce=make_ce(name="ce1", site=make_site(name="CERN")))
    assert eligible_queues.eligible_queues(lhcb, canonical({"Memory": 1})) == {}
    Queue.objects.filter(pk__in=(queue.pk, theirs.pk)).update(vo_parameters={"lhcb": {"Memory": 1}})
    assert eligible_queues.eligible_queues(lhcb, canonical({"Memory": 1})) == {"CERN": {"ce1": ('a "quoted", name',)}}
    Queue.objects.filter(pk=queue.pk).update(vo_parameters={"atlas": {"Memory": 1}})
    assert eligible_queues.eligible_queues(lhcb, canonical({"Memory": 1})) == {}


def test_a_queue_has_its_own_parameters_and_those_that_it_inherits(lhcb: VO, atlas: VO) -> None:
    ce = make_ce(name="ce1", site=make_site(name="CERN", parameters={"Memory": 2000, "Scratch": 1}))
    queue = make_queue(name="grid", ce=ce, vo_parameters={"lhcb": {"memory": 4000}})
    assert parameters(lhcb, queue) == {"memory": 4000, "scratch": 1}
    assert parameters(atlas, queue) == {"memory": 2000, "scratch": 1}


def test_a_malformed_parameter_row_is_not_offered(lhcb: VO) -> None:
    queue = make_queue(parameters={"Memory": 1, "Odd": {"a": 1}})
    Queue.objects.filter(pk=queue.pk).update(vo_parameters=["lhcb"])
    assert parameters(lhcb, queue) == {"memory": 1}
    Queue.objects.filter(pk=queue.pk).update(vo_parameters={"lhcb": None})
    assert parameters(lhcb, queue) == {"memory": 1}


def test_a_ban_does_not_make_a_queue_ineligible(lhcb: VO) -> None:
    queue = make_queue(state=ResourceState.BANNED, parameters={"Memory": 1})
    assert ids(lhcb, Memory=1) == [queue.pk]


def test_definitions_decide_how_values_are_compared(lhcb: VO) -> None:
    queue = make_queue(parameters={"Memory": 8000})
    assert ids(lhcb, Memory=4000) == [queue.pk]
    make_requirement_definition(name="memory", kind=RequirementKind.EXACT)
    assert ids(lhcb, Memory=4000) == []


def test_each_requirement_lists_the_queues_that_it_excludes(lhcb: VO) -> None:
    for memory in (1000, 2000, 3000):
        make_queue(parameters={"Memory": memory, "CPUModel": "Xeon"})
    make_queue(parameters={"CPUModel": "Epyc"})
    supply = eligible_queues.supply_of(lhcb)
    assert supply.held_back(canonical({"Memory": 2000, "CPUModel": "Xeon", "GPU": True})) == {
        "cpumodel": 1,
        "gpu": 4,
        "memory": 2,
    }
    assert len(supply) == 4


@pytest.mark.slow
def test_a_thousand_sites_of_twenty_queues_are_searched_within_a_second(
    lhcb: VO, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    sites = Site.objects.bulk_create(
        [Site(name=f"S{i}", parameters={"SoftwareTag": ["v1", f"v{i % 7}"], "CPUModel": "Xeon"}) for i in range(1000)]
    )
    ces = ComputingElement.objects.bulk_create(
        [ComputingElement(name=f"ce{i}", site=site) for site in sites for i in range(2)]
    )
    Queue.objects.bulk_create(
        [
            Queue(
                name=f"q{i}", ce=ce, cpu_time_s=1000, parameters={"Memory": 500 * i}, vo_parameters={"lhcb": {"A": i}}
            )
            for ce in ces
            for i in range(10)
        ]
    )
    wanted = canonical({"SoftwareTag": ["v2", "v3"], "Memory": 2500})
    with django_assert_num_queries(4):
        begun = time.process_time()
        found = eligible_queues.eligible_queues(lhcb, wanted)
        took_s = time.process_time() - begun
    assert len(found) == sum(1 for i in range(1000) if i % 7 in {2, 3})
    assert {(len(ces), *map(len, ces.values())) for ces in found.values()} == {(2, 5, 5)}
    assert took_s < cpu_within(1.0)


# ---- Places ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def grid(lhcb: VO, atlas: VO) -> dict[str, Queue]:
    """Return three queues of two sites that serve lhcb, by path; a third site serves others."""
    cern, pic, theirs = make_site(name="CERN"), make_site(name="PIC", vos=[lhcb]), make_site(name="BNL", vos=[atlas])
    ces = [
        make_ce(name=name, site=site) for name, site in (("ce1", cern), ("ce2", cern), ("ce1", pic), ("ce9", theirs))
    ]
    queues = [make_queue(name=name, ce=ce) for name, ce in zip(["long", "long", "short", "theirs"], ces, strict=True)]
    return {f"{queue.ce.site}/{queue.ce}/{queue}": queue for queue in queues}


def test_a_place_is_resolved_by_its_names(lhcb: VO, grid: dict[str, Queue]) -> None:
    queue = grid["CERN/ce2/long"]
    place = places.resolve_place(lhcb, site="CERN", ce="ce2", queue="long")
    assert (place.site, place.ce, place.queue) == (queue.ce.site, queue.ce, queue)
    assert place.innermost == queue


def test_levels_that_are_left_out_stay_open(lhcb: VO, grid: dict[str, Queue]) -> None:
    assert places.resolve_place(lhcb) == places.ResourcePlace()
    at_site = places.resolve_place(lhcb, site="PIC")
    assert at_site.innermost == at_site.site == grid["PIC/ce1/short"].ce.site
    short = places.resolve_place(lhcb, queue="short")
    assert (short.site, short.ce, short.queue) == (None, None, grid["PIC/ce1/short"])


def test_an_ambiguous_name_is_known_but_not_resolved(lhcb: VO, grid: dict[str, Queue]) -> None:
    assert places.resolve_place(lhcb, ce="ce1") == places.ResourcePlace()
    assert places.resolve_place(lhcb, queue="long") == places.ResourcePlace()
    assert places.resolve_place(lhcb, ce="ce1", queue="short").queue == grid["PIC/ce1/short"]


@pytest.mark.parametrize(
    ("names", "field", "hint"),
    [
        ({"site": "CERM"}, "site", ' Did you mean "CERN"?'),
        ({"site": "BNL"}, "site", ""),
        ({"site": "PIC", "ce": "ce2"}, "ce", ' Did you mean "ce1"?'),
        ({"ce": "ce9"}, "ce", ' Did you mean "ce2"?'),
        ({"site": "CERN", "ce": "ce1", "queue": "lng"}, "queue", ' Did you mean "long"?'),
        ({"queue": "theirs"}, "queue", ""),
    ],
)
def test_an_unknown_name_is_an_error_of_its_field(
    lhcb: VO, grid: dict[str, Queue], names: dict[str, str], field: str, hint: str
) -> None:
    with pytest.raises(places.UnknownPlaceError) as refusal:
        places.resolve_place(lhcb, **names)
    ((sentence,),) = refusal.value.errors.values()
    assert list(refusal.value.errors) == [field]
    assert sentence.endswith(f'that serves your VO is called "{names[field]}" here.{hint}')


def test_a_place_takes_jobs_while_all_its_levels_are_active(lhcb: VO) -> None:
    queue = make_queue()
    assert places.accepting(queue, vo=lhcb, now=NOW)
    for level in (queue, queue.ce, queue.ce.site):
        level.state, level.state_reason = ResourceState.DRAINING, "upgrade"
        reason = places.why_closed(queue, vo=lhcb, now=NOW)
        assert reason.endswith(f" {level} is draining: upgrade")
        level.state = ResourceState.ACTIVE
    assert places.why_closed(queue, vo=lhcb, now=NOW) == ""


def test_a_ban_of_a_queue_leaves_its_site_open(lhcb: VO) -> None:
    queue = make_queue(state=ResourceState.BANNED)
    assert not places.accepting(queue, vo=lhcb, now=NOW)
    assert places.accepting(queue.ce, vo=lhcb, now=NOW)
    assert places.accepting(queue.ce.site, vo=lhcb, now=NOW)


def test_a_ban_ends_by_itself(lhcb: VO) -> None:
    site = make_site(name="CERN", state=ResourceState.BANNED, state_until=NOW)
    assert places.accepting(site, vo=lhcb, now=NOW)
    just_before = NOW - timedelta(seconds=1)
    assert places.why_closed(site, vo=lhcb, now=just_before) == "site CERN is banned until 2026-06-01 12:00 UTC"


def test_a_place_takes_no_jobs_of_a_vo_that_its_site_does_not_serve(lhcb: VO, atlas: VO) -> None:
    queue = make_queue(ce=make_ce(site=make_site(name="CERN", vos=[lhcb])))
    assert places.accepting(queue, vo=lhcb, now=NOW)
    assert places.why_closed(queue, vo=atlas, now=NOW) == "site CERN does not serve atlas"


# ---- Visibility ------------------------------------------------------------------------------------------------------


def test_a_user_in_no_vo_sees_no_site(lhcb: VO) -> None:
    make_site()
    assert not Site.objects.visible_to(make_user()).exists()
    assert Site.objects.visible_to(make_user(operator=True)).exists()
    assert Site.objects.visible_to(make_user(manages=[lhcb])).exists()
