"""GET /api/v1/groups/{name}/shares/: the share that a group is promised, and the share it received."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from matching.services import accounting
from pilots.models import Pilot
from tests.api.matching.conftest import SampleData, offer
from tests.clock import pass_time, reset_clock
from tests.factories import make_bucket, make_group, make_job, make_match, make_user
from wms.accounts.models import Group, User
from wms.jobs.domain.accounting import Width
from wms.jobs.domain.lifecycle import JobStatus
from wms.kernel.db import database_now

Clients = Callable[[User | Pilot], APIClient]


@pytest.fixture(autouse=True)
def clock(sample: SampleData) -> Iterator[None]:
    yield
    reset_clock()


@pytest.fixture
def user_group(sample: SampleData) -> Group:
    return make_group(name="lhcb_user", vo=sample.vo, priority=3000.0)


def shares(client: APIClient, name: str = "lhcb_prod") -> dict[str, Any]:
    answer = client.get(f"/api/v1/groups/{name}/shares/")
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def deliver(group: Group, *, ago_s: float, lasts_s: float, **description: object) -> None:
    """Create a lease of a job of *group* that began *ago_s* seconds ago and lasted *lasts_s*."""
    begins = database_now() - timedelta(seconds=ago_s)
    job = make_job(group=group, status=JobStatus.DONE, **description)  # type: ignore[arg-type]
    make_match(job=job, leased_at=begins, ended_at=begins + timedelta(seconds=lasts_s))


def count_all() -> None:
    while accounting.count_deliveries() == accounting.AT_ONCE:
        pass


def test_the_answer_for_a_group_without_usage(sample: SampleData, user_group: Group, client_of: Clients) -> None:
    found = shares(client_of(sample.alice))
    delivered = found.pop("delivered")
    assert found == {
        "group": "lhcb_prod",
        "vo": "lhcb",
        "configured": {"share": 1000.0, "fraction": 0.25},
        "corrected": {
            "applied": False,
            "half_life_s": 259200.0,
            "expected": 0.25,
            "used": None,
            "ratio": None,
            "factor": 1.0,
            "least_factor": 1 / 3,
            "most_factor": 3.0,
            "normalization": 1.0,
            "share": 1000.0,
            "fraction": 0.25,
        },
        "in_effect": 1000.0,
    }
    assert list(delivered) == ["hour", "day", "week"]
    for window in delivered.values():
        assert set(window) == {"since", "until", "matches", "lease_time", "segments", "used_by"}
        assert window["matches"] == {"count": 0, "of_vo": 0, "fraction": None}
        assert window["lease_time"] == {"seconds": 0.0, "of_vo_s": 0.0, "fraction": None}
        assert window["segments"] == window["used_by"] == []


@pytest.mark.parametrize("counted", [False, True])
def test_delivered_shares_are_of_the_vo_and_of_the_time_asked(
    counted: bool, sample: SampleData, user_group: Group, client_of: Clients
) -> None:
    """Each lease is counted once, whether the counter has counted none or the older half of the leases."""
    deliver(sample.prod, ago_s=1800, lasts_s=100)
    deliver(sample.prod, ago_s=20 * 3600, lasts_s=100)
    deliver(user_group, ago_s=26 * 3600, lasts_s=50, processors=4)
    deliver(make_group(), ago_s=1800, lasts_s=100)  # of another VO
    if counted:
        count_all()
    deliver(user_group, ago_s=40, lasts_s=30)
    deliver(user_group, ago_s=8 * 24 * 3600, lasts_s=1000)
    delivered = shares(client_of(sample.alice))["delivered"]
    assert [window["matches"] for window in delivered.values()] == [
        {"count": 1, "of_vo": 2, "fraction": 0.5},
        {"count": 2, "of_vo": 3, "fraction": pytest.approx(2 / 3)},
        {"count": 2, "of_vo": 4, "fraction": 0.5},
    ]
    assert [window["lease_time"] for window in delivered.values()] == [
        {"seconds": pytest.approx(100), "of_vo_s": pytest.approx(130), "fraction": pytest.approx(100 / 130)},
        {"seconds": pytest.approx(200), "of_vo_s": pytest.approx(230), "fraction": pytest.approx(200 / 230)},
        {"seconds": pytest.approx(200), "of_vo_s": pytest.approx(430), "fraction": pytest.approx(200 / 430)},
    ]


def test_delivered_shares_are_returned_by_cpu_segment(
    sample: SampleData, user_group: Group, client_of: Clients
) -> None:
    deliver(sample.prod, ago_s=600, lasts_s=10, cpu_time_s=400)
    for _ in range(3):
        deliver(user_group, ago_s=600, lasts_s=10, cpu_time_s=500)
    deliver(user_group, ago_s=600, lasts_s=10, cpu_time_s=86400)
    segments = shares(client_of(sample.alice))["delivered"]["hour"]["segments"]
    assert [(segment["cpu_segment_s"], segment["matches"]) for segment in segments] == [
        (500, {"count": 1, "of_vo": 4, "fraction": 0.25}),
        (300_000, {"count": 0, "of_vo": 1, "fraction": 0.0}),
    ]
    assert segments[0]["lease_time"]["fraction"] == pytest.approx(0.25)


def test_a_match_appears_in_the_delivered_share_at_once(
    sample: SampleData, pilot: APIClient, client_of: Clients
) -> None:
    make_job(owner=sample.alice, group=sample.prod)
    assert pilot.post("/api/v1/matches/", offer(), format="json").status_code == 201
    pass_time(seconds=10)
    hour = shares(client_of(sample.alice))["delivered"]["hour"]
    assert hour["matches"] == {"count": 1, "of_vo": 1, "fraction": 1.0}
    assert hour["lease_time"]["seconds"] == pytest.approx(10, abs=2)


def test_every_factor_of_a_corrected_share_is_returned(
    sample: SampleData, user_group: Group, client_of: Clients
) -> None:
    sample.vo.history_fair_share = True
    sample.vo.save()
    deliver(sample.prod, ago_s=1000, lasts_s=400)
    deliver(user_group, ago_s=1000, lasts_s=400)
    count_all()
    found = shares(client_of(sample.alice))
    # Expected 1/4 and 3/4, used 1/2 each: 1/2 and 3/2 times 1000 and 3000 make 500 and 4500, together 5000, not 4000.
    assert found["corrected"] == {
        "applied": True,
        "half_life_s": 259200.0,
        "expected": 0.25,
        "used": pytest.approx(0.5),
        "ratio": pytest.approx(0.5),
        "factor": pytest.approx(0.5),
        "least_factor": 1 / 3,
        "most_factor": 3.0,
        "normalization": pytest.approx(0.8),
        "share": pytest.approx(400.0),
        "fraction": pytest.approx(0.1),
    }
    assert found["in_effect"] == pytest.approx(400.0)
    assert shares(client_of(sample.alice), "lhcb_user")["in_effect"] == pytest.approx(3600.0)


@pytest.mark.parametrize(
    ("who", "status"),
    [("alice", 200), ("mallory", 200), ("olga", 200), ("charlie", 404), ("pilot", 403), ("nobody", 401)],
)
def test_access_rights_to_the_shares_of_a_group(who: str, status: int, sample: SampleData, client_of: Clients) -> None:
    client = APIClient() if who == "nobody" else client_of(getattr(sample, who))
    assert client.get("/api/v1/groups/lhcb_prod/shares/").status_code == status


def test_a_member_of_another_group_of_the_vo_reads_it_too(
    sample: SampleData, user_group: Group, client_of: Clients
) -> None:
    shares(client_of(make_user(groups=[user_group])))


def test_a_group_that_does_not_exist_is_not_found(sample: SampleData, client_of: Clients) -> None:
    answer = client_of(sample.olga).get("/api/v1/groups/nowhere/shares/")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_shares_need_the_same_queries_for_one_group_and_ten(
    sample: SampleData, client_of: Clients, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client = client_of(sample.alice)
    accounting.count_deliveries()
    for _ in range(10):
        deliver(make_group(vo=sample.vo), ago_s=30, lasts_s=10)
    with django_assert_max_num_queries(12):
        shares(client)


def test_who_used_a_share_is_named_to_those_who_may_see_the_jobs(
    sample: SampleData, user_group: Group, client_of: Clients
) -> None:
    other = make_user(username="other", groups=[user_group])
    hour = Width.HOUR.begin_of(database_now())
    for user, wall_s in ((sample.alice, 3600.0), (other, 7200.0)):
        make_bucket(owner=user, group=user_group, begun_at=hour, wall_s=wall_s)

    def used_by(user: User) -> list[dict[str, object]]:
        used: list[dict[str, object]] = shares(client_of(user), user_group.name)["delivered"]["day"]["used_by"]
        return used

    mine = {"user": "alice", "core_hours": 1.0}
    assert used_by(make_user(manages=[sample.vo])) == [{"user": "other", "core_hours": 2.0}, mine]
    assert used_by(sample.alice) == [mine]
