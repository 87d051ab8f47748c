"""Submit pools over REST: those of one queue by their ids, all of a VO in pages (RFC7)."""

from collections.abc import Mapping

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from resources.models import Queue
from taskqueues.services import submit_pools
from tests import factories
from tests.factories import NOW
from wms.accounts.models import VO, User

pytestmark = pytest.mark.django_db

ADDRESS = "/api/v1/submit-pools/"


def register(vo: VO, *required: Mapping[str, object]) -> list[str]:
    """Return the sorted ids of the pools of these requirements."""
    with transaction.atomic():
        return sorted(pool.id for pool in submit_pools.register_all(vo=vo, requirements=required, now=NOW))


def client_of(user: User) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {factories.make_token(user)}")
    return client


@pytest.fixture
def vo() -> VO:
    return factories.make_vo(name="lhcb")


@pytest.fixture
def alice(vo: VO) -> APIClient:
    return client_of(factories.make_user(username="alice", groups=[factories.make_group(vo=vo)]))


@pytest.fixture
def pools(vo: VO) -> list[str]:
    """Return the ids of five pools; the queues of the site satisfy three of them."""
    site = factories.make_site(name="LCG.CERN.ch", vos=[vo])
    ce = factories.make_ce(name="ce02", site=site, parameters={"Memory": 3000})
    for name in ("b", "a"):
        factories.make_queue(name=name, ce=ce)
    return register(vo, *({"Memory": 1000 * n} for n in range(1, 6)))


def test_all_pools_come_in_pages_with_their_queues(alice: APIClient, pools: list[str]) -> None:
    found, address = [], f"{ADDRESS}?page_size=2"
    sizes = []
    while address:
        answer = alice.get(address).json()
        assert set(answer) == {"submit_pools", "next", "previous"}
        found += answer["submit_pools"]
        sizes.append(len(answer["submit_pools"]))
        address = answer["next"]
    assert [pool["id"] for pool in found] == pools
    assert sizes == [2, 2, 1]
    assert alice.get(answer["previous"]).json()["submit_pools"] == found[2:4]
    for pool in found:
        fits = pool["requirements"]["memory"] <= 3000
        assert pool["queues"] == (["LCG.CERN.ch/ce02/a", "LCG.CERN.ch/ce02/b"] if fits else [])
        assert pool["queue_count"] == len(pool["queues"])
    assert {pool["vo"] for pool in found} == {"lhcb"}


def test_the_first_of_many_queues_are_listed_and_all_counted(vo: VO, alice: APIClient) -> None:
    ce = factories.make_ce(name="c", site=factories.make_site(name="S", vos=[vo]), parameters={"Memory": 1})
    Queue.objects.bulk_create(Queue(ce=ce, name=f"q{n:03}", cpu_time_s=1) for n in reversed(range(201)))
    register(vo, {"Memory": 1})
    (pool,) = alice.get(ADDRESS).json()["submit_pools"]
    assert (pool["queue_count"], pool["queues"]) == (201, [f"S/c/q{n:03}" for n in range(200)])


def test_a_page_of_pools_needs_a_constant_number_of_queries(alice: APIClient, pools: list[str]) -> None:
    def queries(size: int) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert len(alice.get(f"{ADDRESS}?page_size={size}").json()["submit_pools"]) == size
        return len(captured)

    assert queries(1) == queries(len(pools))


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("page_size=0", "page_size"),
        ("page_size=1001", "page_size"),
        ("cursor=x", "cursor"),
        ("ordering=queues", "ordering"),
        ("sites=LCG.CERN.ch", "sites"),
        ("vo=atlas", "vo"),
        ("site=LCG.CERN.ch", "queue"),
        ("site=LCG.CERN.ch&ce=ce02", "queue"),
        ("queue=c", "queue"),
        ("site=LCG.CERN.hc", "site"),
    ],
)
def test_an_unresolvable_place_names_the_field(query: str, field: str, alice: APIClient, pools: list[str]) -> None:
    assert pools
    answer = alice.get(f"{ADDRESS}?{query}")
    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == [field]


def test_pools_and_queues_of_other_vos_are_not_shown(vo: VO, alice: APIClient) -> None:
    other = factories.make_vo(name="atlas")
    shared = factories.make_queue(name="shared", parameters={"Memory": 4000})
    theirs = factories.make_queue(
        name="theirs", parameters={"Memory": 4000}, ce=factories.make_ce(site=factories.make_site(vos=[other]))
    )
    (ours,), _ = register(vo, {"Memory": 1}), register(other, {"Memory": 1})
    (pool,) = alice.get(ADDRESS).json()["submit_pools"]
    assert (pool["id"], pool["queues"]) == (ours, [f"{shared.ce.site}/{shared.ce}/shared"])
    assert alice.get(ADDRESS, {"queue": "shared"}).json() == {"submit_pools": [ours]}
    assert alice.get(ADDRESS, {"queue": theirs.name}).status_code == 400


def test_a_member_of_several_vos_must_name_one(pools: list[str]) -> None:
    factories.make_vo(name="atlas")
    olga = client_of(factories.make_user(operator=True))
    assert olga.get(ADDRESS).json()["errors"] == {"vo": ["You have several VOs; name one."]}
    assert [pool["id"] for pool in olga.get(ADDRESS, {"vo": "lhcb"}).json()["submit_pools"]] == pools
    assert olga.get(ADDRESS, {"vo": "atlas"}).json() == {"submit_pools": [], "next": None, "previous": None}
