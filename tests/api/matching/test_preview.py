"""POST /api/v1/matches/preview/: the jobs that an offer would get, and reasons against the others."""

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from matching.models import Match
from pilots.models import Pilot
from resources.domain.enums import ResourceState
from resources.models import Site
from taskqueues.models import QueuedJob
from taskqueues.services import priorities
from tests import factories
from tests.api.matching.conftest import SampleData
from wms.accounts.models import User
from wms.wire.amounts import AMOUNTS

NAMES = [
    *("owner_group", "setup", "cpu_time", "pilot_type", "site", "banned_site", "ce", "platform", "submit_pool"),
    *("software", "tags", "required_tags", "job_type", *(amount.condition for amount in AMOUNTS)),
    *("container", "downtime", "throttle", "limit"),
]


@pytest.fixture
def manager(sample: SampleData, client_of: Callable[[User | Pilot], APIClient]) -> APIClient:
    return client_of(sample.mallory)


def preview(client: APIClient, **said: Any) -> dict[str, Any]:
    answer = client.post("/api/v1/matches/preview/", {"cpu_time_s": 300_000, **said}, format="json")
    assert answer.status_code == 200, answer.content
    seen: dict[str, Any] = answer.json()
    return seen


def test_probabilities_are_the_priorities_within_the_highest_segment(sample: SampleData, manager: APIClient) -> None:
    other = factories.make_group(vo=sample.vo, priority=3000.0, shares_jobs=True)
    sample.prod.priority = 1000.0
    sample.prod.save()
    for group, cpu_time_s in ((sample.prod, 86_400), (other, 86_400), (other, 500), (other, 500)):
        factories.make_job(group=group, owner=sample.alice, cpu_time_s=cpu_time_s)
    priorities.recalculate()
    queues = preview(manager)["task_queues"]
    # The other group's 3000 are divided 1 : 2 over its two queues; only its long one is in the highest segment.
    assert [(q["group"], q["cpu_time_s"], q["jobs"], q["priority"], q["chance"]) for q in queues] == [
        (sample.prod.name, 300_000, 1, pytest.approx(1000), pytest.approx(0.5)),
        (other.name, 300_000, 1, pytest.approx(1000), pytest.approx(0.5)),
        (other.name, 500, 2, pytest.approx(2000), 0.0),
    ]
    assert sum(q["chance"] for q in queues) == pytest.approx(1.0)


def test_a_preview_claims_nothing(sample: SampleData, manager: APIClient) -> None:
    factories.make_job(group=sample.prod, owner=sample.alice)
    preview(manager)
    assert QueuedJob.objects.count() == 1
    assert not Match.objects.exists()


def test_an_emptied_queue_is_not_listed(sample: SampleData, manager: APIClient) -> None:
    factories.make_job(group=sample.prod, owner=sample.alice)
    factories.make_task_queue(group=sample.prod, owner=sample.alice, job_type="emptied")
    seen = preview(manager)
    assert [queue["chance"] for queue in seen["task_queues"]] == [1.0]
    assert {condition["left"] for condition in seen["conditions"]} == {1}


def test_conditions_are_cumulative_and_in_their_order(sample: SampleData, manager: APIClient) -> None:
    factories.make_job(group=sample.prod, owner=sample.alice, tags=["gpu"])
    factories.make_job(group=sample.prod, owner=sample.alice, sites=["LCG.RAL.uk"])
    factories.make_job(group=sample.prod, owner=sample.alice, cpu_time_s=500)
    factories.make_job(group=factories.make_group())
    conditions = preview(manager, site="LCG.CERN.ch", cpu_time_s=400_000)["conditions"]
    assert [c["name"] for c in conditions] == NAMES
    assert [c["left"] for c in conditions] == [3, 3, 3, 3, 2, 2, 2, 2, 2, 2, *[1] * (len(NAMES) - 10)]


