"""GET /api/v1/accounting/: sums of a period."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from rest_framework.test import APIClient

from resources.models import Site
from tests import factories
from tests.api.jobs.conftest import SampleData
from tests.problems import of_problem
from wms.accounts.models import User
from wms.jobs.domain.accounting import Width
from wms.jobs.queries import accounting

PATH = "/api/v1/accounting/"
ClientOf = Callable[[User], APIClient]


@pytest.fixture
def used(sample: SampleData) -> SampleData:
    """Fill two days of Alice and one of Dora, in a year that is over."""
    Site.objects.filter(pk=sample.cern.pk).update(parameters={"Country": "CH"})
    numbers: dict[str, Any] = {"started": 4, "done": 3, "failed": 1, "cpu_s": 1800.0, "wall_s": 7200.0}
    for owner, month, site in ((sample.alice, 1, sample.cern), (sample.alice, 2, sample.ral), (sample.dora, 2, None)):
        factories.make_bucket(
            owner=owner, group=sample.users, begun_at=datetime(2025, month, 10, tzinfo=UTC), width=Width.DAY,
            site=site, **numbers,
        )  # fmt: skip
    return sample


def test_core_hours_of_a_vo_by_country(used: SampleData, client_of: ClientOf) -> None:
    answer = client_of(used.mallory).get(f"{PATH}?by=country,month&vo=lhcb&since=2025-01-01&until=2025-12-31").json()
    sums = {
        "started": 4, "done": 3, "failed": 1, "killed": 0, "success": 0.75, "cpu_hours": 0.5, "core_hours": 2.0,
        "efficiency": 0.25,
    }  # fmt: skip
    twice = {"started": 8, "done": 6, "failed": 2, "killed": 0, "cpu_hours": 1.0, "core_hours": 4.0}
    thrice = {"started": 12, "done": 9, "failed": 3, "killed": 0, "cpu_hours": 1.5, "core_hours": 6.0}
    assert answer == {
        # There are no numbers of earlier days.
        "since": "2025-01-10",
        "until": "2025-12-31",
        "by": ["country", "month"],
        "row_count": 2,
        "results": [
            {"country": "CH", "month": "2025-01", **sums},
            {"country": None, "month": "2025-02", **sums, **twice},
        ],
        "total": {**sums, **thrice},
    }


def test_users_see_their_own_jobs_and_filters_apply(used: SampleData, alice: APIClient) -> None:
    def done(query: str) -> int:
        total: int = alice.get(f"{PATH}?since=2025-01-01&{query}").json()["total"]["done"]
        return total

    assert done("") == 6
    assert done("site=LCG.CERN.ch") == done("until=2025-01-31") == 3
    assert done("group=lhcb_user&user=alice&type=User&vo=lhcb") == 6
    assert done("user=dora") == done("vo=atlas") == 0
    assert alice.get(f"{PATH}?since=2025-01-01").json()["results"][0]["group"] == "lhcb_user"


def test_a_period_without_numbers_is_said_to_have_none(used: SampleData, alice: APIClient) -> None:
    answer = alice.get(f"{PATH}?since=2024-01-01&until=2024-12-31").json()
    assert (answer["since"], answer["until"], answer["results"]) == (None, None, [])
    assert (answer["total"]["done"], answer["total"]["success"]) == (0, None)


def test_an_answer_says_how_many_rows_there_are(
    used: SampleData, alice: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wms.jobs.api.accounting.MOST_ROWS", 1)
    answer = alice.get(f"{PATH}?by=month&since=2025-01-01").json()
    assert (len(answer["results"]), answer["row_count"], answer["total"]["done"]) == (1, 2, 6)
    assert accounting.MOST_ROWS == 10_000


@pytest.mark.parametrize(
    ("query", "field", "word"),
    [
        ("by=colour", "by", "cannot be counted"),
        ("by=grup", "by", "group"),
        ("by=group,user,site", "by", "2 properties at most"),
        ("since=yesterday", "since", "YYYY-MM-DD"),
        ("since=2026-01-01T00:00:00Z", "since", "YYYY-MM-DD"),
        ("until=", "until", ""),
        ("since=2026-02-01&until=2026-01-01", "until", "before the first"),
        ("sicne=2026-01-01", "sicne", "since"),
        ("vo=a&vo=b", "vo", "more than once"),
        ("format=csv", "format", "Unknown field"),
    ],
)
def test_a_wrong_query_is_one_clear_error(query: str, field: str, word: str, alice: APIClient) -> None:
    refusal = alice.get(f"{PATH}?{query}").json()
    assert of_problem(refusal)[:2] == (400, "invalid_input")
    assert word in refusal["errors"][field][0]
