"""The fit of a description: as the match and explain judge it, before anything is submitted."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from matching.domain.findings import Fit
from matching.queries.explain.explanation import explain
from matching.services import rehearsal
from matching.services.rehearsal import Rehearsal, rehearse
from matching.services.submission import submit
from resources.domain.enums import RequirementKind, ResourceState
from resources.models import Site
from tests.factories import (
    NOW,
    make_ce,
    make_group,
    make_queue,
    make_replica,
    make_requirement_definition,
    make_site,
    make_storage_element,
    make_user,
    make_vo,
)
from tests.tables import checksums
from wms.accounts.models import Group, User
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    vo = make_vo(name="lhcb")
    return make_user(username="alice", groups=[make_group(name="lhcb_user", vo=vo)])


def rehearsed(alice: User, **description: Any) -> Rehearsal:
    body = {"executable": "/bin/echo", "cpu_time_s": 500, **description}
    return rehearse(parse_submission(body), owner=alice, coming_files={}, now=NOW)


def fit(alice: User, **description: Any) -> Fit:
    (kind,) = rehearsed(alice, **description).kinds
    assert kind.fit is not None
    return kind.fit


def rehearsed_list(alice: User, *jobs: dict[str, Any]) -> Rehearsal:
    body = {"jobs": [{"executable": "/bin/echo", "cpu_time_s": 500, **job} for job in jobs]}
    return rehearse(parse_submission(body), owner=alice, coming_files={}, now=NOW)


def queue_at(site: str, **values: Any) -> None:
    make_queue(ce=make_ce(site=make_site(name=site)), **values)


def test_each_condition_names_the_sites_that_it_excludes(alice: User) -> None:
    queue_at("LCG.CERN.ch", memory_mb=4000)
    queue_at("LCG.CNAF.it", cpu_time_s=5000, memory_mb=4000)
    queue_at("LCG.PIC.es", memory_mb=1000)
    found = fit(alice, cpu_time_s=40_000, memory_mb=2000)
    assert (found.fitting, found.queues, found.closed, list(found.sites)) == (1, 3, 0, ["LCG.CERN.ch"])
    assert {(each.condition, each.queues, tuple(each.sites)) for each in found.exclusions} == {
        ("cpu_time", 1, ("LCG.CNAF.it",)),
        ("memory", 1, ("LCG.PIC.es",)),
    }
    details = {each.condition: each.detail for each in found.exclusions}
    assert "40000 s of CPU time per core, which counts as 50000 s" in details["cpu_time"]


def test_a_site_with_another_queue_that_fits_is_not_named_as_excluded(alice: User) -> None:
    site = make_site(name="LCG.CERN.ch")
    make_queue(ce=make_ce(site=site), cpu_time_s=5000)
    make_queue(ce=make_ce(site=site), cpu_time_s=300_000)
    (exclusion,) = fit(alice, cpu_time_s=40_000).exclusions
    assert (exclusion.queues, list(exclusion.sites)) == (1, [])


def test_queues_that_fit_and_are_banned_are_counted_apart(alice: User) -> None:
    make_queue(ce=make_ce(site=make_site(name="LCG.CERN.ch", state=ResourceState.BANNED)))
    found = fit(alice)
    assert (found.fitting, found.closed) == (0, 1)
    assert [(each.condition, list(each.sites)) for each in found.exclusions] == [("closed", ["LCG.CERN.ch"])]


def test_requirements_are_compared_without_registering_a_pool(alice: User) -> None:
    make_requirement_definition(name="Memory", kind=RequirementKind.CAPACITY)
    queue_at("LCG.CERN.ch", parameters={"Memory": 8000})
    queue_at("LCG.PIC.es", parameters={"Memory": 2000})
    found = fit(alice, requirements={"Memory": 4000})
    assert list(found.sites) == ["LCG.CERN.ch"]
    assert [(each.condition, list(each.sites)) for each in found.exclusions] == [("submit_pool", ["LCG.PIC.es"])]


def test_a_group_with_priority_0_never_gets_a_pilot() -> None:
    alice = make_user(groups=[make_group(priority=0.0)])
    queue_at("LCG.CERN.ch")
    assert "has priority 0" in fit(alice).never


def test_errors_and_warnings_are_those_of_a_submission(alice: User) -> None:
    make_site(name="LCG.CERN.ch")
    assert rehearsed(alice, sites=["LCG.CERN.hc"]).errors == {
        "sites": ['No site of the VO lhcb is called "LCG.CERN.hc". Did you mean "LCG.CERN.ch"?']
    }
    found = rehearsed(alice, executable="./run.sh", priority=0)
    request = parse_submission({"executable": "./run.sh", "priority": 0, "cpu_time_s": 500})
    warnings = submit(request, owner=alice, now=NOW).warnings
    assert [warning for warning in warnings if warning in found.warnings] == list(found.warnings)
    assert len(found.warnings) == 2


def test_a_rehearsal_writes_nothing(alice: User) -> None:
    make_requirement_definition(name="Memory", kind=RequirementKind.CAPACITY)
    queue_at("LCG.CERN.ch", parameters={"Memory": 8000})
    before = checksums()
    rehearsed(alice, requirements={"Memory": 4000}, parameters={"count": 50}, submit_pools=[])
    rehearsed(alice, submit_pools=["some"])
    assert checksums() == before


def test_rehearsals_need_a_constant_number_of_queries(alice: User) -> None:
    for number in range(3):
        queue_at(f"LCG.S{number}.org")
    rehearsed(alice)
    with CaptureQueriesContext(
        connection,
    ) as of_one:
        rehearsed(alice, arguments="other")
    with CaptureQueriesContext(connection) as of_many:
        rehearsed(alice, arguments="%n", parameters={"count": 300})
    with CaptureQueriesContext(connection) as of_kinds:
        rehearsed_list(alice, *({"memory_mb": 1000 * number} for number in range(1, 30)))
    assert len(of_one) == len(of_many) == len(of_kinds) <= 10


def test_each_kind_of_jobs_is_compared_and_those_with_most_jobs_come_first(alice: User) -> None:
    queue_at("LCG.CERN.ch", memory_mb=4000)
    queue_at("LCG.PIC.es", memory_mb=1000)
    found = rehearsed_list(
        alice,
        {"memory_mb": 8000},
        *[{"memory_mb": 2000, "arguments": str(number)} for number in range(3)],
        {"memory_mb": 1000, "job_name": "a"},
        {"memory_mb": 999},  # counts as 1000 MB
    )
    kinds = [(kind.positions, kind.fit and (kind.fit.fitting, kind.fit.queues)) for kind in found.kinds]
    assert kinds == [([1, 2, 3], (1, 2)), ([4, 5], (2, 2)), ([0], (0, 2))]
    assert list(found.uncompared) == []


def test_jobs_with_different_requirements_on_resources_are_of_different_kinds(alice: User) -> None:
    make_requirement_definition(name="Memory", kind=RequirementKind.CAPACITY)
    queue_at("LCG.CERN.ch", parameters={"Memory": 8000})
    queue_at("LCG.PIC.es", parameters={"Memory": 2000})
    found = rehearsed_list(alice, *({"requirements": {"Memory": memory}} for memory in (1000, 4000, 16_000)))
    assert [kind.fit and kind.fit.fitting for kind in found.kinds] == [2, 1, 0]


def test_jobs_without_a_site_for_their_input_data_are_a_kind_of_their_own(alice: User) -> None:
    queue_at("LCG.CERN.ch")
    queue_at("LCG.PIC.es")
    element = make_storage_element(sites=[Site.objects.get(name="LCG.CERN.ch")])
    data = {"input_data": [make_replica("/lhcb/a", vo=Group.objects.get().vo, storage_element=element).lfn]}
    found = rehearsed_list(alice, {}, data, *[{**data, "sites": ["LCG.PIC.es"]}] * 2)
    assert [(kind.positions, kind.fit and kind.fit.fitting) for kind in found.kinds] == [
        ([2, 3], None),
        ([0], 2),
        ([1], 1),
    ]


def test_kinds_with_most_jobs_are_compared_and_others_counted(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    queue_at("LCG.CERN.ch")
    queue_at("LCG.PIC.es")
    jobs = [{"processors": number} for number in (1, 2, 2, 3, 3, 3)]
    monkeypatch.setattr(rehearsal, "MOST_COMPARED", 4)
    found = rehearsed_list(alice, *jobs)
    assert [len(kind.positions) for kind in found.kinds] == [3, 2]
    assert list(found.uncompared) == [1]
    monkeypatch.setattr(rehearsal, "MOST_COMPARED", 1)
    assert [len(kind.positions) for kind in rehearsed_list(alice, *jobs).kinds] == [3]


def test_the_fit_is_that_of_explain_after_the_submission(alice: User, subtests: pytest.Subtests) -> None:
    queue_at("LCG.CERN.ch", platforms=["x86_64-el9"], tags=["gpu", "root"], processors=8)
    queue_at("LCG.PIC.es", cpu_time_s=5000, container=True)
    queue_at("LCG.RAL.uk", memory_mb=1000, tags=["root"], container=True)
    descriptions: list[dict[str, Any]] = [
        {},
        {"cpu_time_s": 40_000},
        {"memory_mb": 3000, "tags": ["gpu"]},
        {"sites": ["LCG.CERN.ch"], "platforms": ["x86_64-el9"]},
        {"banned_sites": ["LCG.CERN.ch"], "processors": 4},
        {"software": ["root"], "container": "docker://alpine"},
    ]
    for description in descriptions:
        with subtests.test(description=description):
            found = fit(alice, **description)
            request = parse_submission({"executable": "/bin/echo", "cpu_time_s": 500, **description})
            (submitted,) = submit(request, owner=alice, now=timezone.now()).jobs
            job = Job.objects.with_description().select_related("owner", "group__vo", "vo").get(pk=submitted.id)
            explained = explain(job, task_queue_id=submitted.task_queue, now=timezone.now())
            assert explained.findings is not None
            assert found.fitting == sum(not queue.causes for queue in explained.queues)
            assert found.queues == len(explained.queues)
            failed = {each.name: each.failed_queues for each in explained.findings.conditions if each.failed_queues}
            assert {each.condition: each.queues for each in found.exclusions} == failed