def test_properties_left_out_of_a_preview_are_not_compared(sample: SampleData, manager: APIClient) -> None:
    factories.make_job(
        group=sample.prod, owner=sample.alice, sites=["LCG.RAL.uk"], platforms=["el9"], grid_ces=["elsewhere"]
    )
    assert len(preview(manager)["task_queues"]) == 1
    assert len(preview(manager, site="ANY", ce="ANY", queue="ANY")["task_queues"]) == 1
    assert preview(manager, platforms=[])["task_queues"] == []
    assert preview(manager, site="LCG.CERN.ch")["task_queues"] == []


def test_compatible_platforms_run_older_jobs(sample: SampleData, manager: APIClient) -> None:
    factories.make_platform(name="x86_64-el9", runs=["x86_64-el8"])
    factories.make_job(group=sample.prod, owner=sample.alice, platforms=["x86_64-el8"])
    assert len(preview(manager, platforms=["x86_64-el9"])["task_queues"]) == 1
    assert preview(manager, platforms=["x86_64-el7"])["task_queues"] == []


def test_a_preview_with_a_group_is_of_a_private_pilot(sample: SampleData, manager: APIClient) -> None:
    plain = factories.make_group(name="lhcb_user", vo=sample.vo)
    alice, _ = sample.alice, factories.make_job(group=sample.prod, owner=sample.alice)
    dora = factories.make_user(username="dora", groups=[plain])
    factories.make_job(group=plain, owner=dora)
    assert [q["group"] for q in preview(manager, group="lhcb_prod")["task_queues"]] == ["lhcb_prod"]
    assert [q["owner"] for q in preview(manager, group="lhcb_prod", owner=alice.username)["task_queues"]] == ["alice"]
    assert [q["owner"] for q in preview(manager, group="lhcb_user", owner="dora")["task_queues"]] == ["dora"]


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"group": "lhcb_user"}, "owner"),
        ({"owner": "alice"}, "owner"),
        ({"group": "lhcb_usr", "owner": "alice"}, "group"),
        ({"group": "lhcb_user", "owner": "alice"}, "owner"),
        ({"vo": "cms"}, "vo"),
        ({"site": "LCG.CERM.ch"}, "site"),
        ({"ce": "ce02.cern.ch"}, "ce"),
        ({"queue": "gird"}, "queue"),
        ({"setup": "nowhere"}, "setup"),
        ({"required_tags": ["x"]}, "required_tags"),
    ],
)
def test_names_that_do_not_exist_are_refused(
    sample: SampleData, manager: APIClient, said: dict[str, Any], field: str
) -> None:
    factories.make_group(name="lhcb_user", vo=sample.vo)
    answer = manager.post("/api/v1/matches/preview/", {"cpu_time_s": 500, **said}, format="json")
    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == [field]


def test_a_group_of_priority_zero_fits_and_has_no_chance(sample: SampleData, manager: APIClient) -> None:
    nobody = factories.make_group(vo=sample.vo, priority=0.0)
    factories.make_job(group=nobody)
    factories.make_job(group=sample.prod, owner=sample.alice, cpu_time_s=500)
    queues = preview(manager)["task_queues"]
    assert [(q["group"], q["chance"]) for q in queues] == [(nobody.name, 0.0), ("lhcb_prod", 1.0)]


def test_at_a_banned_site_nothing_passes_the_condition_on_sites(sample: SampleData, manager: APIClient) -> None:
    factories.make_job(group=sample.prod, owner=sample.alice)
    Site.objects.update(state=ResourceState.BANNED, state_reason="Cooling")
    seen = preview(manager, site="LCG.CERN.ch")
    assert seen["task_queues"] == []
    left = {c["name"]: c["left"] for c in seen["conditions"]}
    assert (left["pilot_type"], left["site"]) == (1, 0)


def test_the_queries_do_not_grow_with_the_queues(
    sample: SampleData, manager: APIClient, django_assert_max_num_queries: Any
) -> None:
    for number in range(30):
        factories.make_job(group=sample.prod, owner=sample.alice, job_type=f"type{number}")
    with django_assert_max_num_queries(13):
        assert len(preview(manager)["task_queues"]) == 30
