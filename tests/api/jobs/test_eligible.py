"""GET /api/v1/submit-pools/eligible/: queues where jobs with given requirements could run, and
reasons against the others (RFC7).
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from resources.domain.enums import SiteTokenPurpose
from resources.models import RequirementDefinition, Site
from resources.services.site_tokens import issue_site_token
from taskqueues.models import SubmitPool
from tests import factories
from tests.api.jobs.conftest import SampleData
from wms.accounts.models import User

ADDRESS = "/api/v1/submit-pools/eligible/"


@pytest.fixture
def grid(sample: SampleData) -> SampleData:
    """Add three sites: A has Memory 4000 and tags, its ce2 less; B has neither; C serves other VOs."""
    RequirementDefinition.objects.create(name="Memory", kind="capacity", unit="MB")
    RequirementDefinition.objects.create(name="Model", kind="exact")
    Site.objects.all().delete()
    site = factories.make_site(name="A", vos=[sample.vo], parameters={"Memory": 4000, "SoftwareTag": ["v1", "v2"]})
    first = factories.make_ce(name="ce1", site=site)
    factories.make_queue(name="q2", ce=first)
    factories.make_queue(name="q1", ce=first, vo_parameters={"lhcb": {"Memory": 8000}})
    second = factories.make_ce(name="ce2", site=site, parameters={"Memory": 2000, "Model": "old"})
    factories.make_queue(name="q1", ce=second)
    factories.make_queue(name="q3", ce=second, parameters={"Memory": 16000, "SoftwareTag": "v3"})
    factories.make_queue(name="q", ce=factories.make_ce(name="ce", site=factories.make_site(name="B", vos=[])))
    other = factories.make_site(name="C", vos=[factories.make_vo(name="atlas")], parameters={"Memory": 9999, "Z": 1})
    factories.make_queue(ce=factories.make_ce(site=other))
    return sample


def ask(client: APIClient | Client, requirements: object, **query: str) -> Any:
    text = requirements if isinstance(requirements, str) else json.dumps(requirements)
    return client.get(ADDRESS, {"requirements": text, **query})


def test_eligible_queues_are_a_tree_and_others_have_reasons(grid: SampleData, alice: APIClient) -> None:
    answer = ask(alice, {"Memory": 4000, "softwareTag": ["v1", "v9"]})
    assert answer.status_code == 200, answer.content
    told = answer.json()
    assert told["vo"] == "lhcb"
    assert told["requirements"] == {"memory": 4000, "softwaretag": ["v1", "v9"]}
    assert told["eligible"] == {"A": {"ce1": ["q1", "q2"]}}
    assert told["eligible_queues"] == 2
    assert told["ineligible"] == [
        {
            "site": "A", "ce": "ce2", "queue": "q1",
            "unmet": [
                {
                    "name": "Memory", "problem": "too_small", "asked": 4000, "offered": 2000, "level": "ce",
                    "detail": "Memory: 2000 MB there, 4000 MB required",
                }
            ],
        },
        {
            "site": "A", "ce": "ce2", "queue": "q3",
            "unmet": [
                {
                    "name": "softwareTag", "problem": "not_among", "asked": ["v1", "v9"], "offered": "v3",
                    "level": "queue", "detail": "softwareTag: v3 there, v1 or v9 required",
                }
            ],
        },
        {
            "site": "B", "ce": "ce", "queue": "q",
            "unmet": [
                {
                    "name": name, "problem": "not_described", "asked": asked, "offered": None, "level": None,
                    "detail": f"{name}: not described there, {words} required",
                }
                for name, asked, words in (
                    ("Memory", 4000, "4000 MB"), ("softwareTag", ["v1", "v9"], "v1 or v9")
                )
            ],
        },
    ]  # fmt: skip


def test_an_exact_value_and_a_text_beside_a_number(grid: SampleData, alice: APIClient) -> None:
    (missed,) = [each for each in ask(alice, {"Model": "new"}).json()["ineligible"] if each["queue"] == "q3"]
    assert [(each["problem"], each["level"]) for each in missed["unmet"]] == [("other_value", "ce")]
    Site.objects.filter(name="B").update(parameters={"Memory": "4000"})
    of_b = [each for each in ask(alice, {"Memory": 1}).json()["ineligible"] if each["site"] == "B"]
    assert [(each["problem"], each["level"]) for each in of_b[0]["unmet"]] == [("not_a_number", "site")]


def test_nothing_is_stored_and_the_pool_is_that_of_a_submission(grid: SampleData, alice: APIClient) -> None:
    pool = ask(alice, {"Memory": 4000}).json()["submit_pool"]
    assert not SubmitPool.objects.exists()
    alice.post("/api/v1/jobs/", {"executable": "a", "requirements": {"MEMORY": 4000.0}}, format="json")
    assert SubmitPool.objects.get().pk == pool
    tree = ask(alice, {"Memory": 4000}).json()["eligible"]
    names = {(queue.ce.site.name, queue.ce.name, queue.name) for queue in SubmitPool.objects.get().queues.all()}
    assert names == {(site, ce, queue) for site, ces in tree.items() for ce, queues in ces.items() for queue in queues}


@pytest.mark.parametrize(
    ("requirements", "field", "words"),
    [
        ({"Memroy": 1}, "requirements.Memroy", 'Did you mean "Memory"?'),
        ({"CPUTime": 1}, "requirements.CPUTime", "give cpu_time_s beside requirements (CPUTime in JDL and CFG)."),
        ({"cpu_time_s": 1}, "requirements.cpu_time_s", "give cpu_time_s beside requirements"),
        ({"Site": "A"}, "requirements.Site", "give sites beside requirements (Site in JDL and CFG)."),
        ({"Platform": "x"}, "requirements.Platform", "give platforms beside requirements"),
        ({"MaxRAM": 1}, "requirements.MaxRAM", "give memory_mb beside requirements (Memory in JDL and CFG)."),
        ({"Z": 1}, "requirements.Z", "is described by no resource of your VO."),
        ({"Memory": "4000"}, "requirements.Memory", "Write 4000, without quotes."),
        ({"Memory": {"a": 1}}, "requirements.Memory", "use a text, a number"),
        ("Memory > 1", "requirements", "must be a JSON object"),
        ('{"Memory": NaN}', "requirements", "must be a JSON object"),
        ("[]", "requirements", "use a record"),
        ('"a"', "requirements", "expressions are not understood"),
    ],
)
def test_eligible_refuses_the_requirements_that_a_submission_refuses(
    requirements: object, field: str, words: str, grid: SampleData, alice: APIClient
) -> None:
    answer = ask(alice, requirements)
    assert answer.status_code == 400
    assert words in answer.json()["errors"][field][0]
    if isinstance(requirements, Mapping) and not isinstance(requirements.get("Memory"), Mapping):
        body = {"executable": "a", "requirements": requirements}
        assert alice.post("/api/v1/jobs/", body, format="json").json()["errors"] == answer.json()["errors"]


@pytest.mark.parametrize("query", [{}, {"requirements": "{}", "site": "A"}])
def test_a_wrong_query_is_refused(query: dict[str, str], grid: SampleData, alice: APIClient) -> None:
    assert alice.get(ADDRESS, query).status_code == 400


def test_without_requirements_all_queues_of_the_vo_are_eligible(grid: SampleData, alice: APIClient) -> None:
    told = ask(alice, {}).json()
    assert (told["eligible_queues"], told["ineligible"]) == (5, [])


def test_callers_see_their_own_vos_only(grid: SampleData, client_of: Callable[[User], APIClient]) -> None:
    atlas = factories.make_group(vo=Site.objects.get(name="C").vos.get())
    both = client_of(factories.make_user(groups=[grid.users, atlas]))
    answer = ask(both, {"Memory": 1})
    assert (answer.status_code, list(answer.json()["errors"])) == (400, ["vo"])
    assert ask(both, {"Z": 1}, vo="atlas").json()["eligible_queues"] == 1
    refused = ask(client_of(grid.alice), {"Memory": 1}, vo="atlas")
    assert refused.json()["errors"] == {"vo": ["You have no such VO."]}
    assert ask(client_of(grid.olga), {"Z": 1}, vo="atlas").status_code == 200


@pytest.mark.parametrize(
    ("caller", "status"), [("alice", 200), ("mallory", 400), ("session", 200), ("site", 403), ("nobody", 401)]
)
def test_access_rights_of_the_endpoint(
    caller: str, status: int, grid: SampleData, client_of: Callable[[User], APIClient]
) -> None:
    site = APIClient()
    token = issue_site_token(Site.objects.get(name="A"), purpose=SiteTokenPurpose.REGISTER, now=timezone.now())
    site.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    session = Client()
    session.force_login(grid.alice)
    callers: dict[str, APIClient | Client] = {
        "alice": client_of(grid.alice), "session": session, "site": site, "nobody": APIClient(),
        # A member of one VO and manager of another must say which.
        "mallory": client_of(grid.mallory),
    }  # fmt: skip
    assert ask(callers[caller], {"Memory": 1}).status_code == status


def test_hundreds_of_queues_need_as_many_statements_as_one(grid: SampleData, alice: APIClient) -> None:
    def statements() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert ask(alice, {"Memory": 5000, "SoftwareTag": "v1"}).status_code == 200
        return len(captured)

    few = statements()
    for number in range(20):
        ce = factories.make_ce(site=factories.make_site(parameters={"Memory": number}))
        for _ in range(15):
            factories.make_queue(ce=ce)
    assert statements() == few <= 20
    assert len(ask(alice, {"Memory": 5000}).json()["ineligible"]) == 200
